//! Events, and the routes by which filters find them.

use std::collections::BTreeMap;

use sqlx::{AnyConnection, AssertSqlSafe, Row};
use svc_wire::event_stream::{BlockMessage, IndexerEvent};

use crate::store::{
    columns::{from_column, index_key, iso_millis, to_column},
    error::IndexStoreError,
    index_store::IndexStore,
    row_insert::RowInsert,
};

/// A DID or a corporation by which filters find an event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventRoute {
    /// The DID of the event, or a related one.
    Did(String),
    /// The corporation of the event, or a related one.
    Corporation(u64),
}

impl EventRoute {
    fn to_key(&self) -> String {
        match self {
            Self::Did(did) => format!("did {}", index_key(did)),
            Self::Corporation(id) => format!("corporation {id}"),
        }
    }

    /// Returns every route of an event.
    pub fn list_for_event(event: &IndexerEvent) -> std::collections::BTreeSet<Self> {
        let payload = &event.payload;
        let dids = event.did.iter().chain(&payload.related_dids).map(|did| Self::Did(did.clone()));
        let corporations =
            payload.corporation_id.iter().chain(&payload.related_corporation_ids).map(|id| Self::Corporation(*id));
        dids.chain(corporations).collect()
    }
}

/// The events that a transaction writes.
pub(in crate::store) struct EventRows {
    events: RowInsert<3>,
    routes: RowInsert<3>,
}

impl EventRows {
    pub fn new() -> Self {
        Self {
            events: RowInsert::new("event (height, position, body)"),
            routes: RowInsert::new("event_route (route, height, position)"),
        }
    }

    /// Takes in the events of a block.
    pub fn write(&mut self, height: u64, events: &[IndexerEvent]) -> Result<(), IndexStoreError> {
        for (position, event) in events.iter().enumerate() {
            let (height, position) = (to_column(height), to_column(position as u64));
            let body = serde_json::to_string(event).map_err(|error| IndexStoreError::CorruptRow(error.to_string()))?;
            self.events.push([height.into(), position.into(), body.into()]);
            for route in EventRoute::list_for_event(event) {
                self.routes.push([route.to_key().into(), height.into(), position.into()]);
            }
        }
        Ok(())
    }

    /// Gives all rows to the database.
    pub async fn flush(&mut self, connection: &mut AnyConnection) -> Result<(), IndexStoreError> {
        self.events.execute(connection).await?;
        self.routes.execute(connection).await
    }
}

fn parse_event(body: &str) -> Result<IndexerEvent, IndexStoreError> {
    serde_json::from_str(body).map_err(|error| IndexStoreError::CorruptRow(error.to_string()))
}

/// Most routes of one statement: SQLite takes 500 parts.
const MAX_ROUTES: usize = 256;

/// A place in the order of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventCursor {
    pub height: u64,
    /// Position in the block; `None` stands for the end of the block.
    pub position: Option<u64>,
}

/// An event with its place.
#[derive(Debug, Clone)]
pub struct StoredEvent {
    pub height: u64,
    /// Position in the block.
    pub position: u64,
    pub event: IndexerEvent,
}

/// The filter of a list of events.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    /// The event must have one of these DIDs; any when empty.
    pub dids: Vec<String>,
    /// The event must have this corporation; any when absent.
    pub corporation_id: Option<u64>,
    /// The list begins with the event after this place.
    pub after: EventCursor,
    /// Most events of the list.
    pub limit: usize,
}

impl IndexStore {
    /// Returns the blocks from `first` to `last`, as subscribers get them.
    pub async fn block_messages(&self, first: u64, last: u64) -> Result<Vec<BlockMessage>, IndexStoreError> {
        let rows = sqlx::query(
            "SELECT b.height, b.time, e.body FROM block b LEFT JOIN event e ON e.height = b.height AND e.height >= $1 \
             AND e.height <= $2 WHERE b.height >= $1 AND b.height <= $2 ORDER BY b.height, e.position",
        )
        .bind(to_column(first))
        .bind(to_column(last))
        .fetch_all(&mut *self.connection().await?)
        .await?;
        let mut blocks: Vec<BlockMessage> = Vec::new();
        for row in &rows {
            let (height, time, body): (i64, i64, Option<String>) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            let height = from_column(height);
            if blocks.last().is_none_or(|last| last.block != height) {
                blocks.push(BlockMessage { block: height, block_time: iso_millis(time.into()), events: Vec::new() });
            }
            if let (Some(body), Some(block)) = (body, blocks.last_mut()) {
                block.events.push(parse_event(&body)?);
            }
        }
        Ok(blocks)
    }

