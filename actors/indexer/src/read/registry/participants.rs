//! Reads of credential schemas, participants and their sessions.

use std::collections::{BTreeMap, HashMap, HashSet, hash_map::Entry};

use serde_json::{Value, json};
use svc_wire::{participant_state::ParticipantState, timestamp::parse_instant};

use super::{
    entity_scan::{MeasuredEntity, add_trust_slot},
    governance::{archived_filter, insert_measures, with_text_weight},
    stats::measure_number,
};
use crate::{
    derive::{
        participant::{available_actions, expires_soon},
        stats::{StatsMetric, StatsScope},
    },
    projection::public_members,
    read::{
        answer_json::wrap_member,
        error::ReadError,
        reader::{IndexReader, ReadRequest},
    },
    store::{EntityFilter, EntityKind},
};

/// Entities that several rows of one answer share.
#[derive(Default)]
struct EntityCache(HashMap<(EntityKind, u64), Option<Value>>);

impl EntityCache {
    async fn get_or_load(
        &mut self,
        reader: &IndexReader,
        request: &ReadRequest<'_>,
        kind: EntityKind,
        id: u64,
    ) -> Result<Option<&Value>, ReadError> {
        let body = match self.0.entry((kind, id)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(reader.store.entity(kind, id, request.height).await?),
        };
        Ok(body.as_ref())
    }
}

impl IndexReader {
    pub(in crate::read) async fn schema(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let id = request.params.required_number("id")?;
        let body = self.require_entity(request, EntityKind::Schema, id).await?;
        let measures = self.store.measures(StatsScope::Schema(id), request.height).await?;
        Ok(wrap_member("schema", schema_json(MeasuredEntity { id, body, measures })))
    }

    pub(in crate::read) async fn schemas(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let params = request.params;
        let filter = EntityFilter { parent_id: params.number("ecosystem_id"), ..EntityFilter::default() };
        let modes = ["issuer_onboarding_mode", "verifier_onboarding_mode", "holder_onboarding_mode"]
            .map(|key| (key, params.text(key)));
        let archived = archived_filter(request);
        let joined = self.find_participations(request, "schema_id").await?;
        let owned: HashSet<u64> = match &joined {
            None => HashSet::new(),
            Some((corporation, _)) => {
                let filter = EntityFilter { corporation_id: Some(*corporation), ..EntityFilter::default() };
                let owned = self.store.list_all(EntityKind::Ecosystem, request.height, &filter).await?;
                owned.into_iter().map(|stored| stored.id).collect()
            }
        };
        let is_wanted = |row: &MeasuredEntity| {
            let is_owned = || row.body["ecosystem_id"].as_u64().is_some_and(|id| owned.contains(&id));
            archived.is_none_or(|archived| archived != row.body["archived"].is_null())
                && modes.iter().all(|(key, mode)| mode.is_none_or(|mode| row.body[*key] == mode))
                && joined.as_ref().is_none_or(|(_, active)| active.contains(&row.id) || is_owned())
        };
        let rows =
            self.scan_entities(request, EntityKind::Schema, &filter, Some(StatsScope::Schema), is_wanted).await?;
        let shown: Vec<Value> = rows.into_iter().map(|row| with_text_weight(schema_json(row))).collect();
        Ok(wrap_member("schemas", shown))
    }

    /// Answers with the JSON Schema document under its canonical `$id`.
    pub(in crate::read) async fn json_schema(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let id = request.params.required_number("id")?;
        let body = self.require_entity(request, EntityKind::Schema, id).await?;
        let text = body["json_schema"].as_str().unwrap_or_default();
        let mut document: Value = serde_json::from_str(text).unwrap_or_default();
        if document.is_object() {
            document["$id"] =
                format!("vpr:{}:{}:cs:{id}", self.subject.namespace.as_str(), self.subject.node.network).into();
        }
        Ok(document)
    }

    pub(in crate::read) async fn participant(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let id = request.params.required_number("id")?;
        let body = self.require_entity(request, EntityKind::Participant, id).await?;
        let measures = self.store.measures(StatsScope::Participant(id), request.height).await?;
        let row = MeasuredEntity { id, body, measures };
        Ok(wrap_member("participant", self.participant_json(request, row, &mut EntityCache::default()).await?))
    }

