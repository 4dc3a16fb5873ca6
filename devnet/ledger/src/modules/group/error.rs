//! Errors of the module.

use crate::error::LedgerError;

const MAX_METADATA_BYTES: usize = 255;

pub fn group_error(code: u32, text: impl std::fmt::Display, root: &str) -> LedgerError {
    LedgerError::new("group", code, format!("{text}: {root}"))
}

pub fn invalid(text: impl std::fmt::Display) -> LedgerError {
    group_error(6, text, "invalid value")
}

pub fn unauthorized(text: impl std::fmt::Display) -> LedgerError {
    group_error(7, text, "unauthorized")
}

pub fn not_found(text: impl std::fmt::Display) -> LedgerError {
    LedgerError::sdk(38, text)
}

pub fn ensure_metadata_fits(metadata: &str) -> Result<(), LedgerError> {
    if metadata.len() > MAX_METADATA_BYTES {
        return Err(group_error(4, "metadata too long", "limit exceeded"));
    }
    Ok(())
}