    /// Returns events in order, and all events of the last block although they exceed the limit: a reader whose next page begins with the
    /// block after it would miss the rest.
    pub async fn list_events_of_whole_blocks(&self, query: &EventQuery) -> Result<Vec<StoredEvent>, IndexStoreError> {
        let mut found = self.list_events(query).await?;
        let mut is_whole = found.len() < query.limit;
        while let Some(StoredEvent { height, position, .. }) = found.last().filter(|_| !is_whole) {
            let height = *height;
            let behind = EventQuery { after: EventCursor { height, position: Some(*position) }, ..query.clone() };
            let rest = self.list_events(&behind).await?;
            is_whole = rest.len() < query.limit || rest.last().is_some_and(|last| last.height > height);
            found.extend(rest.into_iter().take_while(|event| event.height == height));
        }
        Ok(found)
    }

    /// Returns events in order.
    pub async fn list_events(&self, query: &EventQuery) -> Result<Vec<StoredEvent>, IndexStoreError> {
        if query.dids.len() <= MAX_ROUTES {
            return self.list_routed_events(query).await;
        }
        // A statement has a bounded number of parts.
        let mut found = BTreeMap::new();
        for dids in query.dids.chunks(MAX_ROUTES) {
            let part = EventQuery { dids: dids.to_vec(), ..query.clone() };
            for event in self.list_routed_events(&part).await? {
                found.insert((event.height, event.position), event);
            }
        }
        Ok(found.into_values().take(query.limit).collect())
    }

    async fn list_routed_events(&self, query: &EventQuery) -> Result<Vec<StoredEvent>, IndexStoreError> {
        let EventCursor { height, position } = query.after;
        let behind = |table: &str| {
            format!(
                "({table}.height, {table}.position) > ($1, $2) ORDER BY {table}.height, {table}.position LIMIT {}",
                query.limit
            )
        };
        let dids: Vec<_> = query.dids.iter().map(|did| EventRoute::Did(did.clone()).to_key()).collect();
        let corporation = query.corporation_id.map(|id| EventRoute::Corporation(id).to_key());
        // The routes select the events, so that no body is read in vain.
        let leading = if dids.is_empty() { corporation.iter().collect::<Vec<_>>() } else { dids.iter().collect() };
        let statement = if leading.is_empty() {
            format!("SELECT e.height, e.position, e.body FROM event e WHERE {}", behind("e"))
        } else {
            let also = match &corporation {
                Some(_) if !dids.is_empty() => format!(
                    "EXISTS (SELECT 1 FROM event_route c WHERE c.route = ${} AND c.height = r.height AND c.position = r.position) AND ",
                    leading.len() + 3
                ),
                _ => String::new(),
            };
            // Each route is read as far as the page goes.
            let pages: Vec<String> = (0..leading.len())
                .map(|index| {
                    let place = index + 3;
                    let page = behind("r");
                    format!(
                        "SELECT * FROM (SELECT r.height, r.position FROM event_route r WHERE r.route = ${place} AND {also}{page}) page{place}"
                    )
                })
                .collect();
            format!(
                "SELECT e.height, e.position, e.body FROM (SELECT height, position FROM ({}) pages ORDER BY height, position \
                 LIMIT {}) found CROSS JOIN event e WHERE e.height = found.height AND e.position = found.position \
                 ORDER BY e.height, e.position",
                pages.join(" UNION "),
                query.limit,
            )
        };
        let mut prepared =
            sqlx::query(AssertSqlSafe(statement)).bind(to_column(height)).bind(position.map_or(i64::MAX, to_column));
        for route in &leading {
            prepared = prepared.bind(route.as_str());
        }
        if let Some(route) = corporation.as_deref().filter(|_| !dids.is_empty()) {
            prepared = prepared.bind(route);
        }
        let rows = prepared.fetch_all(&mut *self.connection().await?).await?;
        rows.iter()
            .map(|row| {
                let (height, position, body): (i64, i64, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
                let (height, position) = (from_column(height), from_column(position));
                Ok(StoredEvent { height, position, event: parse_event(&body)? })
            })
            .collect()
    }
}
