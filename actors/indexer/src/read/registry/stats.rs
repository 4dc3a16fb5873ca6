//! Reads of the statistics: buckets, counts, and snapshots of a scope.

use serde_json::{Map, Value, json};
use svc_wire::timestamp;

use crate::{
    derive::stats::{StatsMeasures, StatsMetric, StatsScope, exact_number},
    read::{
        error::ReadError,
        reader::{IndexReader, ReadRequest},
    },
    store::{EntityKind, Granularity, StatsBucket, iso_millis},
};

/// The metrics of a bucket.
const BUCKET_METRICS: [StatsMetric; 14] = [
    StatsMetric::Participants,
    StatsMetric::ActiveEcosystems,
    StatsMetric::ArchivedEcosystems,
    StatsMetric::ActiveSchemas,
    StatsMetric::ArchivedSchemas,
    StatsMetric::Weight,
    StatsMetric::Issued,
    StatsMetric::Verified,
    StatsMetric::EcosystemSlashEvents,
    StatsMetric::EcosystemSlashedAmount,
    StatsMetric::EcosystemSlashedAmountRepaid,
    StatsMetric::NetworkSlashEvents,
    StatsMetric::NetworkSlashedAmount,
    StatsMetric::NetworkSlashedAmountRepaid,
];

/// Most entities of one range read.
const MAX_IDS: usize = 256;

/// Most buckets of one answer.
const MAX_BUCKETS: usize = 5_000;

/// Returns values up to 2^53 as numbers and larger ones as texts: clients hold statistics in doubles.
fn double_safe_number(value: i128) -> Value {
    if value.unsigned_abs() <= 1 << 53 { exact_number(value) } else { value.to_string().into() }
}

/// Returns one measure as a JSON number.
pub(in crate::read) fn measure_number(measures: &StatsMeasures, metric: StatsMetric) -> Value {
    exact_number(measures.get(metric))
}

fn insert_measures(object: &mut Map<String, Value>, prefix: &str, measures: &StatsMeasures, metrics: &[StatsMetric]) {
    for metric in metrics {
        object.insert(format!("{prefix}{}", metric.name()), double_safe_number(measures.get(*metric)));
    }
}

fn iso_seconds(nanos: i128) -> String {
    timestamp::iso_seconds(&timestamp::from_unix_nanos(nanos))
}

fn entity_type(scope: StatsScope) -> &'static str {
    match scope {
        StatsScope::Global => "GLOBAL",
        StatsScope::Ecosystem(_) => "ECOSYSTEM",
        StatsScope::Schema(_) => "CREDENTIAL_SCHEMA",
        StatsScope::Participant(_) => "PARTICIPANT",
        StatsScope::Corporation(_) => "CORPORATION",
    }
}

/// Returns the id of a scope; null for the global scope.
fn entity_id(scope: StatsScope) -> Value {
    match scope.key() {
        (0, _) => Value::Null,
        (_, id) => id.into(),
    }
}

/// Parses the scope of `entity_type` and an id.
fn parse_scope(entity_type: &str, id: Option<u64>) -> Result<StatsScope, ReadError> {
    let invalid = |text: &str| ReadError::InvalidParameter(format!("entity_id: {text}"));
    match (entity_type, id) {
        ("GLOBAL", None) => Ok(StatsScope::Global),
        ("GLOBAL", Some(_)) => Err(invalid("is not allowed for GLOBAL")),
        (_, None) => Err(invalid("is required unless entity_type is GLOBAL")),
        ("ECOSYSTEM", Some(id)) => Ok(StatsScope::Ecosystem(id)),
        ("CREDENTIAL_SCHEMA", Some(id)) => Ok(StatsScope::Schema(id)),
        (_, Some(id)) => Ok(StatsScope::Participant(id)),
    }
}

/// Successive buckets of one length, in nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BucketRange {
    granularity: Granularity,
    from: i128,
    until: i128,
}

/// Returns the fewest months, days and hours that cover a range, without overlap.
fn cover_range(from: i128, until: i128) -> Vec<BucketRange> {
    let hour = Granularity::Hour.bucket_start(from);
    let mut at = if hour < from { Granularity::Hour.bucket_end(hour) } else { hour };
    let mut parts: Vec<BucketRange> = Vec::new();
    while at < until {
        let fits = |granularity: &Granularity| {
            granularity.bucket_start(at) == at
                && (granularity.bucket_end(at) <= until || *granularity == Granularity::Hour)
        };
        let granularity = Granularity::ALL.into_iter().find(fits).unwrap_or(Granularity::Hour);
        let closes = granularity.bucket_end(at);
        match parts.last_mut() {
            Some(last) if last.granularity == granularity && last.until == at => last.until = closes,
            _ => parts.push(BucketRange { granularity, from: at, until: closes }),
        }
        at = closes;
    }
    parts
}

impl IndexReader {
    /// Returns the measures at the end of a bucket, and their changes in it.
    async fn bucket_measures(
        &self,
        request: &ReadRequest<'_>,
        bucket: &StatsBucket,
    ) -> Result<(StatsMeasures, StatsMeasures), ReadError> {
        let closes = bucket.granularity.bucket_end(bucket.start);
        let at_close = self.store.measures_before(bucket.scope, closes, request.height).await?;
        let at_open = self.store.measures_before(bucket.scope, bucket.start, request.height).await?;
        let changes = at_close.minus(&at_open);
        Ok((at_close, changes))
    }

