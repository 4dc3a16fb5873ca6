//! The state of the store after a write and after a renewal of its lease. Pure.

use super::StoreState;
use crate::AgentStoreError;

/// The state after a renewal.
pub(super) fn state_after(renewed: Result<(), AgentStoreError>) -> StoreState {
    match renewed {
        Ok(()) => StoreState::Writable,
        Err(AgentStoreError::Lost) => StoreState::Lost,
        Err(error) => StoreState::Failed(error.to_string()),
    }
}

/// Whether the end of a write contradicts the known state, so that the lease is renewed at once.
pub(super) fn contradicts(known: &StoreState, is_written: bool) -> bool {
    is_written != (*known == StoreState::Writable)
}
