//! Reads of corporations, ecosystems and their governance frameworks.

use std::collections::HashSet;

use serde_json::{Map, Value};
use svc_wire::participant_state::ParticipantState;

use super::entity_scan::{MeasuredEntity, add_trust_slot};
use crate::{
    derive::stats::{StatsMeasures, StatsMetric, StatsScope, exact_number},
    projection::public_members,
    read::{
        answer_json::wrap_member,
        error::ReadError,
        reader::{IndexReader, ReadRequest},
    },
    store::{EntityFilter, EntityKind},
};

/// Members of the trust deposit that a corporation shows; 0 before it has a deposit.
const DEPOSIT_MEMBERS: [&str; 6] = ["deposit", "share", "refunded", "slashed_deposit", "repaid_deposit", "slash_count"];

impl IndexReader {
    pub(in crate::read) async fn corporation(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let id = request.params.required_number("id")?;
        let body = self.require_entity(request, EntityKind::Corporation, id).await?;
        let measures = self.store.measures(StatsScope::Corporation(id), request.height).await?;
        Ok(wrap_member("corporation", self.corporation_json(request, MeasuredEntity { id, body, measures }).await?))
    }

    pub(in crate::read) async fn corporations(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let addresses = request.params.list("policy_address");
        let one_address = addresses.and_then(|list| list.first().filter(|_| list.len() == 1));
        let filter = EntityFilter {
            did: request.params.text("did").map(str::to_owned),
            name: one_address.cloned(),
            ..EntityFilter::default()
        };
        let is_wanted = |row: &MeasuredEntity| {
            let is_match = |address: &String| row.body["policy_address"] == address.as_str();
            addresses.is_none_or(|list| list.iter().any(is_match))
        };
        let rows = self
            .scan_entities(request, EntityKind::Corporation, &filter, Some(StatsScope::Corporation), is_wanted)
            .await?;
        let mut shown = Vec::with_capacity(rows.len());
        for row in rows {
            shown.push(self.corporation_json(request, row).await?);
        }
        Ok(wrap_member("corporations", shown))
    }

    async fn corporation_json(&self, request: &ReadRequest<'_>, row: MeasuredEntity) -> Result<Value, ReadError> {
        let deposit = self.store.entity(EntityKind::TrustDeposit, row.id, request.height).await?.unwrap_or_default();
        let mut body = select_framework(request, row.body);
        if let Some(object) = body.as_object_mut() {
            let ecosystems =
                row.measures.get(StatsMetric::ActiveEcosystems) + row.measures.get(StatsMetric::ArchivedEcosystems);
            object.insert("controlled_ecosystems".to_owned(), exact_number(ecosystems));
            row.measures.insert_into(object, "", StatsMetric::PARTICIPANT_COUNTS);
            for key in DEPOSIT_MEMBERS {
                let value = deposit.get(key).cloned().unwrap_or_else(|| 0.into());
                object.insert(key.to_owned(), value);
            }
            for key in ["last_slashed", "last_repaid"] {
                object.insert(key.to_owned(), deposit.get(key).cloned().unwrap_or_default());
            }
        }
        Ok(add_trust_slot(request, public_members(body)))
    }

    pub(in crate::read) async fn ecosystem(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let id = request.params.required_number("id")?;
        let body = self.require_entity(request, EntityKind::Ecosystem, id).await?;
        let measures = self.store.measures(StatsScope::Ecosystem(id), request.height).await?;
        Ok(wrap_member("ecosystem", ecosystem_json(request, MeasuredEntity { id, body, measures })))
    }

    pub(in crate::read) async fn ecosystems(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let Some(filter) = self.filter_by_owner(request, EntityFilter::default()).await? else {
            return Ok(wrap_member("ecosystems", Vec::<Value>::new()));
        };
        let archived = archived_filter(request);
        let joined = self.find_participations(request, "ecosystem_id").await?;
        let is_wanted = |row: &MeasuredEntity| {
            archived.is_none_or(|archived| archived != row.body["archived"].is_null())
                && joined.as_ref().is_none_or(|(corporation, active)| {
                    row.body["corporation_id"] == *corporation || active.contains(&row.id)
                })
        };
        let rows =
            self.scan_entities(request, EntityKind::Ecosystem, &filter, Some(StatsScope::Ecosystem), is_wanted).await?;
        let shown: Vec<Value> = rows.into_iter().map(|row| with_text_weight(ecosystem_json(request, row))).collect();
        Ok(wrap_member("ecosystems", shown))
    }

    /// Restricts a filter to an owner, by `corporation_id` or by the policy address in `corporation`. `None` when the
    /// two name different corporations or the address has none.
    pub(in crate::read) async fn filter_by_owner(
        &self,
        request: &ReadRequest<'_>,
        filter: EntityFilter,
    ) -> Result<Option<EntityFilter>, ReadError> {
        let wanted = request.params.number("corporation_id");
        let Some(address) = request.params.text("corporation") else {
            return Ok(Some(EntityFilter { corporation_id: wanted, ..filter }));
        };
        let by_address = EntityFilter { name: Some(address.to_owned()), ..EntityFilter::default() };
        let owner =
            self.store.find_entity(EntityKind::Corporation, &by_address, request.height).await?.map(|stored| stored.id);
        let owner = owner.filter(|owner| wanted.is_none_or(|wanted| wanted == *owner));
        Ok(owner.map(|owner| EntityFilter { corporation_id: Some(owner), ..filter }))
    }

