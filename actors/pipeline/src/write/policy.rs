//! The embedder's decision before each signature.

use std::convert::Infallible;

use super::{fee::FeeGranter, intent::WriteIntent};

/// Decides before every signature of a write whether the signer may sign it and which account pays the fee.
///
/// A write is signed again only after the chain has decided that its earlier transaction never executes or has executed
/// without effect. The policy is asked each time, because an authorization may have ended meanwhile.
pub trait SigningPolicy: Send + Sync {
    /// Reason of a refusal. Nothing was signed for this attempt.
    type Refusal: Send;

    /// The fee granter for the signature, `None` when the signing account pays itself. `attempt` counts from zero.
    fn authorize(&self, intent: &WriteIntent, attempt: u32) -> Result<Option<FeeGranter>, Self::Refusal>;
}

/// Signs everything; the signing account pays its own fees.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnAccount;

impl SigningPolicy for OwnAccount {
    type Refusal = Infallible;

    fn authorize(&self, _: &WriteIntent, _: u32) -> Result<Option<FeeGranter>, Infallible> {
        Ok(None)
    }
}
