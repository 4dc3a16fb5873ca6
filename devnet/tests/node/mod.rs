//! The node over real sockets: methods, limits, subscriptions, faults, and what survives a restart.

mod faults;
mod harness;
mod persistence;
mod replicas;
mod rpc;
mod scenarios;
mod subscriptions;
mod tendermint;
