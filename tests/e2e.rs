//! End to end: one file a promise, each against the devnet over real sockets.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

mod e2e {
    pub mod harness;

    mod agents;
    mod bad_input;
    mod cli;
    mod crashes;
    mod discovery;
    mod faults;
    mod grants;
    mod graph;
    mod home;
    mod indexer;
    mod pipeline;
    mod policy;
    mod recovery;
    mod secrets;
    mod sessions;
    mod standins;
    mod surface;
    mod trace;
    mod trust;
    mod write_and_read;
}
