//! The wall clock, for comparisons with times of the chain.

use std::time::{SystemTime, UNIX_EPOCH};

use prost_types::Timestamp;
use svc_wire::timestamp;

/// Returns the current time.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    timestamp::from_unix_nanos(i128::try_from(since.as_nanos()).unwrap_or(0))
}

/// Returns the current time in milliseconds since the epoch.
pub fn now_millis() -> i64 {
    let now = now();
    now.seconds * 1000 + i64::from(now.nanos) / 1_000_000
}

/// Returns the current time in RFC 3339 with milliseconds.
pub fn now_rfc3339() -> String {
    timestamp::iso_millis(&now())
}