    /// Fails for sums that begin before the oldest block of an index that lacks earlier ones.
    async fn require_sums_since(&self, instant: i128) -> Result<(), ReadError> {
        match self.late_start().await? {
            Some(oldest) if instant < oldest.time => Err(ReadError::HeightNotIndexed {
                message: format!("the changes since {} are not indexed", iso_seconds(instant)),
                oldest: oldest.height,
            }),
            _ => Ok(()),
        }
    }

    pub(in crate::read) async fn bucket(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let params = request.params;
        let key = (params.text("granularity"), params.instant("timestamp"), params.text("entity_type"));
        let bucket = match (params.number("id"), key) {
            (Some(id), (None, None, None)) if params.number("entity_id").is_none() => {
                self.store.bucket(id, request.height).await?
            }
            (None, (Some(granularity), Some(opens), Some(entity_type))) => {
                let scope = parse_scope(entity_type, params.number("entity_id"))?;
                let granularity = Granularity::parse(granularity).unwrap_or(Granularity::Hour);
                let found = self.store.buckets(scope, granularity, (opens, opens + 1), request.height).await?;
                found.first().copied()
            }
            _ => {
                let text = "id, granularity, timestamp, entity_type: either id alone or the other three are required";
                return Err(ReadError::InvalidParameter(text.to_owned()));
            }
        };
        let Some(bucket) = bucket else {
            // A bucket without a change has no row. Which buckets below the oldest block had one is not known.
            if let Some(opens) = params.instant("timestamp") {
                self.require_sums_since(opens).await?;
            }
            return Err(ReadError::NotFound("Stats"));
        };
        self.require_sums_since(bucket.start).await?;
        let (at_close, changes) = self.bucket_measures(request, &bucket).await?;
        let mut answer = Map::new();
        answer.insert("id".to_owned(), bucket.id.into());
        answer.insert("granularity".to_owned(), bucket.granularity.as_str().into());
        answer.insert("timestamp".to_owned(), iso_millis(bucket.start).into());
        answer.insert("entity_type".to_owned(), entity_type(bucket.scope).into());
        answer.insert("entity_id".to_owned(), entity_id(bucket.scope));
        insert_measures(&mut answer, "cumulative_", &at_close, &BUCKET_METRICS);
        insert_measures(&mut answer, "delta_", &changes, &BUCKET_METRICS);
        Ok(Value::Object(answer))
    }

    pub(in crate::read) async fn bucket_range(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let params = request.params;
        let [from, until] = ["timestamp_from", "timestamp_until"].map(|name| params.instant(name).unwrap_or(0));
        if from >= until {
            return Err(ReadError::InvalidParameter("timestamp_from: must be before timestamp_until".to_owned()));
        }
        let entity = params.text("entity_type").unwrap_or_default();
        let ids: Vec<u64> =
            params.list("entity_ids").unwrap_or_default().iter().filter_map(|id| id.parse().ok()).collect();
        let scopes = match (entity, ids.as_slice()) {
            ("GLOBAL", []) => vec![StatsScope::Global],
            ("GLOBAL", _) => {
                return Err(ReadError::InvalidParameter("entity_ids: is not allowed for GLOBAL".to_owned()));
            }
            (_, []) => {
                return Err(ReadError::InvalidParameter(
                    "entity_ids: is required unless entity_type is GLOBAL".to_owned(),
                ));
            }
            (_, ids) if ids.len() > MAX_IDS => {
                return Err(ReadError::InvalidParameter(format!("entity_ids: more than {MAX_IDS} ids")));
            }
            (entity, ids) => ids.iter().map(|id| parse_scope(entity, Some(*id))).collect::<Result<_, _>>()?,
        };
        self.require_sums_since(from).await?;
        // There is no change before the month of the first block or after the month of this block.
        let first = self.store.oldest_and_newest_block().await?.first().map_or(request.block_time, |(_, time)| *time);
        let last = Granularity::Month.bucket_end(Granularity::Month.bucket_start(request.block_time));
        let range = (from.max(Granularity::Month.bucket_start(first)), until.min(last));
        let range = (range.0, range.1.max(range.0));
        let parts = match params.text("granularity").and_then(Granularity::parse) {
            Some(granularity) => vec![BucketRange { granularity, from: range.0, until: range.1 }],
            None => cover_range(range.0, range.1),
        };
        let (mut buckets, mut total, mut finest) = (Vec::new(), StatsMeasures::default(), None::<Granularity>);
        for scope in scopes {
            for BucketRange { granularity, from, until } in parts.iter().copied() {
                finest = finest.into_iter().chain([granularity]).min();
                for bucket in self.store.buckets(scope, granularity, (from, until), request.height).await? {
                    let (at_close, changes) = self.bucket_measures(request, &bucket).await?;
                    total = total.plus(&changes);
                    if buckets.len() == MAX_BUCKETS {
                        let text = format!(
                            "granularity: more than {MAX_BUCKETS} buckets; take a longer one, or a shorter range"
                        );
                        return Err(ReadError::InvalidParameter(text));
                    }
                    let mut shown = Map::new();
                    shown.insert("timestamp".to_owned(), iso_seconds(bucket.start).into());
                    shown.insert("granularity".to_owned(), granularity.as_str().into());
                    shown.insert("entity_id".to_owned(), entity_id(scope));
                    insert_measures(&mut shown, "cumulative_", &at_close, &BUCKET_METRICS);
                    insert_measures(&mut shown, "delta_", &changes, &BUCKET_METRICS);
                    buckets.push(Value::Object(shown));
                }
            }
        }
        let result = params.text("result_type").unwrap_or("BUCKETS_AND_TOTAL");
        let mut answer = json!({
            "granularity": finest.unwrap_or(Granularity::Hour).as_str(), "timestamp_from": iso_seconds(from),
            "timestamp_until": iso_seconds(until), "entity_type": entity, "entity_ids": ids, "result_type": result,
        });
        if result != "TOTAL" {
            answer["buckets"] = buckets.into();
        }
        if result != "BUCKETS" {
            let mut sums = Map::new();
            insert_measures(&mut sums, "delta_", &total, &BUCKET_METRICS);
            answer["total"] = sums.into();
        }
        Ok(answer)
    }

