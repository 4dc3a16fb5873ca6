//! The effect of a call of a tool.

use serde::Deserialize;

/// The effect of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolEffect {
    /// Changes nothing.
    Reads,
    /// Adds something; each call adds another.
    Creates,
    /// Sets something; a second call changes nothing more.
    Sets,
    /// Sets something and discards the previous value.
    Replaces,
    /// Ends something, or cannot be undone.
    Ends,
}
