//! Reads of the activity log and of the events.

use serde_json::{Value, json};
use svc_wire::event::{Event, EventsPage};

use super::{Ask, ReadError, Reader};
use crate::{
    project::public,
    store::{ActivityRow, EventQuery, Filter, Kind, iso_millis},
};

impl Reader {
    /// What was done to an entity; `name` is the parameter that holds its id.
    pub(super) async fn history(
        &self,
        ask: &Ask<'_>,
        entity_type: &'static str,
        name: &str,
    ) -> Result<Value, ReadError> {
        let key = match (ask.params.number(name), ask.params.text(name)) {
            (Some(id), _) => id.to_string(),
            (None, text) => text.unwrap_or_default().to_owned(),
        };
        let page = ask.params.page();
        let rows = self.store.history(entity_type, &key, ask.height, page.range, page.limit).await?;
        if rows.is_empty() {
            // An empty page of something, or nothing at all?
            let first = self.store.history(entity_type, &key, ask.height, Default::default(), 1).await?;
            if first.is_empty() {
                return Err(ReadError::NotFound(entity_type));
            }
        }
        let activity: Vec<Value> = rows.into_iter().map(show).collect();
        Ok(json!({"entity_type": entity_type, "entity_id": key, "activity": activity}))
    }

    /// Everything one block did.
    pub(super) async fn changes(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let rows = self.store.activity_at(ask.height).await?;
        let next = self.store.next_change_after(ask.height).await?;
        let show = |row: ActivityRow| {
            let mut shown = show(row);
            shown["block_height"] = ask.height.to_string().into();
            if let Some(object) = shown.as_object_mut() {
                object.remove("id");
            }
            shown
        };
        let activity: Vec<Value> = rows.into_iter().map(show).collect();
        Ok(json!({"block_height": ask.height, "next_change_at": next, "activity": activity}))
    }

    /// Everything around a DID: its ecosystems and participants, their schemas, and who else takes part in these.
    pub(super) async fn did_snapshot(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let text = ask.params.text("did").unwrap_or_default();
        if crate::hub::normal_did(text).is_none() {
            return Err(ReadError::Parameter(format!("did: {text:?} is not a DID")));
        }
        let did = text.to_owned();
        let by_did = Filter { did: Some(did.clone()), ..Filter::default() };
        let own_ecosystems = self.store.all(Kind::Ecosystem, ask.height, &by_did).await?;
        let own_participants = self.store.all(Kind::Participant, ask.height, &by_did).await?;
        let mut schemas = std::collections::BTreeMap::new();
        for ecosystem in &own_ecosystems {
            let filter = Filter { parent_id: Some(ecosystem.id), ..Filter::default() };
            let found = self.store.all(Kind::Schema, ask.height, &filter).await?;
            schemas.extend(found.into_iter().map(|stored| (stored.id, stored.body)));
        }
        for participant in &own_participants {
            let id = participant.body["schema_id"].as_u64().unwrap_or(0);
            if let Some(body) = self.store.entity(Kind::Schema, id, ask.height).await? {
                schemas.insert(id, body);
            }
        }
        let mut ecosystems: std::collections::BTreeMap<u64, Value> =
            own_ecosystems.into_iter().map(|stored| (stored.id, stored.body)).collect();
        for schema in schemas.values() {
            let id = schema["ecosystem_id"].as_u64().unwrap_or(0);
            if let Some(body) = self.store.entity(Kind::Ecosystem, id, ask.height).await? {
                ecosystems.insert(id, body);
            }
        }
        let mut participants: std::collections::BTreeMap<u64, Value> =
            own_participants.into_iter().map(|stored| (stored.id, stored.body)).collect();
        let owners: Vec<u64> = ecosystems.values().filter_map(|body| body["corporation_id"].as_u64()).collect();
        let of_schemas = schemas.keys().map(|id| Filter { parent_id: Some(*id), ..Filter::default() });
        let of_owners = owners.into_iter().map(|id| Filter { corporation_id: Some(id), ..Filter::default() });
        for filter in of_schemas.chain(of_owners) {
            let found = self.store.all(Kind::Participant, ask.height, &filter).await?;
            participants.extend(found.into_iter().map(|stored| (stored.id, stored.body)));
        }
        let list =
            |bodies: std::collections::BTreeMap<u64, Value>| bodies.into_values().map(public).collect::<Vec<_>>();
        let count = json!({
            "ecosystems": ecosystems.len(), "schemas": schemas.len(), "participants": participants.len(),
        });
        Ok(json!({
            "did": did, "block_height": ask.height, "ecosystems": list(ecosystems), "schemas": list(schemas),
            "participants": list(participants), "count": count,
        }))
    }

    /// Events in order. A page that is full names the cursor to go on with, also inside a block.
    pub(super) async fn events(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let params = ask.params;
        let after_block_height = params.number("after_block_height").unwrap_or(0);
        let cursor = params.text("cursor").and_then(|text| text.split_once('.'));
        let after = match cursor {
            Some((height, position)) => (height.parse().unwrap_or(u64::MAX), position.parse().ok()),
            None => (after_block_height, None),
        };
        let dids = params.list("dids");
        // Given, but without a valid DID: an empty list, no error.
        let is_nothing = dids.is_some_and(<[String]>::is_empty);
        let limit = usize::try_from(params.number("limit").unwrap_or(100)).unwrap_or(usize::MAX);
        let query = EventQuery {
            dids: dids.unwrap_or_default().to_vec(),
            corporation_id: params.number("corporation_id"),
            after,
            limit,
        };
        let found = if is_nothing { Vec::new() } else { self.store.events(&query).await? };
        let last = found.last().map(|(height, position, _)| format!("{height}.{position}"));
        let next_cursor = last.filter(|_| found.len() == limit);
        let events: Vec<Event> = found.into_iter().map(|(_, _, event)| event).collect();
        let page = EventsPage { count: events.len(), events, after_block_height, next_cursor };
        serde_json::to_value(page).map_err(|error| crate::store::StoreError::Corrupt(error.to_string()).into())
    }
}

fn show(row: ActivityRow) -> Value {
    let mut shown = json!({
        "id": row.id, "timestamp": iso_millis(row.time), "block_height": row.height, "entity_type": row.entity_type,
        "entity_id": row.entity_key, "msg": row.msg, "changes": row.changes,
    });
    if let Some(account) = row.account {
        shown["account"] = account.into();
    }
    shown
}
