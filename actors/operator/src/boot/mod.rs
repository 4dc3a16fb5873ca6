//! The start of an operator: its configuration, the discovery of chain and corporation, and the preflight check.

pub mod config;
pub mod discovery;
pub mod error;
pub mod preflight;
