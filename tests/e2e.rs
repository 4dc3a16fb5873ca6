//! End-to-end tests: a file per promise, each against a devnet over real sockets.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "conformance/suite/mod.rs"]
mod conformance_suite;

mod e2e {
    pub mod harness;

    mod actor_crashes;
    mod agent;
    mod agents;
    mod bad_input;
    mod cli;
    mod concurrent_writes;
    mod devnet_home;
    mod embedded_pipeline;
    mod fakes;
    mod front_door;
    mod generation_rules;
    mod generations;
    mod graph_tools;
    mod indexer;
    mod light_answers;
    mod mcp_extension;
    mod mcp_features;
    mod oauth;
    mod other_namespace;
    mod otlp_trace;
    mod peer_issuer;
    mod port_check;
    mod principals;
    mod recovery;
    mod secrets;
    mod service_starts;
    mod sessions;
    mod stdio_start;
    mod tool_list_changes;
    mod tool_policy;
    mod trust_reads;
    mod upstream_faults;
    mod write_and_read;
}
