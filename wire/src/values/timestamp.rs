//! Instants and durations in the text forms of the chain, the indexer and JSON.

use prost_types::{Duration, Timestamp};
use serde_json::Value;
use time::{OffsetDateTime, format_description::well_known::Rfc3339, macros::format_description};

/// Nanoseconds since the epoch. Instants are compared in this form.
pub fn unix_nanos(instant: &Timestamp) -> i128 {
    i128::from(instant.seconds) * 1_000_000_000 + i128::from(instant.nanos)
}

/// The instant at `value` nanoseconds since the epoch.
pub fn from_unix_nanos(value: i128) -> Timestamp {
    let seconds = value.div_euclid(1_000_000_000);
    let nanos = value.rem_euclid(1_000_000_000);
    Timestamp { seconds: seconds as i64, nanos: nanos as i32 }
}

/// Length of a duration in nanoseconds.
pub fn duration_nanos(span: &Duration) -> i128 {
    i128::from(span.seconds) * 1_000_000_000 + i128::from(span.nanos)
}

/// `instant + span`.
pub fn add_duration(instant: &Timestamp, span: &Duration) -> Timestamp {
    from_unix_nanos(unix_nanos(instant) + duration_nanos(span))
}

/// Whether `left` is at or before `right`.
pub fn is_at_or_before(left: &Timestamp, right: &Timestamp) -> bool {
    unix_nanos(left) <= unix_nanos(right)
}

fn to_date_time(instant: &Timestamp) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp_nanos(unix_nanos(instant)).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// `2026-03-02T08:15:30.000Z`, as in entities of the indexer.
pub fn iso_millis(instant: &Timestamp) -> String {
    let shape = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    to_date_time(instant).format(&shape).unwrap_or_default()
}

/// `2026-03-02T08:15:30Z`, as in events of the indexer.
pub fn iso_seconds(instant: &Timestamp) -> String {
    let shape = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    to_date_time(instant).format(&shape).unwrap_or_default()
}

/// RFC 3339 with nanoseconds and without trailing zeros, as Go prints it in CometBFT headers.
pub fn rfc3339_nanos(instant: &Timestamp) -> String {
    to_date_time(instant).format(&Rfc3339).unwrap_or_default()
}

/// Default text of a Go time, `2026-03-02 08:15:30.5 +0000 UTC`, as in most chain events.
pub fn go_time_text(instant: &Timestamp) -> String {
    rfc3339_nanos(instant).replace('T', " ").replace('Z', " +0000 UTC")
}

/// Parses RFC 3339 with any offset, up to nanoseconds.
pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let moment = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    Some(from_unix_nanos(moment.unix_timestamp_nanos()))
}

/// Parses the RFC 3339 text of a member of a JSON object to nanoseconds since the epoch. None when it is absent or no instant.
pub fn parse_instant(body: &Value, key: &str) -> Option<i128> {
    body[key].as_str().and_then(parse_rfc3339).as_ref().map(unix_nanos)
}

/// `3600s` or `0.5s`, the form of a duration in protobuf JSON.
pub fn duration_text(span: &Duration) -> String {
    span.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_instant_has_the_expected_text_in_every_form() {
        let instant = parse_rfc3339("2026-03-02T09:15:30.5+01:00").expect("valid");
        assert_eq!(iso_millis(&instant), "2026-03-02T08:15:30.500Z");
        assert_eq!(iso_seconds(&instant), "2026-03-02T08:15:30Z");
        assert_eq!(rfc3339_nanos(&instant), "2026-03-02T08:15:30.5Z");
        assert_eq!(go_time_text(&instant), "2026-03-02 08:15:30.5 +0000 UTC");
        assert_eq!(from_unix_nanos(unix_nanos(&instant)), instant);
        assert_eq!(duration_text(&Duration { seconds: 3600, nanos: 0 }), "3600s");
    }
}
