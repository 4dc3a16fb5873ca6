//! Points in time and spans of time, in the spellings of the chain, of the indexer and of JSON.

use prost_types::{Duration, Timestamp};
use time::{OffsetDateTime, format_description::well_known::Rfc3339, macros::format_description};

/// Nanoseconds since the epoch: the one form in which instants are compared.
pub fn nanos(instant: &Timestamp) -> i128 {
    i128::from(instant.seconds) * 1_000_000_000 + i128::from(instant.nanos)
}

/// From nanoseconds since the epoch.
pub fn from_nanos(value: i128) -> Timestamp {
    let seconds = value.div_euclid(1_000_000_000);
    let nanos = value.rem_euclid(1_000_000_000);
    Timestamp { seconds: seconds as i64, nanos: nanos as i32 }
}

/// Length of a span in nanoseconds.
pub fn span_nanos(span: &Duration) -> i128 {
    i128::from(span.seconds) * 1_000_000_000 + i128::from(span.nanos)
}

/// `instant + span`.
pub fn later(instant: &Timestamp, span: &Duration) -> Timestamp {
    from_nanos(nanos(instant) + span_nanos(span))
}

/// Whether `left` is at or before `right`.
pub fn at_or_before(left: &Timestamp, right: &Timestamp) -> bool {
    nanos(left) <= nanos(right)
}

fn civil(instant: &Timestamp) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp_nanos(nanos(instant)).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// `2026-03-02T08:15:30.000Z`: entities of the indexer.
pub fn iso_millis(instant: &Timestamp) -> String {
    let shape = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    civil(instant).format(&shape).unwrap_or_default()
}

/// `2026-03-02T08:15:30Z`: events of the indexer.
pub fn iso_seconds(instant: &Timestamp) -> String {
    let shape = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    civil(instant).format(&shape).unwrap_or_default()
}

/// RFC 3339 with nanoseconds as Go prints them: trailing zeros dropped. CometBFT headers.
pub fn rfc3339_nanos(instant: &Timestamp) -> String {
    civil(instant).format(&Rfc3339).unwrap_or_default()
}

/// Go's default time text, `2026-03-02 08:15:30.5 +0000 UTC`: most chain events.
pub fn go_text(instant: &Timestamp) -> String {
    rfc3339_nanos(instant).replace('T', " ").replace('Z', " +0000 UTC")
}

/// Parses RFC 3339, any offset, up to nanoseconds.
pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let moment = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    Some(from_nanos(moment.unix_timestamp_nanos()))
}

/// `"3600s"`, `"0.5s"`: durations in protobuf JSON.
pub fn duration_text(span: &Duration) -> String {
    span.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_instant_in_every_spelling() {
        let instant = parse_rfc3339("2026-03-02T09:15:30.5+01:00").expect("valid");
        assert_eq!(iso_millis(&instant), "2026-03-02T08:15:30.500Z");
        assert_eq!(iso_seconds(&instant), "2026-03-02T08:15:30Z");
        assert_eq!(rfc3339_nanos(&instant), "2026-03-02T08:15:30.5Z");
        assert_eq!(go_text(&instant), "2026-03-02 08:15:30.5 +0000 UTC");
        assert_eq!(from_nanos(nanos(&instant)), instant);
        assert_eq!(duration_text(&Duration { seconds: 3600, nanos: 0 }), "3600s");
    }
}
