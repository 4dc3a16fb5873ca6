//! What the registry knows of a DID, in the sections of a trust answer: its corporation, its participations, its ecosystems.
//! All of it as of a height.

pub(super) mod selector;

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use svc_trust::digest::{Algorithm, sri};

use self::selector::{Ecosystems, Schemas};
use super::{ReadError, Reader, coin, stats::count};
use crate::{
    derive::{
        measures::{Measures, Metric, Scope},
        state::ParticipantState,
    },
    store::{Filter, Kind, Stored},
};

/// Every role, as counts name it.
const ROLES: [&str; 6] = ["ECOSYSTEM", "ISSUER_GRANTOR", "ISSUER", "VERIFIER_GRANTOR", "VERIFIER", "HOLDER"];

/// Scopes whose figures are read in one go.
const CHUNK: usize = 512;

impl Reader {
    /// `corporation`: there only for the corporation's own DID.
    pub(super) async fn corporation_section(
        &self,
        did: &str,
        corporation_id: u64,
        height: u64,
    ) -> Result<Option<Value>, ReadError> {
        let found = self.store.entity(Kind::Corporation, corporation_id, height).await?;
        let Some(body) = found.filter(|body| body["did"] == did) else { return Ok(None) };
        let deposit = self.store.entity(Kind::TrustDeposit, corporation_id, height).await?.unwrap_or_default();
        let figure = |key: &str| deposit[key].as_u64().unwrap_or(0);
        let mut section = json!({
            "id": corporation_id, "policyAddress": body["policy_address"],
            "deposit": coin(figure("deposit"), &self.denom),
        });
        if figure("slash_count") > 0 {
            section["slashedEvents"] = figure("slash_count").into();
            section["slashedValue"] = coin(figure("slashed_deposit"), &self.denom).into();
            section["lastSlashedAtTime"] = deposit["last_slashed"].clone();
        }
        if let Some(framework) = active_framework(&body) {
            section["cgf"] = framework;
        }
        Ok(Some(section))
    }

    /// `participations`: the participants with the DID that are in one of the states, oldest first.
    pub(super) async fn participations_section(
        &self,
        did: &str,
        states: &[ParticipantState],
        height: u64,
        now: i128,
    ) -> Result<Vec<Value>, ReadError> {
        let by_did = Filter { did: Some(did.to_owned()), ..Filter::default() };
        let all = self.store.all(Kind::Participant, height, &by_did).await?;
        let ranked = all.into_iter().map(|stored| (ParticipantState::at(&stored.body, now), stored));
        let wanted: Vec<(ParticipantState, Stored)> = ranked.filter(|(state, _)| states.contains(state)).collect();
        let ids: Vec<u64> = wanted.iter().map(|(_, stored)| stored.id).collect();
        let figures = self.figures_of_all(Scope::Participant, &ids, height).await?;
        let show = |(state, stored): (ParticipantState, Stored)| {
            let body = stored.body;
            let own = figures.get(&stored.id).cloned().unwrap_or_default();
            let mut row = json!({
                "id": stored.id, "vsOperator": body["vs_operator"], "role": body["role"], "state": state.as_str(),
                "credentialSchemaId": body["schema_id"], "ecosystemId": body["ecosystem_id"],
                "weight": coin(own.get(Metric::Weight), &self.denom),
                "validatorParticipantId": body["validator_participant_id"],
            });
            put_counts(&mut row, &own);
            row
        };
        Ok(wanted.into_iter().map(show).collect())
    }

    /// `ecosystems`: the ecosystems with the DID, oldest first.
    pub(super) async fn ecosystems_section(
        &self,
        did: &str,
        wanted: &Ecosystems,
        height: u64,
    ) -> Result<Vec<Value>, ReadError> {
        let by_did = Filter { did: Some(did.to_owned()), ..Filter::default() };
        let mut all = self.store.all(Kind::Ecosystem, height, &by_did).await?;
        all.retain(|stored| wanted.includes_archived || stored.body["archived"].is_null());
        let ids: Vec<u64> = all.iter().map(|stored| stored.id).collect();
        let figures = self.figures_of_all(Scope::Ecosystem, &ids, height).await?;
        let mut shown = Vec::with_capacity(all.len());
        for Stored { id, body } in all {
            let mut row = json!({
                "id": id, "corporationId": body["corporation_id"], "archived": !body["archived"].is_null(),
            });
            if let Some(framework) = active_framework(&body) {
                row["egf"] = framework;
            }
            if let Some(schemas) = &wanted.schemas {
                row["credentialSchemas"] = self.schemas_of(id, schemas, height).await?.into();
            }
            put_counts(&mut row, &figures.get(&id).cloned().unwrap_or_default());
            shown.push(row);
        }
        Ok(shown)
    }

    async fn schemas_of(&self, ecosystem: u64, wanted: &Schemas, height: u64) -> Result<Vec<Value>, ReadError> {
        let filter = Filter { parent_id: Some(ecosystem), ..Filter::default() };
        let mut all = self.store.all(Kind::Schema, height, &filter).await?;
        all.retain(|stored| wanted.includes_archived || stored.body["archived"].is_null());
        let ids: Vec<u64> = all.iter().map(|stored| stored.id).collect();
        let figures = self.figures_of_all(Scope::Schema, &ids, height).await?;
        let show = |Stored { id, body }: Stored| {
            let mut row = json!({
                "id": id, "type": "JsonSchema",
                "digestSri": sri(body["json_schema"].as_str().unwrap_or_default().as_bytes(), Algorithm::Sha384),
                "archived": !body["archived"].is_null(),
            });
            put_counts(&mut row, &figures.get(&id).cloned().unwrap_or_default());
            row
        };
        Ok(all.into_iter().map(show).collect())
    }

    async fn figures_of_all(
        &self,
        scope: fn(u64) -> Scope,
        ids: &[u64],
        height: u64,
    ) -> Result<HashMap<u64, Measures>, ReadError> {
        let mut found = HashMap::new();
        for chunk in ids.chunks(CHUNK) {
            found.extend(self.store.measures_of(scope, chunk, height).await?);
        }
        Ok(found)
    }
}

/// The version of a governance framework that is in force.
fn active_framework(body: &Value) -> Option<Value> {
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

/// Participants by role and credentials of a scope.
fn put_counts(row: &mut Value, figures: &Measures) {
    let of_role = |role: &str| Some((role.to_owned(), count(figures, Metric::of_role(role)?)));
    row["participants"] = ROLES.into_iter().filter_map(of_role).collect::<Map<_, _>>().into();
    row["issuedCredentials"] = count(figures, Metric::Issued);
    row["verifiedCredentials"] = count(figures, Metric::Verified);
}

#[cfg(test)]
mod tests;
