//! The differences between the protocol versions with sessions and those without, and the log level.

use std::sync::{Mutex, PoisonError};

use rmcp::{RoleServer, model::LoggingLevel, service::RequestContext};

/// The level for all sessions: such a server has one client, the suite.
static LEVEL: Mutex<LoggingLevel> = Mutex::new(LoggingLevel::Debug);

/// Sets the lowest severity of log messages for clients with sessions.
pub(super) fn set_level(level: LoggingLevel) {
    *LEVEL.lock().unwrap_or_else(PoisonError::into_inner) = level;
}

/// Whether the protocol version of the request has no sessions. Its server may not send requests.
pub(super) fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| !version.has_initialize())
}

/// The lowest severity of log messages for the client of the request; `None` when it wants none.
pub(super) fn log_level_of(context: &RequestContext<RoleServer>) -> Option<LoggingLevel> {
    if is_stateless(context) {
        return context.meta.log_level();
    }
    Some(*LEVEL.lock().unwrap_or_else(PoisonError::into_inner))
}
