//! The Trust Registry Query Protocol (TRQP 2.0). An authorization query asks whether an entity may act, a recognition
//! query whether a corporation controls an ecosystem. Both are decided on the registry state at the instant of the
//! query.

mod decision;
pub mod profile;
mod query;
pub mod registry_id;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use self::{
    decision::{AUTHORIZED_KEY, AuthorizationFacts, RECOGNIZED_KEY, RecognitionFacts, TrqpDecision},
    query::{DecisionPoint, TrqpQuery, end_of_millisecond, future_time_note, session_time},
    registry_id::RegistryId,
};
use crate::{
    read::{
        error::ReadError,
        reader::{IndexReader, ReadRequest},
    },
    store::{EntityFilter, EntityKind, iso_millis},
};

/// The reason of a denial that does not depend on the registry state.
type DenialReason = String;

impl IndexReader {
    pub(in crate::read) async fn authorize(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let query = TrqpQuery::parse(request.params)?;
        let (moment, denial) = self.find_decision_point(request, &query).await?;
        let decision = match denial {
            Some(denial) => TrqpDecision::deny(denial),
            None => self.load_authorization_facts(&query, &moment).await?.decide(
                &query,
                moment.evaluated_time,
                &self.subject.denom,
            ),
        };
        Ok(self.trqp_answer(&query, &moment, AUTHORIZED_KEY, decision))
    }

    pub(in crate::read) async fn recognize(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let query = TrqpQuery::parse(request.params)?;
        let (moment, denial) = self.find_decision_point(request, &query).await?;
        let decision = match denial {
            Some(denial) => TrqpDecision::deny(denial),
            None => self.load_recognition_facts(&query, &moment).await?.decide(&query),
        };
        Ok(self.trqp_answer(&query, &moment, RECOGNIZED_KEY, decision))
    }

    pub(in crate::read) fn profile(&self) -> Value {
        (*self.profile).clone()
    }

