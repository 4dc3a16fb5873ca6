//! The chain as the pipeline reads it: parameters, account, simulated gas, block times.

pub mod account;
pub mod discovery;
pub mod fee_allowance;
mod fee_denom;
pub mod gas_price;
pub mod head;
pub mod node_release;
pub mod params;
pub mod simulation;
