//! The node: transactions, the CometBFT RPC, failures of the chain.

pub mod chain_error;
pub mod comet_rpc;
pub mod tx;
