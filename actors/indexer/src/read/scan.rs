//! Looking through entities: the database finds by relation and id, the rest is decided on what it finds.

use std::collections::HashMap;

use serde_json::Value;

use super::{Ask, ReadError, Reader, params::Page};
use crate::{
    derive::{
        measures::{Measures, Metric, Scope},
        state::instant_of,
    },
    project::public,
    store::{Filter, Kind, Range, iso_millis},
};

/// An entity with its figures.
pub struct Row {
    pub id: u64,
    pub body: Value,
    pub figures: Measures,
}

/// Entities looked at in one go.
const CHUNK: usize = 512;

impl Reader {
    /// A page of the entities that pass. `scope` names whose figures come with them.
    pub(super) async fn scan(
        &self,
        ask: &Ask<'_>,
        kind: Kind,
        filter: &Filter,
        scope: Option<fn(u64) -> Scope>,
        keep: impl Fn(&Row) -> bool,
    ) -> Result<Vec<Row>, ReadError> {
        let Page { limit, mut range } = ask.params.page();
        let bounds = ask.params.bounds();
        let after = ask.params.instant("modified_after").map(iso_millis);
        let mut found = Vec::new();
        loop {
            let chunk = self.store.chunk(kind, ask.height, filter, range, CHUNK).await?;
            let is_last = chunk.len() < CHUNK;
            let ids: Vec<u64> = chunk.iter().map(|stored| stored.id).collect();
            let (Some(low), Some(high)) = (ids.iter().min().copied(), ids.iter().max().copied()) else {
                return Ok(found);
            };
            let mut figures = match scope {
                Some(scope) => self.store.measures_of(scope, &ids, ask.height).await?,
                None => HashMap::new(),
            };
            range = match range.is_descending {
                true => Range { max_id: Some(low), ..range },
                false => Range { min_id: Some(high + 1), ..range },
            };
            for stored in chunk {
                let figures = figures.remove(&stored.id).unwrap_or_default();
                let row = Row { id: stored.id, body: stored.body, figures };
                let is_newer = after.as_deref().is_none_or(|after| modified(&row.body) > after);
                if is_newer && is_within(&row.figures, &bounds) && keep(&row) {
                    found.push(row);
                }
                if found.len() == limit {
                    return Ok(found);
                }
            }
            if is_last {
                return Ok(found);
            }
        }
    }

    /// One entity, or the error that says which kind there is none of.
    pub(super) async fn one(&self, ask: &Ask<'_>, kind: Kind, id: u64) -> Result<Value, ReadError> {
        let found = self.store.entity(kind, id, ask.height).await?;
        found.ok_or(ReadError::NotFound(kind.entity_type()))
    }

    /// A list that shows what is stored.
    pub(super) async fn plain_list(
        &self,
        ask: &Ask<'_>,
        kind: Kind,
        filter: &Filter,
        keep: impl Fn(&Value) -> bool,
    ) -> Result<Value, ReadError> {
        let rows = self.scan(ask, kind, filter, None, |row| keep(&row.body)).await?;
        Ok(rows.into_iter().map(|row| public(row.body)).collect())
    }
}

/// When an entity was last changed; by its own account, or by the block that changed it.
fn modified(body: &Value) -> &str {
    body["modified"].as_str().or_else(|| body["_modified"].as_str()).unwrap_or_default()
}

fn is_within(figures: &Measures, bounds: &[(Metric, Option<u64>, Option<u64>)]) -> bool {
    bounds.iter().all(|(metric, low, high)| {
        let figure = figures.get(*metric);
        low.is_none_or(|low| figure >= i128::from(low)) && high.is_none_or(|high| figure < i128::from(high))
    })
}

/// Whether something that may expire has not expired at an instant.
pub fn is_unexpired(body: &Value, now: i128) -> bool {
    instant_of(body, "expiration").is_none_or(|until| until > now)
}

/// Whether a list in a body holds a text.
pub fn holds(body: &Value, key: &str, wanted: &str) -> bool {
    body[key].as_array().is_some_and(|items| items.iter().any(|item| item == wanted))
}

/// Makes room for `trust_data` where it is asked for.
pub fn with_trust(ask: &Ask<'_>, mut body: Value) -> Value {
    if matches!(ask.params.text("trust_data"), Some("summary" | "full")) {
        body["trust_data"] = Value::Null;
    }
    body
}
