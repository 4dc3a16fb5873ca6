//! The node: transactions, the CometBFT RPC, failures of the chain.

pub mod absence;
pub mod chain_error;
mod chain_text;
pub mod comet_rpc;
pub mod tx;