    pub(in crate::read) async fn count_participants(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let (kind, role) =
            (request.params.required_number("entity_kind")?, request.params.required_number("role_type")?);
        let id = request.params.number("entity_id").filter(|_| kind > 0);
        if kind > 0 && id.is_none() {
            return Err(ReadError::InvalidParameter("entity_id: is required unless entity_kind is 0".to_owned()));
        }
        let scope = StatsScope::from_key(kind, id.unwrap_or(0)).unwrap_or(StatsScope::Global);
        let measures = self.store.measures(scope, request.height).await?;
        let index = usize::try_from(role).unwrap_or(0);
        let metric = StatsMetric::PARTICIPANT_COUNTS.get(index).copied().unwrap_or(StatsMetric::Participants);
        Ok(json!({
            "entity_kind": kind, "entity_id": id, "role_type": role, "block_height": request.height,
            "participants": measure_number(&measures, metric),
        }))
    }

    pub(in crate::read) async fn stats_snapshot(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let scope =
            parse_scope(request.params.text("entity_type").unwrap_or("GLOBAL"), request.params.number("entity_id"))?;
        let (kind, id) = match scope {
            StatsScope::Ecosystem(id) => (EntityKind::Ecosystem, id),
            StatsScope::Schema(id) => (EntityKind::Schema, id),
            StatsScope::Participant(id) => (EntityKind::Participant, id),
            StatsScope::Global | StatsScope::Corporation(_) => return self.metrics(request).await,
        };
        self.require_entity(request, kind, id).await?;
        self.scope_measures(request, scope).await
    }

    /// Answers with the measures of the global scope.
    pub(in crate::read) async fn metrics(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        self.scope_measures(request, StatsScope::Global).await
    }

    async fn scope_measures(&self, request: &ReadRequest<'_>, scope: StatsScope) -> Result<Value, ReadError> {
        let measures = self.store.measures(scope, request.height).await?;
        let mut answer = Map::new();
        answer.insert("entity_type".to_owned(), entity_type(scope).into());
        answer.insert("entity_id".to_owned(), entity_id(scope));
        answer.insert("block_height".to_owned(), request.height.into());
        answer.insert(
            "timestamp".to_owned(),
            if request.height == 0 { Value::Null } else { iso_millis(request.block_time).into() },
        );
        insert_measures(&mut answer, "", &measures, StatsMetric::ALL);
        Ok(Value::Object(answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(text: &str) -> i128 {
        timestamp::unix_nanos(&timestamp::parse_rfc3339(text).expect("an instant"))
    }

    #[test]
    fn a_range_is_covered_by_the_fewest_buckets_without_overlap() {
        let parts = cover_range(nanos("2026-01-30T22:30:00Z"), nanos("2026-04-02T01:30:00Z"));
        let shown: Vec<_> = parts.iter().map(|part| (part.granularity.as_str(), iso_seconds(part.from))).collect();
        let expected = [
            ("HOUR", "2026-01-30T23:00:00Z"),
            ("DAY", "2026-01-31T00:00:00Z"),
            ("MONTH", "2026-02-01T00:00:00Z"),
            ("DAY", "2026-04-01T00:00:00Z"),
            ("HOUR", "2026-04-02T00:00:00Z"),
        ];
        assert_eq!(shown, expected.map(|(granularity, from)| (granularity, from.to_owned())));
        assert!(parts.windows(2).all(|pair| pair[0].until == pair[1].from), "no gap, no overlap");
        assert_eq!(cover_range(5, 5), []);
    }

    #[test]
    fn large_measures_are_texts() {
        assert_eq!(double_safe_number(1 << 53), 9_007_199_254_740_992_u64);
        assert_eq!(double_safe_number((1 << 53) + 1), "9007199254740993");
    }
}
