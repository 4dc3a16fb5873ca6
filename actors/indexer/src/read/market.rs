//! Reads of credential schemas, participants and their sessions.

use std::collections::{BTreeMap, HashMap, HashSet, hash_map::Entry};

use serde_json::{Value, json};

use super::{
    Ask, ReadError, Reader,
    framework::{archived, put_figures},
    scan::{Row, with_trust},
    wrapped,
};
use crate::{
    derive::{
        measures::{Metric, Scope},
        state::{ParticipantState, actions, expires_soon, instant_of},
    },
    project::public,
    store::{Filter, Kind},
};

/// Schemas and validators that several rows of one answer share.
#[derive(Default)]
struct Shared(HashMap<(Kind, u64), Option<Value>>);

impl Shared {
    async fn get(&mut self, reader: &Reader, ask: &Ask<'_>, kind: Kind, id: u64) -> Result<Option<&Value>, ReadError> {
        let body = match self.0.entry((kind, id)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(reader.store.entity(kind, id, ask.height).await?),
        };
        Ok(body.as_ref())
    }
}

impl Reader {
    pub(super) async fn schema(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let id = ask.params.required("id")?;
        let body = self.one(ask, Kind::Schema, id).await?;
        let figures = self.store.measures(Scope::Schema(id), ask.height).await?;
        Ok(wrapped("schema", show_schema(Row { id, body, figures })))
    }

    pub(super) async fn schemas(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let params = ask.params;
        let filter = Filter { parent_id: params.number("ecosystem_id"), ..Filter::default() };
        let modes = ["issuer_onboarding_mode", "verifier_onboarding_mode", "holder_onboarding_mode"]
            .map(|key| (key, params.text(key)));
        let archived = archived(ask);
        let joined = self.joined(ask, "schema_id").await?;
        let owned: HashSet<u64> = match &joined {
            None => HashSet::new(),
            Some((corporation, _)) => {
                let filter = Filter { corporation_id: Some(*corporation), ..Filter::default() };
                let owned = self.store.all(Kind::Ecosystem, ask.height, &filter).await?;
                owned.into_iter().map(|stored| stored.id).collect()
            }
        };
        let is_wanted = |row: &Row| {
            let is_owned = || row.body["ecosystem_id"].as_u64().is_some_and(|id| owned.contains(&id));
            archived.is_none_or(|archived| archived != row.body["archived"].is_null())
                && modes.iter().all(|(key, mode)| mode.is_none_or(|mode| row.body[*key] == mode))
                && joined.as_ref().is_none_or(|(_, active)| active.contains(&row.id) || is_owned())
        };
        let rows = self.scan(ask, Kind::Schema, &filter, Some(Scope::Schema), is_wanted).await?;
        let shown: Vec<Value> = rows.into_iter().map(show_schema).collect();
        Ok(wrapped("schemas", shown))
    }

    /// The bare document under its canonical `$id`.
    pub(super) async fn json_schema(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let id = ask.params.required("id")?;
        let body = self.one(ask, Kind::Schema, id).await?;
        let text = body["json_schema"].as_str().unwrap_or_default();
        let mut document: Value = serde_json::from_str(text).unwrap_or_default();
        if document.is_object() {
            document["$id"] = format!("vpr:{}:{}:cs:{id}", self.namespace.as_str(), self.node.network).into();
        }
        Ok(document)
    }

    pub(super) async fn participant(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let id = ask.params.required("id")?;
        let body = self.one(ask, Kind::Participant, id).await?;
        let figures = self.store.measures(Scope::Participant(id), ask.height).await?;
        let row = Row { id, body, figures };
        Ok(wrapped("participant", self.show_participant(ask, row, &mut Shared::default()).await?))
    }

