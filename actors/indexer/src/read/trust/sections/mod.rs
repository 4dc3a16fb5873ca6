//! The sections of a trust answer about the registry state of a DID at a height: its corporation, its participations,
//! and its ecosystems.

pub(in crate::read) mod selectors;

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use svc_trust::digest::{DigestAlgorithm, sri_digest};

use self::selectors::{EcosystemSelector, SchemaSelector};
use crate::{
    derive::stats::{StatsMeasures, StatsMetric, StatsScope},
    read::{answer_json::format_coin, error::ReadError, reader::IndexReader, registry::measure_number},
    store::{EntityFilter, EntityKind, StoredEntity},
};
use svc_wire::participant_state::ParticipantState;

/// All roles, in the form of the counts.
const ROLES: [&str; 6] = ["ECOSYSTEM", "ISSUER_GRANTOR", "ISSUER", "VERIFIER_GRANTOR", "VERIFIER", "HOLDER"];

/// Scopes of one database query.
const CHUNK: usize = 512;

impl IndexReader {
    /// Returns `corporation`, which exists only for the DID of the corporation itself.
    pub(in crate::read) async fn corporation_section(
        &self,
        did: &str,
        corporation_id: u64,
        height: u64,
    ) -> Result<Option<Value>, ReadError> {
        let found = self.store.entity(EntityKind::Corporation, corporation_id, height).await?;
        let Some(body) = found.filter(|body| body["did"] == did) else { return Ok(None) };
        let deposit = self.store.entity(EntityKind::TrustDeposit, corporation_id, height).await?.unwrap_or_default();
        let number = |key: &str| deposit[key].as_u64().unwrap_or(0);
        let mut section = json!({
            "id": corporation_id, "policyAddress": body["policy_address"],
            "deposit": format_coin(number("deposit"), &self.subject.denom),
        });
        if number("slash_count") > 0 {
            section["slashedEvents"] = number("slash_count").into();
            section["slashedValue"] = format_coin(number("slashed_deposit"), &self.subject.denom).into();
            section["lastSlashedAtTime"] = deposit["last_slashed"].clone();
        }
        if let Some(framework) = active_framework_json(&body) {
            section["cgf"] = framework;
        }
        Ok(Some(section))
    }

    /// Returns `participations`: the participants with the DID in one of the states, the oldest first.
    pub(in crate::read) async fn participations_section(
        &self,
        did: &str,
        states: &[ParticipantState],
        height: u64,
        now: i128,
    ) -> Result<Vec<Value>, ReadError> {
        let by_did = EntityFilter { did: Some(did.to_owned()), ..EntityFilter::default() };
        let all = self.store.list_all(EntityKind::Participant, height, &by_did).await?;
        let ranked = all.into_iter().map(|stored| (ParticipantState::derive_at(&stored.body, now), stored));
        let wanted: Vec<(ParticipantState, StoredEntity)> =
            ranked.filter(|(state, _)| states.contains(state)).collect();
        let ids: Vec<u64> = wanted.iter().map(|(_, stored)| stored.id).collect();
        let measures = self.load_measures(StatsScope::Participant, &ids, height).await?;
        let show = |(state, stored): (ParticipantState, StoredEntity)| {
            let body = stored.body;
            let own = measures.get(&stored.id).cloned().unwrap_or_default();
            let mut row = json!({
                "id": stored.id, "vsOperator": body["vs_operator"], "role": body["role"], "state": state.as_str(),
                "credentialSchemaId": body["schema_id"], "ecosystemId": body["ecosystem_id"],
                "weight": format_coin(own.get(StatsMetric::Weight), &self.subject.denom),
                "validatorParticipantId": body["validator_participant_id"],
            });
            insert_counts(&mut row, &own);
            row
        };
        Ok(wanted.into_iter().map(show).collect())
    }

