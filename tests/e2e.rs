//! End-to-end tests: a file per promise, each against a devnet over real sockets.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "conformance/suite/mod.rs"]
mod conformance_suite;

mod e2e {
    pub mod harness;

    mod agent;
    mod callers;
    mod fakes;
    mod indexer;
    mod nodes;
    mod programs;
    mod recovery;
    mod surface;
    mod writes;
}
