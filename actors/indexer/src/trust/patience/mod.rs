//! Patience with web servers: an evaluation whose outcome depends on a failure that may pass stays open, and retries belong to it.
//! The decisions are pure; the evaluator performs them.

pub mod decision;
pub mod doubts;
pub mod open_evaluation;
pub mod open_evaluations;
mod try_schedule;

use std::{sync::Arc, time::Duration};

/// Default of the longest time that an evaluation stays open.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(60 * 60);

/// The clock of the open evaluations, which outlive the process: milliseconds since the epoch.
pub type WallClock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// A length of time in milliseconds.
pub fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
