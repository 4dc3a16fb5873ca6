//! Configuration of a pipeline.

use std::time::Duration;

use crate::{
    chain::{gas_price::GasPriceWatch, node_release::ReleaseWatch, params::ChainParams},
    journal::store::JournalPlace,
    signer::window::WindowBound,
    write::fee::DEFAULT_GAS_ADJUSTMENT,
};

/// Writes of [`Pipeline::execute`](crate::Pipeline::execute) that may be active at once.
pub(crate) const MAX_ACTIVE_WRITES: usize = 4_096;

/// Configuration of a pipeline.
#[derive(Debug, Clone)]
pub struct PipelineConfig {
    /// Parameters of the chain.
    pub chain: ChainParams,
    /// The price of gas, from the discovery; the pipeline keeps it current. Without one the price of the parameters stays.
    pub prices: GasPriceWatch,
    /// The release of the node, from the discovery; the pipeline keeps it current.
    pub release: ReleaseWatch,
    /// Longest wait of a caller for inclusion. Timeout heights are twice as far away.
    pub tx_timeout: Duration,
    /// Gas limit of a simulated transaction, in percent of its gas.
    pub gas_adjustment: u32,
    /// Transactions in flight at once.
    pub window: WindowBound,
    /// Place of the journal.
    pub journal: JournalPlace,
    /// Prefixes of the texts that may be signed off-chain (ADR-036). Without any, none is signed.
    pub text_prefixes: Vec<&'static str>,
    /// Messages that each actor's mailbox accepts.
    pub mailbox_limit: usize,
}

impl PipelineConfig {
    /// The defaults for a chain: a wait of 30 seconds, an adaptive window, a journal in memory.
    pub fn new(chain: ChainParams) -> Self {
        Self {
            prices: GasPriceWatch::new(chain.fees, true, &chain.denom),
            chain,
            release: ReleaseWatch::default(),
            tx_timeout: Duration::from_secs(30),
            gas_adjustment: DEFAULT_GAS_ADJUSTMENT,
            window: WindowBound::Adaptive,
            journal: JournalPlace::default(),
            text_prefixes: Vec::new(),
            mailbox_limit: 2 * MAX_ACTIVE_WRITES,
        }
    }
}
