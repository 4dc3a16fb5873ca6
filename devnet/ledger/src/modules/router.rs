//! The functions of the message table, for the modules that run messages of a proposal: gov and group.

use prost_types::Any;

use crate::{chain::ChainConfig, context::ExecContext, error::LedgerError};

/// The functions of [`routes`](super::routes).
pub struct MessageRouter {
    /// Runs the stateless checks of a message.
    pub validate: fn(&ChainConfig, &Any) -> Result<(), LedgerError>,
    /// Runs a message and packs its response.
    pub run: fn(&mut ExecContext<'_>, &Any) -> Result<Any, LedgerError>,
    /// Tells whether a type URL has a handler.
    pub is_routed: fn(&ChainConfig, &str) -> bool,
}