    pub(super) async fn participants(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let params = ask.params;
        let found_by = Filter {
            parent_id: params.number("schema_id"),
            did: params.text("did").map(str::to_owned),
            ..Filter::default()
        };
        let Some(filter) = self.owned(ask, found_by).await? else {
            return Ok(wrapped("participants", Vec::<Value>::new()));
        };
        // As in the reference, a state of the onboarding process given as a role is taken as what it is.
        let is_op_state = |text: &&str| matches!(*text, "PENDING" | "VALIDATED" | "TERMINATED");
        let role = params.text("role").filter(|role| !is_op_state(role));
        let op_states = [params.text("op_state"), params.text("role").filter(is_op_state)];
        let state = params.text("participant_state");
        let only = ["only_valid", "only_slashed", "only_repaid"].map(|key| params.flag(key) == Some(true));
        let numbers =
            [("id", "participant_id"), ("ecosystem_id", "ecosystem_id")].map(|(key, name)| (key, params.number(name)));
        let validator = params.number("validator_participant_id");
        let when = params.instant("when");
        let is_wanted = |row: &Row| {
            let body = &row.body;
            let own = ParticipantState::at(body, ask.now);
            let spans = |instant: i128| {
                instant_of(body, "effective_from").is_none_or(|from| from <= instant)
                    && instant_of(body, "effective_until").is_none_or(|until| until > instant)
            };
            let [is_valid_only, is_slashed_only, is_repaid_only] = only;
            role.is_none_or(|role| body["role"] == role)
                && op_states.iter().flatten().all(|state| body["op_state"] == *state)
                && state.is_none_or(|state| own.as_str() == state)
                && numbers.iter().all(|(key, wanted)| wanted.is_none_or(|wanted| body[*key] == wanted))
                && validator.is_none_or(|id| body["validator_participant_id"] == id)
                && (!is_valid_only || own == ParticipantState::Active)
                && (!is_slashed_only || !body["slashed"].is_null())
                && (!is_repaid_only || !body["repaid"].is_null())
                && when.is_none_or(spans)
        };
        let rows = self.scan(ask, Kind::Participant, &filter, Some(Scope::Participant), is_wanted).await?;
        Ok(wrapped("participants", self.show_participants(ask, rows).await?))
    }

    async fn show_participants(&self, ask: &Ask<'_>, rows: Vec<Row>) -> Result<Vec<Value>, ReadError> {
        let mut shared = Shared::default();
        let mut shown = Vec::with_capacity(rows.len());
        for row in rows {
            shown.push(self.show_participant(ask, row, &mut shared).await?);
        }
        Ok(shown)
    }

    async fn show_participant(&self, ask: &Ask<'_>, row: Row, shared: &mut Shared) -> Result<Value, ReadError> {
        let mut body = row.body;
        let state = ParticipantState::at(&body, ask.now);
        let mode_key = match body["role"].as_str() {
            Some("ISSUER" | "ISSUER_GRANTOR") => Some("issuer_onboarding_mode"),
            Some("VERIFIER" | "VERIFIER_GRANTOR") => Some("verifier_onboarding_mode"),
            _ => None,
        };
        let schema = shared.get(self, ask, Kind::Schema, body["schema_id"].as_u64().unwrap_or(0)).await?;
        let mode = schema.zip(mode_key).and_then(|(schema, key)| schema[key].as_str()).map(str::to_owned);
        let validator = body["validator_participant_id"].as_u64().unwrap_or(0);
        let validator = shared.get(self, ask, Kind::Participant, validator).await?;
        let is_validator_active =
            validator.is_some_and(|validator| ParticipantState::at(validator, ask.now) == ParticipantState::Active);
        let actions = actions(&body, state, mode.as_deref(), is_validator_active);
        body["participant_state"] = state.as_str().into();
        body["corporation_available_actions"] = actions.corporation.into();
        body["validator_available_actions"] = actions.validator.into();
        body["expire_soon"] = expires_soon(&body, state, ask.now).into();
        if let Some(object) = body.as_object_mut() {
            put_figures(object, &row.figures);
        }
        body["weight"] = row.figures.get(Metric::Weight).to_string().into();
        Ok(with_trust(ask, public(body)))
    }

