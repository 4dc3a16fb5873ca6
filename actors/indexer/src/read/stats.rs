//! Reads of the figures: buckets of the statistics, counts, and snapshots of a scope.

use serde_json::{Map, Value, json};
use svc_wire::instant;

use super::{Ask, ReadError, Reader};
use crate::{
    derive::measures::{Measures, Metric, Scope, number},
    store::{Bucket, Granularity, Kind, iso_millis},
};

/// What a bucket tells.
const BUCKET: [Metric; 14] = [
    Metric::Participants,
    Metric::ActiveEcosystems,
    Metric::ArchivedEcosystems,
    Metric::ActiveSchemas,
    Metric::ArchivedSchemas,
    Metric::Weight,
    Metric::Issued,
    Metric::Verified,
    Metric::EcosystemSlashEvents,
    Metric::EcosystemSlashedAmount,
    Metric::EcosystemSlashedAmountRepaid,
    Metric::NetworkSlashEvents,
    Metric::NetworkSlashedAmount,
    Metric::NetworkSlashedAmountRepaid,
];

/// Most entities one question about a range may name.
const MAX_IDS: usize = 256;

/// Most buckets of one answer.
const MAX_BUCKETS: usize = 5_000;

/// Numbers up to 2^53 as numbers, larger ones as text: readers of statistics use doubles.
fn rounded(value: i128) -> Value {
    if value.unsigned_abs() <= 1 << 53 { number(value) } else { value.to_string().into() }
}

/// One figure as a JSON number.
pub(super) fn count(figures: &Measures, metric: Metric) -> Value {
    number(figures.get(metric))
}

fn put(object: &mut Map<String, Value>, prefix: &str, figures: &Measures, metrics: &[Metric]) {
    for metric in metrics {
        object.insert(format!("{prefix}{}", metric.name()), rounded(figures.get(*metric)));
    }
}

fn iso_seconds(nanos: i128) -> String {
    instant::iso_seconds(&instant::from_nanos(nanos))
}

fn entity_type(scope: Scope) -> &'static str {
    match scope {
        Scope::Global => "GLOBAL",
        Scope::Ecosystem(_) => "ECOSYSTEM",
        Scope::Schema(_) => "CREDENTIAL_SCHEMA",
        Scope::Participant(_) => "PARTICIPANT",
        Scope::Corporation(_) => "CORPORATION",
    }
}

/// Id of a scope; null for the globe.
fn entity_id(scope: Scope) -> Value {
    match scope.key() {
        (0, _) => Value::Null,
        (_, id) => id.into(),
    }
}

/// The scope that `entity_type` and an id name.
fn scope(entity_type: &str, id: Option<u64>) -> Result<Scope, ReadError> {
    let bad = |text: &str| ReadError::Parameter(format!("entity_id: {text}"));
    match (entity_type, id) {
        ("GLOBAL", None) => Ok(Scope::Global),
        ("GLOBAL", Some(_)) => Err(bad("is not allowed for GLOBAL")),
        (_, None) => Err(bad("is required unless entity_type is GLOBAL")),
        ("ECOSYSTEM", Some(id)) => Ok(Scope::Ecosystem(id)),
        ("CREDENTIAL_SCHEMA", Some(id)) => Ok(Scope::Schema(id)),
        (_, Some(id)) => Ok(Scope::Participant(id)),
    }
}

/// The fewest months, days and hours that cover a range, without overlap.
fn cover(from: i128, until: i128) -> Vec<(Granularity, i128, i128)> {
    let hour = Granularity::Hour.opens(from);
    let mut at = if hour < from { Granularity::Hour.closes(hour) } else { hour };
    let mut parts: Vec<(Granularity, i128, i128)> = Vec::new();
    while at < until {
        let fits = |granularity: &Granularity| {
            granularity.opens(at) == at && (granularity.closes(at) <= until || *granularity == Granularity::Hour)
        };
        let granularity = Granularity::ALL.into_iter().find(fits).unwrap_or(Granularity::Hour);
        let closes = granularity.closes(at);
        match parts.last_mut() {
            Some((last, _, end)) if *last == granularity && *end == at => *end = closes,
            _ => parts.push((granularity, at, closes)),
        }
        at = closes;
    }
    parts
}