    pub(in crate::read) async fn participants(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let params = request.params;
        let found_by = EntityFilter {
            parent_id: params.number("schema_id"),
            did: params.text("did").map(str::to_owned),
            ..EntityFilter::default()
        };
        let Some(filter) = self.filter_by_owner(request, found_by).await? else {
            return Ok(wrap_member("participants", Vec::<Value>::new()));
        };
        // As in the reference, a state of the onboarding process is accepted in place of a role.
        let is_op_state = |text: &&str| matches!(*text, "PENDING" | "VALIDATED" | "TERMINATED");
        let role = params.text("role").filter(|role| !is_op_state(role));
        let op_states = [params.text("op_state"), params.text("role").filter(is_op_state)];
        let state = params.text("participant_state");
        let has_flag = |name: &str| params.flag(name) == Some(true);
        let is_valid_only = has_flag("only_valid");
        let is_slashed_only = has_flag("only_slashed");
        let is_repaid_only = has_flag("only_repaid");
        let numbers =
            [("id", "participant_id"), ("ecosystem_id", "ecosystem_id")].map(|(key, name)| (key, params.number(name)));
        let validator = params.number("validator_participant_id");
        let when = params.instant("when");
        let is_wanted = |row: &MeasuredEntity| {
            let body = &row.body;
            let own = ParticipantState::derive_at(body, request.block_time);
            let spans = |instant: i128| {
                parse_instant(body, "effective_from").is_none_or(|from| from <= instant)
                    && parse_instant(body, "effective_until").is_none_or(|until| until > instant)
            };
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
        let rows = self
            .scan_entities(request, EntityKind::Participant, &filter, Some(StatsScope::Participant), is_wanted)
            .await?;
        Ok(wrap_member("participants", self.participant_list(request, rows).await?))
    }

    async fn participant_list(
        &self,
        request: &ReadRequest<'_>,
        rows: Vec<MeasuredEntity>,
    ) -> Result<Vec<Value>, ReadError> {
        let mut shared = EntityCache::default();
        let mut shown = Vec::with_capacity(rows.len());
        for row in rows {
            shown.push(self.participant_json(request, row, &mut shared).await?);
        }
        Ok(shown)
    }

    async fn participant_json(
        &self,
        request: &ReadRequest<'_>,
        row: MeasuredEntity,
        shared: &mut EntityCache,
    ) -> Result<Value, ReadError> {
        let mut body = row.body;
        let state = ParticipantState::derive_at(&body, request.block_time);
        let mode_key = match body["role"].as_str() {
            Some("ISSUER" | "ISSUER_GRANTOR") => Some("issuer_onboarding_mode"),
            Some("VERIFIER" | "VERIFIER_GRANTOR") => Some("verifier_onboarding_mode"),
            _ => None,
        };
        let schema =
            shared.get_or_load(self, request, EntityKind::Schema, body["schema_id"].as_u64().unwrap_or(0)).await?;
        let mode = schema.zip(mode_key).and_then(|(schema, key)| schema[key].as_str()).map(str::to_owned);
        let validator = body["validator_participant_id"].as_u64().unwrap_or(0);
        let validator = shared.get_or_load(self, request, EntityKind::Participant, validator).await?;
        let is_validator_active = validator.is_some_and(|validator| {
            ParticipantState::derive_at(validator, request.block_time) == ParticipantState::Active
        });
        let actions = available_actions(&body, state, mode.as_deref(), is_validator_active);
        body["participant_state"] = state.as_str().into();
        body["corporation_available_actions"] = actions.corporation.into();
        body["validator_available_actions"] = actions.validator.into();
        body["expire_soon"] = expires_soon(&body, state, request.block_time).into();
        if let Some(object) = body.as_object_mut() {
            insert_measures(object, &row.measures);
        }
        body["weight"] = row.measures.get(StatsMetric::Weight).to_string().into();
        Ok(add_trust_slot(request, public_members(body)))
    }

    /// Answers with the participants that wait for validation by a corporation, by ecosystem and schema.
    pub(in crate::read) async fn pending_participants(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let corporation = request.params.required_number("corporation_id")?;
        let filter = EntityFilter { corporation_id: Some(corporation), ..EntityFilter::default() };
        let own = self.store.list_all(EntityKind::Participant, request.height, &filter).await?;
        let validators: HashSet<u64> = own.iter().map(|stored| stored.id).collect();
        let schemas: HashSet<u64> = own.iter().filter_map(|stored| stored.body["schema_id"].as_u64()).collect();
        let mut waiting: BTreeMap<u64, BTreeMap<u64, Vec<MeasuredEntity>>> = BTreeMap::new();
        for schema in schemas {
            let filter = EntityFilter { parent_id: Some(schema), ..EntityFilter::default() };
            for stored in self.store.list_all(EntityKind::Participant, request.height, &filter).await? {
                let validator = stored.body["validator_participant_id"].as_u64();
                let is_waiting =
                    stored.body["op_state"] == "PENDING" && validator.is_some_and(|id| validators.contains(&id));
                if is_waiting {
                    let measures = self.store.measures(StatsScope::Participant(stored.id), request.height).await?;
                    let row = MeasuredEntity { id: stored.id, body: stored.body, measures };
                    let ecosystem = row.body["ecosystem_id"].as_u64().unwrap_or(0);
                    waiting.entry(ecosystem).or_default().entry(schema).or_default().push(row);
                }
            }
        }
        let limit = request.params.page().limit;
        let mut ecosystems = Vec::new();
        for (id, schemas) in waiting.into_iter().take(limit) {
            let mut shown = Vec::new();
            for (schema, rows) in schemas {
                let body = self.store.entity(EntityKind::Schema, schema, request.height).await?.unwrap_or_default();
                let measures = self.store.measures(StatsScope::Schema(schema), request.height).await?;
                let mut item = json!({
                    "id": schema, "pending_tasks": rows.len(),
                    "participants": measure_number(&measures, StatsMetric::Participants),
                });
                for key in ["title", "description"] {
                    if let Some(text) = body.get(key) {
                        item[key] = text.clone();
                    }
                }
                item["pending_participants"] = self.participant_list(request, rows).await?.into();
                shown.push(item);
            }
            let body = self.store.entity(EntityKind::Ecosystem, id, request.height).await?.unwrap_or_default();
            let measures = self.store.measures(StatsScope::Ecosystem(id), request.height).await?;
            let tasks: u64 = shown.iter().filter_map(|schema| schema["pending_tasks"].as_u64()).sum();
            let item = json!({
                "id": id, "did": body["did"], "pending_tasks": tasks,
                "participants": measure_number(&measures, StatsMetric::Participants), "schemas": shown,
            });
            ecosystems.push(add_trust_slot(request, item));
        }
        Ok(wrap_member("ecosystems", ecosystems))
    }

    /// Answers with the beneficiaries of an issuance or a verification, in the order in which the chain pays them.
    pub(in crate::read) async fn beneficiaries(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let [issuer, verifier] =
            ["issuer_participant_id", "verifier_participant_id"].map(|name| (name, request.params.number(name)));
        if issuer.1.is_none() && verifier.1.is_none() {
            let text = "issuer_participant_id, verifier_participant_id: at least one of the two is required";
            return Err(ReadError::InvalidParameter(text.to_owned()));
        }
        let mut found: Vec<(u64, Value)> = Vec::new();
        for (name, id) in [issuer, verifier] {
            let Some(id) = id else { continue };
            let body = self.require_entity(request, EntityKind::Participant, id).await?;
            if ParticipantState::derive_at(&body, request.block_time) != ParticipantState::Active {
                return Err(ReadError::InvalidParameter(format!("{name}: participant {id} is not ACTIVE")));
            }
            let mut next = body["validator_participant_id"].as_u64();
            let mut ancestors: Vec<(u64, Value)> = Vec::new();
            while let Some(id) = next {
                let Some(body) = self.store.entity(EntityKind::Participant, id, request.height).await? else { break };
                next = body["validator_participant_id"]
                    .as_u64()
                    .filter(|id| ancestors.iter().all(|(known, _)| known != id));
                ancestors.push((id, body));
            }
            ancestors.retain(|(_, body)| body["revoked"].is_null() && body["slashed"].is_null());
            if verifier.1.is_some() && name == issuer.0 {
                ancestors.push((id, body));
            }
            for (id, body) in ancestors {
                if !found.iter().any(|(known, _)| *known == id) {
                    found.push((id, body));
                }
            }
        }
        let mut rows = Vec::with_capacity(found.len());
        for (id, body) in found {
            let measures = self.store.measures(StatsScope::Participant(id), request.height).await?;
            rows.push(MeasuredEntity { id, body, measures });
        }
        Ok(wrap_member("participants", self.participant_list(request, rows).await?))
    }

    pub(in crate::read) async fn session(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let filter = EntityFilter { name: request.params.text("id").map(str::to_owned), ..EntityFilter::default() };
        let found = self.store.find_entity(EntityKind::Session, &filter, request.height).await?;
        Ok(wrap_member("session", public_members(found.ok_or(ReadError::NotFound("ParticipantSession"))?.body)))
    }
}

fn schema_json(row: MeasuredEntity) -> Value {
    let mut body = public_members(row.body);
    if let Some(object) = body.as_object_mut() {
        insert_measures(object, &row.measures);
    }
    body
}
