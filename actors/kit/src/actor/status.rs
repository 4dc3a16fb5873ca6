//! Status of an actor.

use std::fmt;

/// Status of an actor, as its handle sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorStatus {
    /// Not started yet.
    New,
    /// Running.
    Up,
    /// Between two incarnations.
    Restarting,
    /// Stopped for good.
    Stopped,
}

impl fmt::Display for ActorStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::New => "not started",
            Self::Up => "up",
            Self::Restarting => "restarting",
            Self::Stopped => "stopped",
        })
    }
}
