//! Corporations, ecosystems, and their governance frameworks.

use serde_json::{Value, json};
use svc_wire::proto::svc::{
    co::v1::CorporationWithGf, ec::v1::EcosystemWithVersions, gf::v1::GovernanceFrameworkVersionWithDocs,
};

use super::millis;

pub fn corporation(entity: &CorporationWithGf) -> Value {
    let versions: Vec<Value> = entity.versions.iter().map(corporation_version).collect();
    json!({
        "id": entity.id, "did": entity.did, "policy_address": entity.policy_address, "language": entity.language,
        "active_version": entity.active_version, "created": millis(entity.created.as_ref()),
        "modified": millis(entity.modified.as_ref()), "versions": versions,
    })
}

/// A corporation's versions tell every key twice. Row keys are the ledger's own keys here, so both spellings agree.
fn corporation_version(entity: &GovernanceFrameworkVersionWithDocs) -> Value {
    let mut body = version(entity);
    body["corporation_id"] = entity.corporation_id.into();
    body["ecosystem_id"] = Value::Null;
    body["gfv_id"] = entity.id.into();
    for document in body["documents"].as_array_mut().into_iter().flatten() {
        document["gfd_id"] = document["id"].clone();
    }
    body
}

/// The chain keeps only a flag for archived; since when is known from the block that set it ([`date_archiving`]).
pub fn ecosystem(entity: &EcosystemWithVersions) -> Value {
    let archived = if entity.archived { millis(entity.modified.as_ref()) } else { Value::Null };
    let versions: Vec<Value> = entity.versions.iter().map(version).collect();
    json!({
        "id": entity.id, "did": entity.did, "corporation_id": entity.corporation_id,
        "created": millis(entity.created.as_ref()), "modified": millis(entity.modified.as_ref()), "archived": archived,
        "language": entity.language, "active_version": entity.active_version, "versions": versions,
    })
}

/// An ecosystem that was archived before stays archived since then.
pub fn date_archiving(body: &mut Value, before: &Value) {
    if !body["archived"].is_null() && !before["archived"].is_null() {
        body["archived"] = before["archived"].clone();
    }
}

fn version(entity: &GovernanceFrameworkVersionWithDocs) -> Value {
    let documents: Vec<Value> = entity
        .documents
        .iter()
        .map(|document| {
            json!({
                "id": document.id, "gfv_id": document.gfv_id, "created": millis(document.created.as_ref()),
                "language": document.language, "url": document.url, "digest_sri": document.digest_sri,
            })
        })
        .collect();
    json!({
        "id": entity.id, "ecosystem_id": entity.ecosystem_id, "created": millis(entity.created.as_ref()),
        "version": entity.version, "active_since": millis(entity.active_since.as_ref()), "documents": documents,
    })
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    #[test]
    fn archiving_is_dated_and_keeps_its_date() {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let mut entity = EcosystemWithVersions { archived: true, modified: at(10), ..Default::default() };
        let first = ecosystem(&entity);
        assert_eq!(first["archived"], "1970-01-01T00:00:10.000Z");
        entity.modified = at(20);
        let mut second = ecosystem(&entity);
        date_archiving(&mut second, &first);
        assert_eq!(second["archived"], first["archived"]);
        entity.archived = false;
        let mut third = ecosystem(&entity);
        date_archiving(&mut third, &second);
        assert_eq!(third["archived"], Value::Null);
    }
}
