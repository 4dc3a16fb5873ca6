//! The Trust Registry Query Protocol (TRQP 2.0): may an entity act, and does a corporation control an ecosystem? It is asked
//! of the registry as it was at the instant the question names, not as it is now.

mod decide;
mod profile;
mod question;

use serde_json::{Map, Value};

use self::{
    decide::{AUTHORIZED, Authorization, RECOGNIZED, Recognition, Verdict},
    question::{Moment, Network, Question, a_millisecond_later},
};
use super::{Ask, ReadError, Reader};
use crate::{
    derive::state::instant_of,
    store::{Filter, Kind, iso_millis},
};

/// Why a question is answered with no before the registry is looked at.
type Denial = String;

impl Reader {
    pub(super) async fn authorize(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let question = Question::read(ask.params)?;
        let (moment, denial) = self.moment(ask, &question).await?;
        let verdict = match denial {
            Some(denial) => Verdict::no(denial),
            None => self.authorization(&question, &moment).await?.decide(&question, moment.evaluated, &self.denom),
        };
        Ok(self.answered(&question, &moment, AUTHORIZED, verdict))
    }

    pub(super) async fn recognize(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let question = Question::read(ask.params)?;
        let (moment, denial) = self.moment(ask, &question).await?;
        let verdict = match denial {
            Some(denial) => Verdict::no(denial),
            None => self.recognition(&question, &moment).await?.decide(&question),
        };
        Ok(self.answered(&question, &moment, RECOGNIZED, verdict))
    }

    pub(super) fn profile(&self) -> Value {
        profile::document(&self.network())
    }

    fn network(&self) -> Network<'_> {
        Network { word: self.namespace.as_str(), chain_id: &self.node.network }
    }

    /// When a question is decided and by which block's rows; and why it is not decided, if that is so.
    async fn moment(&self, ask: &Ask<'_>, question: &Question<'_>) -> Result<(Moment, Option<Denial>), ReadError> {
        let context = &question.context;
        let requested = context.time.unwrap_or(ask.now);
        let mut moment = Moment { requested, evaluated: requested, height: ask.height, note: None };
        let own = self.network();
        if question.resource.network != own {
            let denial = format!("resource: is of {}, and this registry is {own}", question.resource.network);
            return Ok((moment, Some(denial)));
        }
        // A state before the first block here is not known, whatever is asked of it.
        let first = self.store.ends().await?.first().copied();
        if let Some((first, time)) = first.filter(|(first, _)| ask.height < *first) {
            let known = iso_millis(time);
            let denial =
                format!("nothing is known of block {}, the first block here is {first} of {known}", ask.height);
            return Ok((moment, Some(denial)));
        }
        if let Some(id) = context.session {
            let filter = Filter { name: Some(id.to_owned()), ..Filter::default() };
            let Some(session) = self.store.find(Kind::Session, &filter, ask.height).await? else {
                let denial = format!("context.session_id: participant session {id} does not exist");
                return Ok((moment, Some(denial)));
            };
            moment.evaluated = question::instant_of_session(&session.body).unwrap_or(ask.now);
        }
        let until = a_millisecond_later(moment.evaluated);
        if until > ask.now {
            moment.note = question::note_on_the_future(moment.evaluated, ask.height, ask.now);
            return Ok((moment, None));
        }
        let Some(block) = self.store.block_before(until, ask.height).await? else {
            let first = self.store.ends().await?.first().map_or(ask.now, |(_, time)| *time);
            let denial = format!(
                "{}: nothing is known of that time, the first block here is of {}",
                if context.session.is_some() { "context.session_id" } else { "context.time" },
                iso_millis(first)
            );
            return Ok((moment, Some(denial)));
        };
        moment.height = block.height;
        Ok((moment, None))
    }

    /// What the registry had on an authorization.
    async fn authorization(&self, question: &Question<'_>, moment: &Moment) -> Result<Authorization, ReadError> {
        let (schema_id, height) = (question.resource.schema_id, moment.height);
        let schema = self.store.entity(Kind::Schema, schema_id, height).await?;
        let ecosystem = match schema.as_ref().and_then(|schema| schema["ecosystem_id"].as_u64()) {
            Some(id) => self.store.entity(Kind::Ecosystem, id, height).await?,
            None => None,
        };
        let corporation = self.corporation_id_of(question.entity, height).await?;
        let participants = match corporation {
            Some(id) => {
                let filter = Filter { corporation_id: Some(id), parent_id: Some(schema_id), ..Filter::default() };
                self.store.all(Kind::Participant, height, &filter).await?
            }
            None => Vec::new(),
        };
        let participants = participants.into_iter().map(|stored| stored.body).collect();
        Ok(Authorization { has_schema: schema.is_some(), ecosystem, corporation, participants })
    }

    /// What the registry had on a recognition.
    async fn recognition(&self, question: &Question<'_>, moment: &Moment) -> Result<Recognition, ReadError> {
        let height = moment.height;
        let by_did = Filter { did: Some(question.entity.to_owned()), ..Filter::default() };
        let ecosystems = self.store.all(Kind::Ecosystem, height, &by_did).await?;
        let schema = self.store.entity(Kind::Schema, question.resource.schema_id, height).await?;
        Ok(Recognition {
            corporation: self.corporation_id_of(question.authority, height).await?,
            ecosystems: ecosystems.into_iter().map(|stored| stored.body).collect(),
            owner_of_schema: schema.and_then(|schema| schema["ecosystem_id"].as_u64()),
        })
    }

    /// The corporation whose own DID it is.
    pub(super) async fn corporation_id_of(&self, did: &str, height: u64) -> Result<Option<u64>, ReadError> {
        let filter = Filter { did: Some(did.to_owned()), ..Filter::default() };
        Ok(self.store.find(Kind::Corporation, &filter, height).await?.map(|stored| stored.id))
    }

    fn answered(&self, question: &Question<'_>, moment: &Moment, key: &str, verdict: Verdict) -> Value {
        let mut answer = Map::new();
        for (name, value) in [
            ("authority_id", question.authority),
            ("entity_id", question.entity),
            ("action", question.action),
            ("resource", question.resource.text),
        ] {
            answer.insert(name.to_owned(), value.into());
        }
        answer.insert("time_requested".to_owned(), iso_millis(moment.requested).into());
        answer.insert("time_evaluated".to_owned(), iso_millis(moment.evaluated).into());
        let remarks: Vec<String> = verdict.message.into_iter().chain(moment.note.clone()).collect();
        if !remarks.is_empty() {
            answer.insert("message".to_owned(), remarks.join("; ").into());
        }
        answer.insert(key.to_owned(), verdict.holds.into());
        if let Some(extension) = verdict.extension {
            answer.insert(self.namespace.as_str().to_owned(), extension);
        }
        Value::Object(answer)
    }
}

#[cfg(test)]
mod tests;
