//! Events and the routes by which filters find them.

use sqlx::{AnyConnection, AssertSqlSafe, Row};
use svc_wire::event::{BlockMessage, Event};

use super::{Store, StoreError, iso_millis, key, signed, unsigned};

/// One way an event is found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Route {
    /// Its DID, or a related one.
    Did(String),
    /// Its corporation, or a related one.
    Corporation(u64),
}

impl Route {
    fn text(&self) -> String {
        match self {
            Self::Did(did) => format!("did {}", key(did)),
            Self::Corporation(id) => format!("corporation {id}"),
        }
    }

    /// Every route of an event.
    pub fn all_of(event: &Event) -> std::collections::BTreeSet<Self> {
        let payload = &event.payload;
        let dids = event.did.iter().chain(&payload.related_dids).map(|did| Self::Did(did.clone()));
        let corporations =
            payload.corporation_id.iter().chain(&payload.related_corporation_ids).map(|id| Self::Corporation(*id));
        dids.chain(corporations).collect()
    }
}

pub(super) async fn write(
    connection: &mut AnyConnection,
    height: u64,
    position: usize,
    event: &Event,
) -> Result<(), StoreError> {
    let (height, position) = (signed(height), signed(position as u64));
    let body = serde_json::to_string(event).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    sqlx::query("INSERT INTO event (height, position, body) VALUES ($1, $2, $3)")
        .bind(height)
        .bind(position)
        .bind(body)
        .execute(&mut *connection)
        .await?;
    for route in Route::all_of(event) {
        sqlx::query("INSERT INTO event_route (route, height, position) VALUES ($1, $2, $3)")
            .bind(route.text())
            .bind(height)
            .bind(position)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

fn parse(body: &str) -> Result<Event, StoreError> {
    serde_json::from_str(body).map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// Which events are wanted.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    /// One of these DIDs; empty: any.
    pub dids: Vec<String>,
    /// This corporation; `None`: any.
    pub corporation_id: Option<u64>,
    /// Strictly behind this position; the whole block `.0` counts as passed when `.1` is `None`.
    pub after: (u64, Option<u64>),
    /// At most so many.
    pub limit: usize,
}

impl Store {
    /// Blocks from one height to another, as subscribers get them.
    pub async fn block_messages(&self, first: u64, last: u64) -> Result<Vec<BlockMessage>, StoreError> {
        let rows = sqlx::query(
            "SELECT b.height, b.time, e.body FROM block b LEFT JOIN event e ON e.height = b.height \
             WHERE b.height >= $1 AND b.height <= $2 ORDER BY b.height, e.position",
        )
        .bind(signed(first))
        .bind(signed(last))
        .fetch_all(&self.pool)
        .await?;
        let mut blocks: Vec<BlockMessage> = Vec::new();
        for row in &rows {
            let (height, time, body): (i64, i64, Option<String>) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            let height = unsigned(height);
            if blocks.last().is_none_or(|last| last.block != height) {
                blocks.push(BlockMessage { block: height, block_time: iso_millis(time.into()), events: Vec::new() });
            }
            if let (Some(body), Some(block)) = (body, blocks.last_mut()) {
                block.events.push(parse(&body)?);
            }
        }
        Ok(blocks)
    }

    /// Events in order, each with its position.
    pub async fn events(&self, query: &EventQuery) -> Result<Vec<(u64, u64, Event)>, StoreError> {
        let (height, position) = query.after;
        let behind = |table: &str| format!("({table}.height > $1 OR ({table}.height = $1 AND {table}.position > $2))");
        let order = |table: &str| format!("ORDER BY {table}.height, {table}.position LIMIT {}", query.limit);
        let dids: Vec<_> = query.dids.iter().map(|did| Route::Did(did.clone()).text()).collect();
        let corporation = query.corporation_id.map(|id| Route::Corporation(id).text());
        // The routes lead; an event is only looked up once it is known to be wanted.
        let leading = if dids.is_empty() { corporation.iter().collect::<Vec<_>>() } else { dids.iter().collect() };
        let statement = if leading.is_empty() {
            format!("SELECT e.height, e.position, e.body FROM event e WHERE {} {}", behind("e"), order("e"))
        } else {
            let names: Vec<_> = (0..leading.len()).map(|index| format!("${}", index + 3)).collect();
            let also = match &corporation {
                Some(_) if !dids.is_empty() => format!(
                    " AND EXISTS (SELECT 1 FROM event_route c WHERE c.route = ${} AND c.height = r.height AND c.position = r.position)",
                    leading.len() + 3
                ),
                _ => String::new(),
            };
            format!(
                "SELECT e.height, e.position, e.body FROM (SELECT DISTINCT r.height, r.position FROM event_route r \
                 WHERE r.route IN ({}) AND {}{also} {}) found JOIN event e ON e.height = found.height \
                 AND e.position = found.position ORDER BY e.height, e.position",
                names.join(", "),
                behind("r"),
                order("r"),
            )
        };
        let mut prepared =
            sqlx::query(AssertSqlSafe(statement)).bind(signed(height)).bind(position.map_or(i64::MAX, signed));
        for route in &leading {
            prepared = prepared.bind(route.as_str());
        }
        if let Some(route) = corporation.as_deref().filter(|_| !dids.is_empty()) {
            prepared = prepared.bind(route);
        }
        let rows = prepared.fetch_all(&self.pool).await?;
        rows.iter()
            .map(|row| {
                let (height, position, body): (i64, i64, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
                Ok((unsigned(height), unsigned(position), parse(&body)?))
            })
            .collect()
    }
}
