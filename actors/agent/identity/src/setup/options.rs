//! The wishes of a caller.

use svc_wire::proto::cosmos::base::v1beta1::Coin;

/// The wishes for steps that are still to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupOptions {
    /// Days for which participants are made and extended.
    pub days: u32,
    /// Most of the corporation's coins that the agent may spend by its ISSUER participant.
    pub spend_limit: Option<Coin>,
    /// Most fees that the corporation pays for each participant; no limit when absent, and [`Self::DEFAULT_FEE_LIMIT`] where the node needs one.
    pub fee_limit: Option<Coin>,
    /// The participant under which the DID becomes a HOLDER; the only one that there is when absent.
    pub apply_to: Option<u64>,
    /// Whether the messages are sent as soon as they are read, so that a participant may begin after a few blocks.
    pub is_sent_at_once: bool,
}

impl SetupOptions {
    /// Days without a wish.
    pub const DEFAULT_DAYS: u32 = 365;
    /// Most days.
    pub const MAX_DAYS: u32 = 3_650;
    /// Spend limit without a wish, in base units of the chain's coin.
    pub const DEFAULT_SPEND_LIMIT: u64 = 10_000_000;
    /// Fee limit without a wish where the node needs one, in base units of the chain's coin for each period of its allowance.
    pub const DEFAULT_FEE_LIMIT: u64 = 10_000_000;
}

impl Default for SetupOptions {
    fn default() -> Self {
        Self { days: Self::DEFAULT_DAYS, spend_limit: None, fee_limit: None, apply_to: None, is_sent_at_once: false }
    }
}
