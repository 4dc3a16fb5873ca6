//! Reads of the activity log and of events.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use svc_wire::event_stream::{EventsPage, IndexerEvent};

use super::anchoring::AnchoredProposals;
use crate::{
    derive::did_forms::normalize_did,
    projection::public_members,
    read::{
        error::ReadError,
        reader::{IndexReader, ReadRequest},
    },
    store::{
        EntityFilter, EntityKind, EventCursor, EventQuery, IdRange, IndexStoreError, StoredActivity, StoredEvent,
        iso_millis,
    },
};

impl IndexReader {
    /// Answers with the activity of an entity; `name` is the parameter with its id.
    pub(in crate::read) async fn history(
        &self,
        request: &ReadRequest<'_>,
        entity_type: &'static str,
        name: &str,
    ) -> Result<Value, ReadError> {
        let key = match (request.params.number(name), request.params.text(name)) {
            (Some(id), _) => id.to_string(),
            (None, text) => text.unwrap_or_default().to_owned(),
        };
        let page = request.params.page();
        let rows = self.store.list_activity(entity_type, &key, request.height, page.range, page.limit).await?;
        if rows.is_empty() {
            // An empty page is different from an entity without activity.
            let first = self.store.list_activity(entity_type, &key, request.height, IdRange::default(), 1).await?;
            if first.is_empty() {
                return Err(ReadError::NotFound(entity_type));
            }
        }
        let activity: Vec<Value> = rows.into_iter().map(activity_json).collect();
        Ok(json!({"entity_type": entity_type, "entity_id": key, "activity": activity}))
    }

    /// Answers with the activity of one block.
    pub(in crate::read) async fn block_changes(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let (mut rows, mut known) = (Vec::new(), AnchoredProposals::default());
        for row in self.store.list_block_activity(request.height).await? {
            if self.is_anchored_activity(&row, request.height, &mut known).await? {
                rows.push(row);
            }
        }
        for row in rows.iter_mut().filter(|row| row.entity_type == EntityKind::TrustDeposit.entity_type()) {
            // A list of changes names a deposit by the account of its corporation, the log of one deposit by the id.
            let id = row.entity_key.parse().unwrap_or(0);
            let owner = self.store.entity(EntityKind::Corporation, id, request.height).await?;
            if let Some(account) = owner.as_ref().and_then(|body| body["policy_address"].as_str()) {
                account.clone_into(&mut row.entity_key);
            }
        }
        let next = self.store.next_change_after(request.height).await?;
        let show = |row: StoredActivity| {
            let mut shown = activity_json(row);
            shown["block_height"] = request.height.to_string().into();
            if let Some(object) = shown.as_object_mut() {
                object.shift_remove("id");
            }
            shown
        };
        let activity: Vec<Value> = rows.into_iter().map(show).collect();
        Ok(json!({"block_height": request.height, "next_change_at": next, "activity": activity}))
    }

    /// Answers with the entities around a DID: its ecosystems and participants, their schemas, and the other
    /// participants of these schemas.
    pub(in crate::read) async fn did_snapshot(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let text = request.params.text("did").unwrap_or_default();
        if normalize_did(text).is_none() {
            return Err(ReadError::InvalidParameter(format!("did: {text:?} is not a DID")));
        }
        let did = text.to_owned();
        let by_did = EntityFilter { did: Some(did.clone()), ..EntityFilter::default() };
        let own_ecosystems = self.store.list_all(EntityKind::Ecosystem, request.height, &by_did).await?;
        let own_participants = self.store.list_all(EntityKind::Participant, request.height, &by_did).await?;
        let mut schemas = BTreeMap::new();
        for ecosystem in &own_ecosystems {
            let filter = EntityFilter { parent_id: Some(ecosystem.id), ..EntityFilter::default() };
            let found = self.store.list_all(EntityKind::Schema, request.height, &filter).await?;
            schemas.extend(found.into_iter().map(|stored| (stored.id, stored.body)));
        }
        for participant in &own_participants {
            let id = participant.body["schema_id"].as_u64().unwrap_or(0);
            if let Some(body) = self.store.entity(EntityKind::Schema, id, request.height).await? {
                schemas.insert(id, body);
            }
        }
        let mut ecosystems: BTreeMap<u64, Value> =
            own_ecosystems.into_iter().map(|stored| (stored.id, stored.body)).collect();
        for schema in schemas.values() {
            let id = schema["ecosystem_id"].as_u64().unwrap_or(0);
            if let Some(body) = self.store.entity(EntityKind::Ecosystem, id, request.height).await? {
                ecosystems.insert(id, body);
            }
        }
        let mut participants: BTreeMap<u64, Value> =
            own_participants.into_iter().map(|stored| (stored.id, stored.body)).collect();
        let owners: Vec<u64> = ecosystems.values().filter_map(|body| body["corporation_id"].as_u64()).collect();
        let of_schemas = schemas.keys().map(|id| EntityFilter { parent_id: Some(*id), ..EntityFilter::default() });
        let of_owners =
            owners.into_iter().map(|id| EntityFilter { corporation_id: Some(id), ..EntityFilter::default() });
        for filter in of_schemas.chain(of_owners) {
            let found = self.store.list_all(EntityKind::Participant, request.height, &filter).await?;
            participants.extend(found.into_iter().map(|stored| (stored.id, stored.body)));
        }
        let list = |bodies: BTreeMap<u64, Value>| bodies.into_values().map(public_members).collect::<Vec<_>>();
        let count = json!({
            "ecosystems": ecosystems.len(), "schemas": schemas.len(), "participants": participants.len(),
        });
        Ok(json!({
            "did": did, "block_height": request.height, "ecosystems": list(ecosystems), "schemas": list(schemas),
            "participants": list(participants), "count": count,
        }))
    }

