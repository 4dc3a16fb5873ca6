//! The devnet against the chain's contract: its ledger block by block, its node over real sockets, the services it brings.
#![allow(missing_docs, clippy::expect_used)]

mod ledger;
mod node;
mod services;
