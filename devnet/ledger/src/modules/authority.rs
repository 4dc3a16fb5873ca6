//! The authority over parameters and the rest of the registry: governance, or the council of validators in its place.

use super::{bank, council};
use crate::{chain::ChainConfig, context::ExecContext, error::LedgerError, state::LedgerState};

/// Returns the address of the account that acts for governance.
pub fn governance_address(chain: &ChainConfig) -> String {
    bank::module_address(chain, "gov")
}

/// Returns the address of the authority: the policy of the council where there is one, else the account of governance.
pub fn authority_address(state: &LedgerState, chain: &ChainConfig) -> String {
    council::policy(state, chain).map_or_else(|| governance_address(chain), |policy| policy.address.clone())
}

/// Fails with the given (codespace, code) unless `sender` is the authority.
pub fn ensure_authority(exec: &ExecContext<'_>, sender: &str, error: (&'static str, u32)) -> Result<(), LedgerError> {
    let expected = authority_address(exec.state, exec.chain);
    if sender == expected {
        return Ok(());
    }
    let text = format!(
        "invalid authority; expected {expected}, got {sender}: expected gov account as only signer for proposal message"
    );
    Err(LedgerError::new(error.0, error.1, text))
}