    /// Answers with events in order. A full page names the cursor of the next page. A page without a cursor ends with a block, so that its
    /// count may exceed the limit: readers without cursors go on behind the height of its last event. One with a cursor ends anywhere.
    pub(in crate::read) async fn events(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let params = request.params;
        let after_block_height = params.number("after_block_height").unwrap_or(0);
        let cursor = params.text("cursor").and_then(|text| text.split_once('.'));
        let after = match cursor {
            Some((height, position)) => {
                EventCursor { height: height.parse().unwrap_or(u64::MAX), position: position.parse().ok() }
            }
            None => EventCursor { height: after_block_height, position: None },
        };
        let late_start = self.late_start().await?.map(|oldest| oldest.height);
        if let Some(oldest) = late_start
            && let Some(missing) = first_missing_block(&after, oldest)
        {
            return Err(ReadError::block_not_indexed(missing, oldest));
        }
        let dids = params.list("dids");
        // A list without a valid DID matches no event; it is not an error.
        let is_empty = dids.is_some_and(<[String]>::is_empty);
        let limit = usize::try_from(params.number("limit").unwrap_or(100)).unwrap_or(usize::MAX);
        let query = EventQuery {
            dids: dids.unwrap_or_default().to_vec(),
            corporation_id: params.number("corporation_id"),
            after,
            limit,
        };
        let found = match (is_empty, cursor) {
            (true, _) => Vec::new(),
            (false, Some(_)) => self.store.list_events(&query).await?,
            (false, None) => self.store.list_events_of_whole_blocks(&query).await?,
        };
        let last = found.last().map(|StoredEvent { height, position, .. }| format!("{height}.{position}"));
        let next_cursor = last.filter(|_| found.len() >= limit);
        let events: Vec<IndexerEvent> = found.into_iter().map(|stored| stored.event).collect();
        let oldest_block_height = late_start.filter(|_| after == EventCursor::default());
        let page = EventsPage { count: events.len(), events, after_block_height, oldest_block_height, next_cursor };
        serde_json::to_value(page).map_err(|error| IndexStoreError::CorruptRow(error.to_string()).into())
    }
}

/// The first block of a page of events, where an index that begins with `oldest` lacks it. A page from the start begins with the oldest block.
fn first_missing_block(after: &EventCursor, oldest: u64) -> Option<u64> {
    if *after == EventCursor::default() {
        return None;
    }
    // A position is one inside its block, whose other events follow.
    let first = if after.position.is_some() { after.height } else { after.height.saturating_add(1) };
    (first < oldest).then_some(first)
}

/// The name of a movement of a trust deposit. Earlier releases stored names of their own.
fn movement(stored: &str) -> &str {
    match stored {
        "CREATE_TRUST_DEPOSIT" | "ADJUST_TRUST_DEPOSIT" => "AdjustTrustDeposit",
        "SLASH_TRUST_DEPOSIT" => "SlashTrustDeposit",
        "BURN_ECOSYSTEM_SLASHED_TRUST_DEPOSIT" => "BurnEcosystemSlashedTrustDeposit",
        "RECLAIM_YIELD" => "ReclaimTrustDepositYield",
        "REPAY_SLASHED" => "RepaySlashedTrustDeposit",
        other => other,
    }
}

fn activity_json(row: StoredActivity) -> Value {
    let mut shown = json!({
        "id": row.id, "timestamp": iso_millis(row.time), "block_height": row.height, "entity_type": row.entity_type,
        "entity_id": row.entity_key, "msg": movement(&row.message), "changes": row.changes,
    });
    if let Some(account) = row.account {
        shown["account"] = account.into();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_events_needs_the_block_after_its_height_and_the_block_of_its_position() {
        let after = |height, position| EventCursor { height, position };
        for (cursor, missing) in [
            (after(0, None), None),
            (after(1, None), Some(2)),
            (after(8, None), Some(9)),
            (after(9, None), None),
            (after(10, None), None),
            (after(0, Some(3)), Some(0)),
            (after(9, Some(0)), Some(9)),
            (after(10, Some(0)), None),
            (after(u64::MAX, None), None),
        ] {
            assert_eq!(first_missing_block(&cursor, 10), missing, "{cursor:?}");
        }
    }
}
