//! The svc binary.

fn main() -> std::process::ExitCode {
    svc::start::program()
}
