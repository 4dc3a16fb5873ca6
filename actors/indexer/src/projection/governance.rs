//! Projections of corporations, ecosystems, and their governance frameworks.

use serde_json::{Value, json};
use svc_wire::proto::svc::{
    co::v1::CorporationWithGf, ec::v1::EcosystemWithVersions, gf::v1::GovernanceFrameworkVersionWithDocs,
};

use super::time_or_null;

pub fn corporation(entity: &CorporationWithGf) -> Value {
    let versions: Vec<Value> = entity.versions.iter().map(corporation_version).collect();
    json!({
        "id": entity.id, "did": entity.did, "policy_address": entity.policy_address, "language": entity.language,
        "active_version": entity.active_version, "created": time_or_null(entity.created.as_ref()),
        "modified": time_or_null(entity.modified.as_ref()), "versions": versions,
    })
}

/// Returns a version of a corporation's framework, with both names of each key. The ids of rows are the ids of the
/// ledger, so both have the same value.
fn corporation_version(entity: &GovernanceFrameworkVersionWithDocs) -> Value {
    let mut body = framework_version(entity);
    body["corporation_id"] = entity.corporation_id.into();
    body["ecosystem_id"] = Value::Null;
    body["gfv_id"] = entity.id.into();
    for document in body["documents"].as_array_mut().into_iter().flatten() {
        document["gfd_id"] = document["id"].clone();
    }
    body
}

/// Returns an ecosystem. The chain has only a flag for archived ones: the time of the change stands in for the time of
/// archiving ([`keep_archive_time`]).
pub fn ecosystem(entity: &EcosystemWithVersions) -> Value {
    let archived = if entity.archived { time_or_null(entity.modified.as_ref()) } else { Value::Null };
    let versions: Vec<Value> = entity.versions.iter().map(framework_version).collect();
    json!({
        "id": entity.id, "did": entity.did, "corporation_id": entity.corporation_id,
        "created": time_or_null(entity.created.as_ref()), "modified": time_or_null(entity.modified.as_ref()), "archived": archived,
        "language": entity.language, "active_version": entity.active_version, "versions": versions,
    })
}

/// Keeps the archive time of an ecosystem that was archived before.
pub fn keep_archive_time(body: &mut Value, before: &Value) {
    if !body["archived"].is_null() && !before["archived"].is_null() {
        body["archived"] = before["archived"].clone();
    }
}

fn framework_version(entity: &GovernanceFrameworkVersionWithDocs) -> Value {
    let documents: Vec<Value> = entity
        .documents
        .iter()
        .map(|document| {
            json!({
                "id": document.id, "gfv_id": document.gfv_id, "created": time_or_null(document.created.as_ref()),
                "language": document.language, "url": document.url, "digest_sri": document.digest_sri,
            })
        })
        .collect();
    json!({
        "id": entity.id, "ecosystem_id": entity.ecosystem_id, "created": time_or_null(entity.created.as_ref()),
        "version": entity.version, "active_since": time_or_null(entity.active_since.as_ref()), "documents": documents,
    })
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    #[test]
    fn an_archived_ecosystem_keeps_its_archive_time() {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let mut entity = EcosystemWithVersions { archived: true, modified: at(10), ..Default::default() };
        let first = ecosystem(&entity);
        assert_eq!(first["archived"], "1970-01-01T00:00:10.000Z");
        entity.modified = at(20);
        let mut second = ecosystem(&entity);
        keep_archive_time(&mut second, &first);
        assert_eq!(second["archived"], first["archived"]);
        entity.archived = false;
        let mut third = ecosystem(&entity);
        keep_archive_time(&mut third, &second);
        assert_eq!(third["archived"], Value::Null);
    }
}
