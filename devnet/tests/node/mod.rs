//! The node over real sockets: methods, limits, subscriptions, faults, and what survives a restart.

mod faults;
pub mod harness;
mod persistence;
mod replicas;
mod rpc;
mod scenarios;
mod subscriptions;
mod tendermint;
