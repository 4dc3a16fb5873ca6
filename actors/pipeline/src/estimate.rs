//! The cost of a write, by simulation. Nothing is signed and nothing is sent.

use std::time::Duration;

use svc_kit::{RetainedState, wall_clock};
use svc_net::upstream::{BlockClock, NodeClient, NodeClientError};
use svc_wire::{chain_error::ChainErrorKind, tx::UnsignedTx};
use tokio::time::Instant;

use crate::{
    chain::{
        account::{AccountIdentity, query_balance},
        fee_allowance::query_fee_allowance,
        params::ChainParams,
        simulation::{SimulationError, simulate_gas},
    },
    signer::gas_history::GasHistory,
    write::{
        error::SubmitError,
        fee::{FeeGranter, FeeLimits, FeePolicy, SpentToday},
        message::EncodedMessage,
    },
};

/// The cost of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxEstimate {
    /// Gas that the simulation used.
    pub gas_used: u64,
    /// Gas limit of the transaction.
    pub gas_wanted: u64,
    /// Fee in the fee denom.
    pub fee: u128,
    /// Whether the fee granter pays the fee.
    pub has_granter: bool,
}

/// A write whose cost cannot be estimated, because it would fail now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EstimateError {
    /// The signer would refuse the write.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The node did not answer.
    #[error(transparent)]
    Node(NodeClientError),
    /// The account cannot pay the fee, and no allowance pays it.
    #[error("{address} has {balance}{denom}, the fee would be {fee}{denom}, and no allowance pays it")]
    InsufficientBalance {
        /// Address of the account.
        address: String,
        /// Its balance in the fee denom.
        balance: u128,
        /// The fee.
        fee: u128,
        /// The fee denom.
        denom: String,
    },
}

/// Simulations of one estimate. Other writes may move the sequence meanwhile.
const MAX_SIMULATIONS: usize = 5;

/// Estimates costs for one account.
pub(crate) struct CostEstimator<'a> {
    pub chain: &'a ChainParams,
    /// Price of gas and ceilings.
    pub fees: FeePolicy,
    pub identity: &'a AccountIdentity,
    pub node: &'a NodeClient,
    pub clock: &'a RetainedState<BlockClock>,
    pub gas: &'a RetainedState<GasHistory>,
    pub tx_timeout: Duration,
    /// The fees of the day so far.
    pub spent_today: SpentToday,
    /// Ceilings of the principal.
    pub fee_limits: FeeLimits,
}

impl CostEstimator<'_> {
    /// Simulates a write, at first with the given sequence and fee granter.
    pub async fn estimate(
        &self,
        message: &EncodedMessage,
        mut sequence: u64,
        mut granter: Option<FeeGranter>,
    ) -> Result<TxEstimate, EstimateError> {
        let mut last_refusal = SubmitError::Overloaded { limit: MAX_SIMULATIONS };
        for _ in 0..MAX_SIMULATIONS {
            match self.simulate(message, sequence, granter.as_ref()).await {
                Ok(gas_used) => {
                    let gas_wanted = self.gas.with(|gas| gas.gas_limit(message.msg_type(), gas_used));
                    let fee = self
                        .fees
                        .fee_below_ceiling(gas_wanted, self.spent_today, self.fee_limits)
                        .map_err(SubmitError::AboveCeiling)?;
                    if granter.as_ref().is_some_and(|granter| !granter.budget.covers(fee)) {
                        granter = None;
                        continue;
                    }
                    if granter.is_none() {
                        self.require_balance(fee).await?;
                    }
                    return Ok(TxEstimate { gas_used, gas_wanted, fee, has_granter: granter.is_some() });
                }
                Err(SimulationError::Refused(error)) => match error.classify_simulation() {
                    // A message may quote the sentence for one sequence, and not for the next one too.
                    ChainErrorKind::WrongSequence { expected: Some(expected), actual }
                        if expected != sequence && actual.is_none_or(|actual| actual == sequence) =>
                    {
                        sequence = expected;
                        last_refusal = SubmitError::Sequence(error);
                    }
                    ChainErrorKind::FeeAllowanceUnusable if self.is_unpaid(granter.as_ref(), message).await? => {
                        granter = None;
                    }
                    _ => return Err(SubmitError::Simulation(error).into()),
                },
                Err(SimulationError::NoAnswer(error)) => return Err(EstimateError::Node(error)),
            }
        }
        Err(last_refusal.into())
    }

    /// Whether there is a granter whose allowance at the node does not pay for a message.
    async fn is_unpaid(&self, granter: Option<&FeeGranter>, message: &EncodedMessage) -> Result<bool, EstimateError> {
        let Some(granter) = granter else { return Ok(false) };
        let (grantee, denom) = (self.identity.address.to_string(), &self.chain.denom);
        let found = query_fee_allowance(self.node, &granter.address, &grantee, denom).await;
        let found = found.map_err(EstimateError::Node)?;
        let now = self.clock.with(|clock| clock.time(Instant::now())).unwrap_or_else(wall_clock::now);
        Ok(found.is_none_or(|found| found.budget_for(message.msg_type(), &now).is_none()))
    }

    async fn simulate(
        &self,
        message: &EncodedMessage,
        sequence: u64,
        granter: Option<&FeeGranter>,
    ) -> Result<u64, SimulationError> {
        let unsigned = UnsignedTx {
            messages: vec![message.message.clone()],
            sequence,
            fee: Vec::new(),
            gas_limit: 0,
            fee_granter: granter.map(|granter| granter.address.clone()),
            timeout_height: self.clock.with(|clock| clock.timeout_height(self.tx_timeout)),
        };
        simulate_gas(self.node, unsigned.simulation_bytes(&self.identity.public_key)).await
    }

    /// A simulation deducts no fee, so that it passes without a balance.
    async fn require_balance(&self, fee: u128) -> Result<(), EstimateError> {
        let (address, denom) = (self.identity.address.to_string(), self.chain.denom.clone());
        let balance = query_balance(self.node, &address, &denom).await.map_err(EstimateError::Node)?;
        if balance >= fee { Ok(()) } else { Err(EstimateError::InsufficientBalance { address, balance, fee, denom }) }
    }
}