    /// Returns `participant_corporation_id`, and the ids under `key` of the active participants of that corporation.
    pub(in crate::read) async fn find_participations(
        &self,
        request: &ReadRequest<'_>,
        key: &str,
    ) -> Result<Option<(u64, HashSet<u64>)>, ReadError> {
        let Some(corporation) = request.params.number("participant_corporation_id") else { return Ok(None) };
        let filter = EntityFilter { corporation_id: Some(corporation), ..EntityFilter::default() };
        let all = self.store.list_all(EntityKind::Participant, request.height, &filter).await?;
        let active = all
            .iter()
            .filter(|stored| ParticipantState::derive_at(&stored.body, request.block_time) == ParticipantState::Active);
        Ok(Some((corporation, active.filter_map(|stored| stored.body[key].as_u64()).collect())))
    }

    pub(in crate::read) async fn framework_version(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let version =
            self.require_entity(request, EntityKind::FrameworkVersion, request.params.required_number("id")?).await?;
        Ok(wrap_member("version", complete_owners(select_document(version, request.params.text("preferred_language")))))
    }

    pub(in crate::read) async fn framework_versions(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let params = request.params;
        let (kind, id, filter) = match (params.number("ecosystem_id"), params.number("corporation_id")) {
            (Some(id), None) => {
                (EntityKind::Ecosystem, id, EntityFilter { parent_id: Some(id), ..EntityFilter::default() })
            }
            (None, Some(id)) => {
                (EntityKind::Corporation, id, EntityFilter { corporation_id: Some(id), ..EntityFilter::default() })
            }
            _ => {
                let text = "ecosystem_id, corporation_id: exactly one of the two is required";
                return Err(ReadError::InvalidParameter(text.to_owned()));
            }
        };
        let owner = self.require_entity(request, kind, id).await?;
        let is_active_only = params.flag("active_only").unwrap_or(false);
        let is_wanted = |row: &MeasuredEntity| !is_active_only || row.body["version"] == owner["active_version"];
        let rows = self.scan_entities(request, EntityKind::FrameworkVersion, &filter, None, is_wanted).await?;
        let language = params.text("preferred_language");
        let shown: Vec<Value> =
            rows.into_iter().map(|row| complete_owners(select_document(row.body, language))).collect();
        Ok(wrap_member("versions", shown))
    }
}

/// Returns the `archived` filter; `only_active` is its inverse.
pub(in crate::read) fn archived_filter(request: &ReadRequest<'_>) -> Option<bool> {
    request.params.flag("archived").or_else(|| request.params.flag("only_active").filter(|only| *only).map(|_| false))
}

/// Inserts the counts and totals that ecosystems, schemas and participants show.
pub(in crate::read) fn insert_measures(object: &mut Map<String, Value>, measures: &StatsMeasures) {
    measures.insert_into(object, "", StatsMetric::PARTICIPANT_COUNTS);
    measures.insert_into(object, "", StatsMetric::CREDENTIAL_AND_SLASH_TOTALS);
}

/// Makes the weight a text, as lists of ecosystems and schemas have it; a single one has a number.
pub(in crate::read) fn with_text_weight(mut body: Value) -> Value {
    if let Some(weight) = body.get_mut("weight")
        && weight.is_number()
    {
        *weight = weight.to_string().into();
    }
    body
}

fn ecosystem_json(request: &ReadRequest<'_>, row: MeasuredEntity) -> Value {
    let mut body = select_framework(request, row.body);
    if let Some(object) = body.as_object_mut() {
        insert_measures(object, &row.measures);
        row.measures.insert_into(object, "", &[StatsMetric::ActiveSchemas, StatsMetric::ArchivedSchemas]);
    }
    add_trust_slot(request, public_members(body))
}

/// Keeps the framework versions that `gf_data` requests.
fn select_framework(request: &ReadRequest<'_>, mut body: Value) -> Value {
    let language = request.params.text("preferred_language");
    let wanted = match request.params.flag("active_gf_only") {
        Some(true) => "only_active",
        _ => request.params.text("gf_data").unwrap_or("only_active"),
    };
    let active = body["active_version"].clone();
    let Some(object) = body.as_object_mut() else { return body };
    let versions = object.shift_remove("versions").and_then(|versions| match versions {
        Value::Array(versions) => Some(versions),
        _ => None,
    });
    if wanted != "none" {
        let kept = versions.into_iter().flatten().filter(|version| wanted == "all" || version["version"] == active);
        let shown = kept.map(|version| order_documents(version, language)).collect();
        object.insert("versions".to_owned(), shown);
    }
    body
}

fn is_in_language(document: &Value, language: &str) -> bool {
    document["language"].as_str().is_some_and(|own| own.eq_ignore_ascii_case(language))
}

/// Moves documents in the preferred language to the front.
fn order_documents(mut version: Value, language: Option<&str>) -> Value {
    if let (Some(language), Some(documents)) = (language, version["documents"].as_array_mut()) {
        documents.sort_by_key(|document| !is_in_language(document, language));
    }
    version
}

/// Keeps one document if there is a preferred language: the one in that language, else the one with the lowest id.
fn select_document(mut version: Value, language: Option<&str>) -> Value {
    let Some(language) = language else { return version };
    let documents = version["documents"].as_array().cloned().unwrap_or_default();
    let chosen = documents
        .iter()
        .find(|document| is_in_language(document, language))
        .or_else(|| documents.iter().min_by_key(|document| document["id"].as_u64().unwrap_or(u64::MAX)));
    version["documents"] = chosen.cloned().into_iter().collect();
    version
}

/// Adds the missing owner of a version as null, and removes duplicate keys: outside its owner a version names both
/// owners.
fn complete_owners(version: Value) -> Value {
    let mut version = public_members(version);
    for owner in ["ecosystem_id", "corporation_id"] {
        if version.get(owner).is_none() {
            version[owner] = Value::Null;
        }
    }
    if let Some(object) = version.as_object_mut() {
        object.shift_remove("gfv_id");
    }
    for document in version["documents"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        document.shift_remove("gfd_id");
    }
    version
}
