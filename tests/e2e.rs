//! End to end: one file a promise, each against the devnet over real sockets.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

mod e2e {
    pub mod harness;

    mod bad_input;
    mod crashes;
    mod discovery;
    mod faults;
    mod grants;
    mod home;
    mod indexer;
    mod pipeline;
    mod secrets;
    mod trace;
    mod write_and_read;
}