impl Reader {
    /// Figures when a bucket closes, and what moved in it.
    async fn figures_of(&self, ask: &Ask<'_>, bucket: &Bucket) -> Result<(Measures, Measures), ReadError> {
        let closes = bucket.granularity.closes(bucket.opens);
        let at_close = self.store.measures_before(bucket.scope, closes, ask.height).await?;
        let at_open = self.store.measures_before(bucket.scope, bucket.opens, ask.height).await?;
        let moved = at_close.minus(&at_open);
        Ok((at_close, moved))
    }

    pub(super) async fn bucket(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let params = ask.params;
        let key = (params.text("granularity"), params.instant("timestamp"), params.text("entity_type"));
        let bucket = match (params.number("id"), key) {
            (Some(id), (None, None, None)) if params.number("entity_id").is_none() => {
                self.store.bucket(id, ask.height).await?
            }
            (None, (Some(granularity), Some(opens), Some(entity_type))) => {
                let scope = scope(entity_type, params.number("entity_id"))?;
                let granularity = Granularity::parse(granularity).unwrap_or(Granularity::Hour);
                let found = self.store.buckets(scope, granularity, (opens, opens + 1), ask.height).await?;
                found.first().copied()
            }
            _ => {
                let text = "id, granularity, timestamp, entity_type: either id alone or the other three are required";
                return Err(ReadError::Parameter(text.to_owned()));
            }
        };
        let bucket = bucket.ok_or(ReadError::NotFound("Stats"))?;
        let (at_close, moved) = self.figures_of(ask, &bucket).await?;
        let mut answer = Map::new();
        answer.insert("id".to_owned(), bucket.id.into());
        answer.insert("granularity".to_owned(), bucket.granularity.as_str().into());
        answer.insert("timestamp".to_owned(), iso_millis(bucket.opens).into());
        answer.insert("entity_type".to_owned(), entity_type(bucket.scope).into());
        answer.insert("entity_id".to_owned(), entity_id(bucket.scope));
        put(&mut answer, "cumulative_", &at_close, &BUCKET);
        put(&mut answer, "delta_", &moved, &BUCKET);
        Ok(Value::Object(answer))
    }

