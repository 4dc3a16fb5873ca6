//! A start of the program: takes the secrets out of the environment, starts telemetry, runs the command, sets the exit code.

use clap::Parser;
use svc_otel::Telemetry;

use crate::{
    cli::{self, CommandLine},
    config, secrets,
};

/// Runs the program with the arguments and the environment of the process.
pub fn run_program() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            print_error(&error);
            cli::exit_status(&error).into()
        }
    }
}

fn run() -> anyhow::Result<()> {
    // This may re-execute the process, so it must precede the first thread.
    let secrets = secrets::extract_secrets()?;
    let cli = CommandLine::parse();
    svc_net::listener::raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let levels = cli.log_levels(&config::ProcessEnvironment);
    let telemetry = {
        let _inside = runtime.enter();
        Telemetry::start(levels, env!("CARGO_PKG_VERSION"))?
    };
    let outcome = runtime.block_on(cli.run(secrets));
    telemetry.stop();
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    outcome
}

fn print_error(error: &anyhow::Error) {
    use std::io::Write;
    // An error may quote a server, or data of a chain.
    let text = crate::visible_text::visible_lines(&format!("{error:#}"));
    let _ = writeln!(std::io::stderr().lock(), "svc: {text}");
}
