//! A start of the program: secrets out of the environment, telemetry, the command, the exit code.

use clap::Parser;
use svc_otel::Telemetry;

use crate::{cli::Cli, config, secrets};

/// Runs the program.
pub fn program() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln_error(&error);
            std::process::ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    // Before anything else: may start this process anew, and must come before the first thread.
    let secrets = secrets::extract()?;
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let level = config::log_level(&config::ProcessEnvironment, cli.default_log_level());
    let telemetry = {
        let _inside = runtime.enter();
        Telemetry::start(level, env!("CARGO_PKG_VERSION"))?
    };
    let outcome = runtime.block_on(cli.run(secrets));
    telemetry.stop();
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    outcome
}

fn eprintln_error(error: &anyhow::Error) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "svc: {error:#}");
}
