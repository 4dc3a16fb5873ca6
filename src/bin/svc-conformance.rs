//! The svc binary with what the official MCP conformance suite expects besides our own tools. Never released.

fn main() -> std::process::ExitCode {
    svc::start::program()
}
