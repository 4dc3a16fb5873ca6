//! Tests of the devnet: the node over real sockets, and the services of a scenario.
#![allow(missing_docs, clippy::expect_used)]

mod node;
mod services;
