//! Servers, disks and texts for tests: a PostgreSQL server, a small disk, a receiver of OTLP, the published schemas.
//!
//! This is a crate because a feature of another crate, enabled by tests alone, would compile everything above that crate twice.
// Only tests use it, and these may panic and print.
#![allow(clippy::expect_used, clippy::print_stderr)]

use std::io::Write;

pub mod otlp_receiver;
pub mod own_process;
pub mod ports;
pub mod postgres_server;
pub mod published_schemas;
pub mod small_disk;

/// Records why a test was skipped, in the file SVC_TEST_SKIPPED: libtest hides the output of tests that pass.
pub(crate) fn skip(reason: &str) {
    eprintln!("skipped: {reason}");
    if let Some(path) = std::env::var_os("SVC_TEST_SKIPPED") {
        let mut file = std::fs::File::options().append(true).create(true).open(path).expect("a file");
        file.write_all(format!("{reason}\n").as_bytes()).expect("written");
    }
}
