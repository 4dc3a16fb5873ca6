//! Scans of entities: the database filters by relation and id, and the scan applies all other filters to the bodies.

use std::collections::HashMap;

use serde_json::Value;

use crate::{
    derive::stats::{StatsMeasures, StatsScope},
    projection::public_members,
    read::{
        arguments::params::{ListPage, MetricBounds},
        error::ReadError,
        reader::{IndexReader, ReadRequest},
    },
    store::{EntityFilter, EntityKind, IdRange, iso_millis},
};
use svc_wire::timestamp::parse_instant;

use super::anchoring::AnchoredProposals;

/// An entity with its measures.
pub struct MeasuredEntity {
    pub id: u64,
    pub body: Value,
    pub measures: StatsMeasures,
}

/// Entities of one database query.
const CHUNK: usize = 512;

impl IndexReader {
    /// Returns a page of the entities that pass `keep`, with the measures of their `scope`.
    pub(in crate::read) async fn scan_entities(
        &self,
        request: &ReadRequest<'_>,
        kind: EntityKind,
        filter: &EntityFilter,
        scope: Option<fn(u64) -> StatsScope>,
        keep: impl Fn(&MeasuredEntity) -> bool,
    ) -> Result<Vec<MeasuredEntity>, ReadError> {
        let ListPage { limit, mut range } = request.params.page();
        let bounds = request.params.measure_bounds();
        let after = request.params.instant("modified_after").map(iso_millis);
        let (mut found, mut known) = (Vec::new(), AnchoredProposals::default());
        loop {
            let chunk = self.store.list_page(kind, request.height, filter, range, CHUNK).await?;
            let is_last = chunk.len() < CHUNK;
            let ids: Vec<u64> = chunk.iter().map(|stored| stored.id).collect();
            let (Some(low), Some(high)) = (ids.iter().min().copied(), ids.iter().max().copied()) else {
                return Ok(found);
            };
            let mut measures = match scope {
                Some(scope) => self.store.measures_of(scope, &ids, request.height).await?,
                None => HashMap::new(),
            };
            range = match range.is_descending {
                true => IdRange { max_id: Some(low), ..range },
                false => IdRange { min_id: Some(high + 1), ..range },
            };
            for stored in chunk {
                let measures = measures.remove(&stored.id).unwrap_or_default();
                let row = MeasuredEntity { id: stored.id, body: stored.body, measures };
                let is_newer = after.as_deref().is_none_or(|after| modified_time(&row.body) > after);
                let is_wanted = is_newer && is_within(&row.measures, &bounds) && keep(&row);
                if is_wanted && self.may_show(request, kind, &row.body, &mut known).await? {
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

    /// Whether a list may show an entity, as far as other entities decide that.
    async fn may_show(
        &self,
        request: &ReadRequest<'_>,
        kind: EntityKind,
        body: &Value,
        known: &mut AnchoredProposals,
    ) -> Result<bool, ReadError> {
        match kind {
            EntityKind::VsOperatorAuthorization if request.params.flag("only_active") == Some(true) => {
                self.has_active_record(request, body).await
            }
            _ => self.is_anchored(kind, body, request.height, known).await,
        }
    }

    /// Returns an entity. Fails with its kind when it does not exist, or belongs to a group without a corporation.
    pub(in crate::read) async fn require_entity(
        &self,
        request: &ReadRequest<'_>,
        kind: EntityKind,
        id: u64,
    ) -> Result<Value, ReadError> {
        let missing = || ReadError::NotFound(kind.entity_type());
        let found = self.store.entity(kind, id, request.height).await?.ok_or_else(missing)?;
        let is_anchored = self.is_anchored(kind, &found, request.height, &mut AnchoredProposals::default()).await?;
        if is_anchored { Ok(found) } else { Err(missing()) }
    }

    /// Returns a page of entities as they are stored.
    pub(in crate::read) async fn list_entities(
        &self,
        request: &ReadRequest<'_>,
        kind: EntityKind,
        filter: &EntityFilter,
        keep: impl Fn(&Value) -> bool,
    ) -> Result<Value, ReadError> {
        let rows = self.scan_entities(request, kind, filter, None, |row| keep(&row.body)).await?;
        Ok(rows.into_iter().map(|row| public_members(row.body)).collect())
    }
}

/// Returns the time of the last change of an entity: its own member, or the time of the block that changed it.
fn modified_time(body: &Value) -> &str {
    body["modified"].as_str().or_else(|| body["_modified"].as_str()).unwrap_or_default()
}

fn is_within(measures: &StatsMeasures, bounds: &[MetricBounds]) -> bool {
    bounds.iter().all(|MetricBounds { metric, min, max }| {
        let measure = measures.get(*metric);
        min.is_none_or(|min| measure >= i128::from(min)) && max.is_none_or(|max| measure < i128::from(max))
    })
}

/// Whether an entity has not expired at an instant; one without an expiration never expires.
pub fn is_unexpired(body: &Value, now: i128) -> bool {
    parse_instant(body, "expiration").is_none_or(|until| until > now)
}

/// Whether a list in a body contains a text.
pub fn contains_text(body: &Value, key: &str, wanted: &str) -> bool {
    body[key].as_array().is_some_and(|items| items.iter().any(|item| item == wanted))
}

/// Adds an empty `trust_data` member if the read requests it.
pub fn add_trust_slot(request: &ReadRequest<'_>, mut body: Value) -> Value {
    if matches!(request.params.text("trust_data"), Some("summary" | "full")) {
        body["trust_data"] = Value::Null;
    }
    body
}
