//! The svc binary with the fixtures of the official MCP conformance suite. It is not part of a release.

fn main() -> std::process::ExitCode {
    svc::program::run_program()
}
