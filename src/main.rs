//! The svc binary.

fn main() -> std::process::ExitCode {
    svc::program::run_program()
}