    pub(super) async fn bucket_range(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let params = ask.params;
        let [from, until] = ["timestamp_from", "timestamp_until"].map(|name| params.instant(name).unwrap_or(0));
        if from >= until {
            return Err(ReadError::Parameter("timestamp_from: must be before timestamp_until".to_owned()));
        }
        let entity = params.text("entity_type").unwrap_or_default();
        let ids: Vec<u64> =
            params.list("entity_ids").unwrap_or_default().iter().filter_map(|id| id.parse().ok()).collect();
        let scopes = match (entity, ids.as_slice()) {
            ("GLOBAL", []) => vec![Scope::Global],
            ("GLOBAL", _) => return Err(ReadError::Parameter("entity_ids: is not allowed for GLOBAL".to_owned())),
            (_, []) => {
                return Err(ReadError::Parameter("entity_ids: is required unless entity_type is GLOBAL".to_owned()));
            }
            (_, ids) if ids.len() > MAX_IDS => {
                return Err(ReadError::Parameter(format!("entity_ids: more than {MAX_IDS} ids")));
            }
            (entity, ids) => ids.iter().map(|id| scope(entity, Some(*id))).collect::<Result<_, _>>()?,
        };
        // Nothing happened before the month of the first block or after that of this one.
        let first = self.store.ends().await?.first().map_or(ask.now, |(_, time)| *time);
        let last = Granularity::Month.closes(Granularity::Month.opens(ask.now));
        let range = (from.max(Granularity::Month.opens(first)), until.min(last));
        let range = (range.0, range.1.max(range.0));
        let parts = match params.text("granularity").and_then(Granularity::parse) {
            Some(granularity) => vec![(granularity, range.0, range.1)],
            None => cover(range.0, range.1),
        };
        let (mut buckets, mut total, mut finest) = (Vec::new(), Measures::default(), None::<Granularity>);
        for scope in scopes {
            for (granularity, opens, closes) in &parts {
                finest = finest.into_iter().chain([*granularity]).min();
                for bucket in self.store.buckets(scope, *granularity, (*opens, *closes), ask.height).await? {
                    let (at_close, moved) = self.figures_of(ask, &bucket).await?;
                    total = total.plus(&moved);
                    if buckets.len() == MAX_BUCKETS {
                        let text = format!(
                            "granularity: more than {MAX_BUCKETS} buckets; take a longer one, or a shorter range"
                        );
                        return Err(ReadError::Parameter(text));
                    }
                    let mut shown = Map::new();
                    shown.insert("timestamp".to_owned(), iso_seconds(bucket.opens).into());
                    shown.insert("granularity".to_owned(), granularity.as_str().into());
                    shown.insert("entity_id".to_owned(), entity_id(scope));
                    put(&mut shown, "cumulative_", &at_close, &BUCKET);
                    put(&mut shown, "delta_", &moved, &BUCKET);
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
            put(&mut sums, "delta_", &total, &BUCKET);
            answer["total"] = sums.into();
        }
        Ok(answer)
    }

    pub(super) async fn count_participants(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let (kind, role) = (ask.params.required("entity_kind")?, ask.params.required("role_type")?);
        let id = ask.params.number("entity_id").filter(|_| kind > 0);
        if kind > 0 && id.is_none() {
            return Err(ReadError::Parameter("entity_id: is required unless entity_kind is 0".to_owned()));
        }
        let scope = Scope::from_key(kind, id.unwrap_or(0)).unwrap_or(Scope::Global);
        let figures = self.store.measures(scope, ask.height).await?;
        let place = usize::try_from(role).unwrap_or(0);
        let metric = Metric::COUNTS.get(place).copied().unwrap_or(Metric::Participants);
        Ok(json!({
            "entity_kind": kind, "entity_id": id, "role_type": role, "block_height": ask.height,
            "participants": count(&figures, metric),
        }))
    }

    pub(super) async fn stats_snapshot(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let scope = scope(ask.params.text("entity_type").unwrap_or("GLOBAL"), ask.params.number("entity_id"))?;
        let (kind, id) = match scope {
            Scope::Ecosystem(id) => (Kind::Ecosystem, id),
            Scope::Schema(id) => (Kind::Schema, id),
            Scope::Participant(id) => (Kind::Participant, id),
            Scope::Global | Scope::Corporation(_) => return self.metrics(ask).await,
        };
        self.one(ask, kind, id).await?;
        self.figures_now(ask, scope).await
    }

    /// Figures of the globe.
    pub(super) async fn metrics(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        self.figures_now(ask, Scope::Global).await
    }

    async fn figures_now(&self, ask: &Ask<'_>, scope: Scope) -> Result<Value, ReadError> {
        let figures = self.store.measures(scope, ask.height).await?;
        let mut answer = Map::new();
        answer.insert("entity_type".to_owned(), entity_type(scope).into());
        answer.insert("entity_id".to_owned(), entity_id(scope));
        answer.insert("block_height".to_owned(), ask.height.into());
        answer.insert("timestamp".to_owned(), if ask.height == 0 { Value::Null } else { iso_millis(ask.now).into() });
        put(&mut answer, "", &figures, Metric::ALL);
        Ok(Value::Object(answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(text: &str) -> i128 {
        instant::nanos(&instant::parse_rfc3339(text).expect("an instant"))
    }

    #[test]
    fn a_range_is_covered_by_the_fewest_buckets_without_overlap() {
        let parts = cover(nanos("2026-01-30T22:30:00Z"), nanos("2026-04-02T01:30:00Z"));
        let shown: Vec<_> =
            parts.iter().map(|(granularity, from, _)| (granularity.as_str(), iso_seconds(*from))).collect();
        let expected = [
            ("HOUR", "2026-01-30T23:00:00Z"),
            ("DAY", "2026-01-31T00:00:00Z"),
            ("MONTH", "2026-02-01T00:00:00Z"),
            ("DAY", "2026-04-01T00:00:00Z"),
            ("HOUR", "2026-04-02T00:00:00Z"),
        ];
        assert_eq!(shown, expected.map(|(granularity, from)| (granularity, from.to_owned())));
        assert!(parts.windows(2).all(|pair| pair[0].2 == pair[1].1), "no gap, no overlap");
        assert_eq!(cover(5, 5), []);
    }

    #[test]
    fn large_figures_are_texts() {
        assert_eq!(rounded(1 << 53), 9_007_199_254_740_992_u64);
        assert_eq!(rounded((1 << 53) + 1), "9007199254740993");
    }
}