    /// Participants that wait for a corporation's validation, by ecosystem and schema.
    pub(super) async fn pending(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let corporation = ask.params.required("corporation_id")?;
        let filter = Filter { corporation_id: Some(corporation), ..Filter::default() };
        let own = self.store.all(Kind::Participant, ask.height, &filter).await?;
        let validators: HashSet<u64> = own.iter().map(|stored| stored.id).collect();
        let schemas: HashSet<u64> = own.iter().filter_map(|stored| stored.body["schema_id"].as_u64()).collect();
        let mut waiting: BTreeMap<u64, BTreeMap<u64, Vec<Row>>> = BTreeMap::new();
        for schema in schemas {
            let filter = Filter { parent_id: Some(schema), ..Filter::default() };
            for stored in self.store.all(Kind::Participant, ask.height, &filter).await? {
                let validator = stored.body["validator_participant_id"].as_u64();
                let is_waiting =
                    stored.body["op_state"] == "PENDING" && validator.is_some_and(|id| validators.contains(&id));
                if is_waiting {
                    let figures = self.store.measures(Scope::Participant(stored.id), ask.height).await?;
                    let row = Row { id: stored.id, body: stored.body, figures };
                    let ecosystem = row.body["ecosystem_id"].as_u64().unwrap_or(0);
                    waiting.entry(ecosystem).or_default().entry(schema).or_default().push(row);
                }
            }
        }
        let limit = ask.params.page().limit;
        let mut ecosystems = Vec::new();
        for (id, schemas) in waiting.into_iter().take(limit) {
            let mut shown = Vec::new();
            for (schema, rows) in schemas {
                let body = self.store.entity(Kind::Schema, schema, ask.height).await?.unwrap_or_default();
                let figures = self.store.measures(Scope::Schema(schema), ask.height).await?;
                let mut item = json!({
                    "id": schema, "pending_tasks": rows.len(),
                    "participants": super::stats::count(&figures, Metric::Participants),
                });
                for key in ["title", "description"] {
                    if let Some(text) = body.get(key) {
                        item[key] = text.clone();
                    }
                }
                item["pending_participants"] = self.show_participants(ask, rows).await?.into();
                shown.push(item);
            }
            let body = self.store.entity(Kind::Ecosystem, id, ask.height).await?.unwrap_or_default();
            let figures = self.store.measures(Scope::Ecosystem(id), ask.height).await?;
            let tasks: u64 = shown.iter().filter_map(|schema| schema["pending_tasks"].as_u64()).sum();
            let item = json!({
                "id": id, "did": body["did"], "pending_tasks": tasks,
                "participants": super::stats::count(&figures, Metric::Participants), "schemas": shown,
            });
            ecosystems.push(with_trust(ask, item));
        }
        Ok(wrapped("ecosystems", ecosystems))
    }

    /// Who is paid for an issuance or a verification, in the order in which the chain pays.
    pub(super) async fn beneficiaries(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let [issuer, verifier] =
            ["issuer_participant_id", "verifier_participant_id"].map(|name| (name, ask.params.number(name)));
        if issuer.1.is_none() && verifier.1.is_none() {
            let text = "issuer_participant_id, verifier_participant_id: at least one of the two is required";
            return Err(ReadError::Parameter(text.to_owned()));
        }
        let mut found: Vec<(u64, Value)> = Vec::new();
        for (name, id) in [issuer, verifier] {
            let Some(id) = id else { continue };
            let body = self.one(ask, Kind::Participant, id).await?;
            if ParticipantState::at(&body, ask.now) != ParticipantState::Active {
                return Err(ReadError::Parameter(format!("{name}: participant {id} is not ACTIVE")));
            }
            let mut next = body["validator_participant_id"].as_u64();
            let mut above: Vec<(u64, Value)> = Vec::new();
            while let Some(id) = next {
                let Some(body) = self.store.entity(Kind::Participant, id, ask.height).await? else { break };
                next =
                    body["validator_participant_id"].as_u64().filter(|id| above.iter().all(|(known, _)| known != id));
                above.push((id, body));
            }
            above.retain(|(_, body)| body["revoked"].is_null() && body["slashed"].is_null());
            if verifier.1.is_some() && name == issuer.0 {
                above.push((id, body));
            }
            for (id, body) in above {
                if !found.iter().any(|(known, _)| *known == id) {
                    found.push((id, body));
                }
            }
        }
        let mut rows = Vec::with_capacity(found.len());
        for (id, body) in found {
            let figures = self.store.measures(Scope::Participant(id), ask.height).await?;
            rows.push(Row { id, body, figures });
        }
        Ok(wrapped("participants", self.show_participants(ask, rows).await?))
    }

    pub(super) async fn session(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let filter = Filter { name: ask.params.text("id").map(str::to_owned), ..Filter::default() };
        let found = self.store.find(Kind::Session, &filter, ask.height).await?;
        Ok(wrapped("session", public(found.ok_or(ReadError::NotFound("ParticipantSession"))?.body)))
    }
}

fn show_schema(row: Row) -> Value {
    let mut body = public(row.body);
    if let Some(object) = body.as_object_mut() {
        put_figures(object, &row.figures);
    }
    body
}
