//! Tests of the node over real sockets: methods, limits, subscriptions, faults, persistence.

mod faults;
mod gas;
mod gateway;
pub mod harness;
mod persistence;
mod replicas;
mod rpc;
mod scenarios;
mod subscriptions;
mod upgrade;
