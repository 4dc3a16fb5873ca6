//! The wall clock, for comparing with times the chain wrote.

use std::time::{SystemTime, UNIX_EPOCH};

use prost_types::Timestamp;
use svc_wire::instant;

/// Now.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    instant::from_nanos(i128::try_from(since.as_nanos()).unwrap_or(0))
}

/// Now, RFC 3339 with milliseconds.
pub fn now_text() -> String {
    instant::iso_millis(&now())
}