    fn registry_id(&self) -> RegistryId<'_> {
        RegistryId { namespace: self.subject.namespace.as_str(), chain_id: &self.subject.node.network }
    }

    /// Returns the instant and the block of a decision, and the reason of a denial that does not depend on the registry
    /// state.
    async fn find_decision_point(
        &self,
        request: &ReadRequest<'_>,
        query: &TrqpQuery<'_>,
    ) -> Result<(DecisionPoint, Option<DenialReason>), ReadError> {
        let context = &query.context;
        let requested = context.time.unwrap_or(request.block_time);
        let mut moment =
            DecisionPoint { requested_time: requested, evaluated_time: requested, height: request.height, note: None };
        let own = self.registry_id();
        if query.resource.network != own {
            let denial = format!("resource: is of {}, and this registry is {own}", query.resource.network);
            return Ok((moment, Some(denial)));
        }
        // The store has no state before its first block.
        let first = self.store.oldest_and_newest_block().await?.first().copied();
        if let Some((first, time)) = first.filter(|(first, _)| request.height < *first) {
            let known = iso_millis(time);
            let denial =
                format!("nothing is known of block {}, the first block here is {first} of {known}", request.height);
            return Ok((moment, Some(denial)));
        }
        if let Some(id) = context.session {
            let filter = EntityFilter { name: Some(id.to_owned()), ..EntityFilter::default() };
            let Some(session) = self.store.find_entity(EntityKind::Session, &filter, request.height).await? else {
                let denial = format!("session not found: participant session {id} does not exist");
                return Ok((moment, Some(denial)));
            };
            moment.evaluated_time = session_time(&session.body).unwrap_or(request.block_time);
        }
        let until = end_of_millisecond(moment.evaluated_time);
        if until > request.block_time {
            moment.note = future_time_note(moment.evaluated_time, request.height, request.block_time);
            return Ok((moment, None));
        }
        let Some(block) = self.store.block_before(until, request.height).await? else {
            let subject = if context.session.is_some() { "session out of window" } else { "context.time" };
            if let Some(oldest) = self.late_start().await? {
                let time = iso_millis(moment.evaluated_time);
                let message = format!("{subject}: the state of {time} is not indexed");
                return Err(ReadError::HeightNotIndexed { message, oldest: oldest.height });
            }
            // Before its first block the chain had no registry.
            let first =
                self.store.oldest_and_newest_block().await?.first().map_or(request.block_time, |(_, time)| *time);
            let denial =
                format!("{subject}: nothing is known of that time, the first block here is of {}", iso_millis(first));
            return Ok((moment, Some(denial)));
        };
        moment.height = block.height;
        Ok((moment, None))
    }

    /// Loads the registry state for an authorization.
    async fn load_authorization_facts(
        &self,
        query: &TrqpQuery<'_>,
        moment: &DecisionPoint,
    ) -> Result<AuthorizationFacts, ReadError> {
        let (schema_id, height) = (query.resource.schema_id, moment.height);
        let schema = self.store.entity(EntityKind::Schema, schema_id, height).await?;
        let ecosystem = match schema.as_ref().and_then(|schema| schema["ecosystem_id"].as_u64()) {
            Some(id) => self.store.entity(EntityKind::Ecosystem, id, height).await?,
            None => None,
        };
        let corporation = self.find_corporation_by_did(query.entity, height).await?;
        let participants = match corporation {
            Some(id) => {
                let filter =
                    EntityFilter { corporation_id: Some(id), parent_id: Some(schema_id), ..EntityFilter::default() };
                self.store.list_all(EntityKind::Participant, height, &filter).await?
            }
            None => Vec::new(),
        };
        let participants = participants.into_iter().map(|stored| stored.body).collect();
        Ok(AuthorizationFacts { has_schema: schema.is_some(), ecosystem, corporation, participants })
    }

    /// Loads the registry state for a recognition.
    async fn load_recognition_facts(
        &self,
        query: &TrqpQuery<'_>,
        moment: &DecisionPoint,
    ) -> Result<RecognitionFacts, ReadError> {
        let height = moment.height;
        let by_did = EntityFilter { did: Some(query.entity.to_owned()), ..EntityFilter::default() };
        let ecosystems = self.store.list_all(EntityKind::Ecosystem, height, &by_did).await?;
        let schema = self.store.entity(EntityKind::Schema, query.resource.schema_id, height).await?;
        Ok(RecognitionFacts {
            corporation: self.find_corporation_by_did(query.authority, height).await?,
            ecosystems: ecosystems.into_iter().map(|stored| stored.body).collect(),
            schema_ecosystem: schema.and_then(|schema| schema["ecosystem_id"].as_u64()),
        })
    }

    /// Returns the corporation that has a DID.
    pub(in crate::read) async fn find_corporation_by_did(
        &self,
        did: &str,
        height: u64,
    ) -> Result<Option<u64>, ReadError> {
        let filter = EntityFilter { did: Some(did.to_owned()), ..EntityFilter::default() };
        Ok(self.store.find_entity(EntityKind::Corporation, &filter, height).await?.map(|stored| stored.id))
    }

    fn trqp_answer(&self, query: &TrqpQuery<'_>, moment: &DecisionPoint, key: &str, decision: TrqpDecision) -> Value {
        let mut answer = Map::new();
        for (name, value) in [
            ("authority_id", query.authority),
            ("entity_id", query.entity),
            ("action", query.action),
            ("resource", query.resource.text),
        ] {
            answer.insert(name.to_owned(), value.into());
        }
        answer.insert("time_requested".to_owned(), iso_millis(moment.requested_time).into());
        answer.insert("time_evaluated".to_owned(), iso_millis(moment.evaluated_time).into());
        let remarks: Vec<String> = decision.message.into_iter().chain(moment.note.clone()).collect();
        if !remarks.is_empty() {
            answer.insert("message".to_owned(), remarks.join("; ").into());
        }
        answer.insert(key.to_owned(), decision.is_granted.into());
        if let Some(extension) = decision.extension {
            answer.insert(self.subject.namespace.as_str().to_owned(), extension);
        }
        Value::Object(answer)
    }
}
