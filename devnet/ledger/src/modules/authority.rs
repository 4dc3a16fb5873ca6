//! The governance authority.

use super::bank;
use crate::{
    error::LedgerError,
    exec::context::{ChainConfig, ExecContext},
};

/// Returns the address of the account that acts for governance.
pub fn authority_address(chain: &ChainConfig) -> String {
    bank::module_address(chain, "gov")
}

/// Fails with the given (codespace, code) unless `sender` is the governance account.
pub fn ensure_authority(exec: &ExecContext<'_>, sender: &str, error: (&'static str, u32)) -> Result<(), LedgerError> {
    let expected = authority_address(exec.chain);
    if sender == expected {
        return Ok(());
    }
    let text = format!(
        "invalid authority; expected {expected}, got {sender}: expected gov account as only signer for proposal message"
    );
    Err(LedgerError::new(error.0, error.1, text))
}