    /// Returns `ecosystems`: the ecosystems with the DID, the oldest first.
    pub(in crate::read) async fn ecosystems_section(
        &self,
        did: &str,
        wanted: &EcosystemSelector,
        height: u64,
    ) -> Result<Vec<Value>, ReadError> {
        let by_did = EntityFilter { did: Some(did.to_owned()), ..EntityFilter::default() };
        let mut all = self.store.list_all(EntityKind::Ecosystem, height, &by_did).await?;
        all.retain(|stored| wanted.includes_archived || stored.body["archived"].is_null());
        let ids: Vec<u64> = all.iter().map(|stored| stored.id).collect();
        let measures = self.load_measures(StatsScope::Ecosystem, &ids, height).await?;
        let mut shown = Vec::with_capacity(all.len());
        for StoredEntity { id, body } in all {
            let mut row = json!({
                "id": id, "corporationId": body["corporation_id"], "archived": !body["archived"].is_null(),
            });
            if let Some(framework) = active_framework_json(&body) {
                row["egf"] = framework;
            }
            if let Some(schemas) = &wanted.schemas {
                row["credentialSchemas"] = self.schemas_section(id, schemas, height).await?.into();
            }
            insert_counts(&mut row, &measures.get(&id).cloned().unwrap_or_default());
            shown.push(row);
        }
        Ok(shown)
    }

    async fn schemas_section(
        &self,
        ecosystem: u64,
        wanted: &SchemaSelector,
        height: u64,
    ) -> Result<Vec<Value>, ReadError> {
        let filter = EntityFilter { parent_id: Some(ecosystem), ..EntityFilter::default() };
        let mut all = self.store.list_all(EntityKind::Schema, height, &filter).await?;
        all.retain(|stored| wanted.includes_archived || stored.body["archived"].is_null());
        let ids: Vec<u64> = all.iter().map(|stored| stored.id).collect();
        let measures = self.load_measures(StatsScope::Schema, &ids, height).await?;
        let show = |StoredEntity { id, body }: StoredEntity| {
            let mut row = json!({
                "id": id, "type": "JsonSchema",
                "digestSri": sri_digest(body["json_schema"].as_str().unwrap_or_default().as_bytes(), DigestAlgorithm::Sha384),
                "archived": !body["archived"].is_null(),
            });
            insert_counts(&mut row, &measures.get(&id).cloned().unwrap_or_default());
            row
        };
        Ok(all.into_iter().map(show).collect())
    }

    async fn load_measures(
        &self,
        scope: fn(u64) -> StatsScope,
        ids: &[u64],
        height: u64,
    ) -> Result<HashMap<u64, StatsMeasures>, ReadError> {
        let mut found = HashMap::new();
        for chunk in ids.chunks(CHUNK) {
            found.extend(self.store.measures_of(scope, chunk, height).await?);
        }
        Ok(found)
    }
}

/// Returns the active version of a governance framework.
fn active_framework_json(body: &Value) -> Option<Value> {
    let mut versions = body["versions"].as_array()?.iter();
    let active = versions.find(|version| version["version"] == body["active_version"])?;
    let documents: Vec<Value> = active["documents"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|document| {
            json!({"language": document["language"], "url": document["url"], "digestSri": document["digest_sri"]})
        })
        .collect();
    let mut framework = json!({"version": active["version"], "documents": documents});
    if !active["active_since"].is_null() {
        framework["activeSince"] = active["active_since"].clone();
    }
    Some(framework)
}

/// Inserts the participants by role and the credentials of a scope.
fn insert_counts(row: &mut Value, measures: &StatsMeasures) {
    let of_role = |role: &str| Some((role.to_owned(), measure_number(measures, StatsMetric::for_role(role)?)));
    row["participants"] = ROLES.into_iter().filter_map(of_role).collect::<Map<_, _>>().into();
    row["issuedCredentials"] = measure_number(measures, StatsMetric::Issued);
    row["verifiedCredentials"] = measure_number(measures, StatsMetric::Verified);
}

#[cfg(test)]
mod tests;
