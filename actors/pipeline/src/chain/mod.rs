//! The chain as the pipeline reads it: parameters, account, simulated gas, block times.

pub mod account;
pub mod block_clock;
pub mod discovery;
pub mod fee_allowance;
pub mod head;
pub mod params;
pub mod simulation;
