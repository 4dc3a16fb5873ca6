//! The svc binary's front ends: thin layers that parse, ask an actor, shape the answer and map errors.

pub mod blocks;
mod check;
pub mod cli;
pub mod client;
mod commands;
pub mod config;
mod devnet;
mod exposition;
pub mod mcp;
pub mod network;
pub mod output;
pub mod process;
pub mod secrets;
pub mod serve;
pub mod start;
