//! The end of a command that runs until it is stopped.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

/// Longest drain of a tool server after a stop signal: running requests and writes end within it. A supervisor such as systemd or
/// Kubernetes kills the process after 30 seconds by default.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(25);

/// Resolves at the first SIGTERM or SIGINT after the call. Fails when a signal handler cannot be installed.
pub(crate) fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
