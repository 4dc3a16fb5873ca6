//! Times as callers of the admin API and receivers of events see them.

use prost_types::Timestamp;
use svc_wire::timestamp;

/// A time in milliseconds since the epoch as text.
pub fn millis_text(millis: i64) -> String {
    let nanos = i32::try_from(millis.rem_euclid(1000) * 1_000_000).unwrap_or_default();
    timestamp::iso_millis(&Timestamp { seconds: millis.div_euclid(1000), nanos })
}
