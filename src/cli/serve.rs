//! `svc serve`: the tool server, configured by the environment.

use std::{net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use anyhow::Context;
use rmcp::ServiceExt;
use svc_operator::Operator;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    config::{HttpTransportConfig, ServeConfig, TransportConfig, named_boot_error},
    listener::bind_listener,
    mcp::{HttpServer, HttpServerConfig, McpSession, ToolServer},
    shutdown::{DRAIN_TIMEOUT, stop_signal},
    status::{HealthStatus, health_response},
};

/// Boots the operator, serves until a stop signal or until its supervisor gives up, and drains.
pub(super) async fn run(config: ServeConfig) -> anyhow::Result<()> {
    // One future for the whole run: between two of them a signal would be lost.
    let stop = stop_signal()?;
    tokio::pin!(stop);
    let mut hang_ups = signal(SignalKind::hangup())?;
    match config.transport {
        TransportConfig::Stdio => {
            let operator = tokio::select! {
                booted = Operator::boot(config.operator, config.key) => booted.map_err(named_boot_error)?,
                () = &mut stop => return Ok(()),
            };
            let server = ToolServer::start(operator.clone(), &config.selection)?;
            let running = McpSession::new(Arc::clone(&server)).serve(rmcp::transport::stdio()).await?;
            let token = running.cancellation_token();
            tokio::select! {
                ended = running.waiting() => { ended?; }
                () = &mut stop => {}
                () = rotate_audit(&mut hang_ups, &operator) => {}
                reason = operator.supervisor().wait_until_ended() => anyhow::bail!("the operator has given up: {reason}"),
            }
            server.drain();
            operator.shutdown(DRAIN_TIMEOUT).await;
            token.cancel();
            Ok(())
        }
        TransportConfig::Http(http) => {
            // The port is taken before the boot, so that a wrong port fails at once and not after a minute.
            let HttpTransportConfig { bind, port, bearer, allowed_hosts, sessions } = http;
            let address = SocketAddr::new(bind, port);
            let listener = bind_listener(address).with_context(|| format!("cannot listen on {address}"))?;
            let responder = StartupResponder::start(listener.try_clone()?)?;
            let booted = tokio::select! {
                booted = Operator::boot(config.operator, config.key) => Some(booted),
                () = &mut stop => None,
            };
            responder.stop().await;
            let Some(operator) = booted.transpose().map_err(named_boot_error)? else {
                tracing::info!("stopped during the boot");
                return Ok(());
            };
            let server = ToolServer::start(operator.clone(), &config.selection)?;
            let http = HttpServerConfig { bearer_token: bearer, allowed_hosts, sessions };
            let http = HttpServer::start(listener, Arc::clone(&server), http)?;
            tracing::info!(address = %http.address, "serving MCP over HTTP");
            serve_until_stopped(stop, &mut hang_ups, &operator, &server, http).await
        }
    }
}

/// Waits for the stop signal or the end of the operator, then drains.
async fn serve_until_stopped<S: Future<Output = ()>>(
    stop: Pin<&mut S>,
    hang_ups: &mut Signal,
    operator: &Operator,
    server: &ToolServer,
    http: HttpServer,
) -> anyhow::Result<()> {
    let end_reason = tokio::select! {
        () = stop => None,
        reason = operator.supervisor().wait_until_ended() => Some(reason),
        () = rotate_audit(hang_ups, operator) => None,
    };
    tracing::info!("draining");
    server.drain();
    operator.shutdown(DRAIN_TIMEOUT).await;
    http.stop(Duration::from_secs(3)).await;
    tracing::info!("stopped");
    match end_reason {
        Some(reason) => anyhow::bail!("the operator has given up: {reason}"),
        None => Ok(()),
    }
}

/// Continues the audit in a new file at each SIGHUP, after the old one was moved away.
async fn rotate_audit(hang_ups: &mut Signal, operator: &Operator) {
    while hang_ups.recv().await.is_some() {
        operator.audit().rotate();
    }
    std::future::pending().await
}

/// Answers `starting` to every request until the boot is over.
struct StartupResponder {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl StartupResponder {
    fn start(listener: std::net::TcpListener) -> anyhow::Result<Self> {
        let router = axum::Router::new().fallback(async || health_response(HealthStatus::Starting));
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, router).with_graceful_shutdown(stopped.cancelled_owned()).await;
        });
        Ok(Self { stop, task })
    }

    async fn stop(self) {
        self.stop.cancel();
        let abort = self.task.abort_handle();
        if tokio::time::timeout(Duration::from_millis(500), self.task).await.is_err() {
            abort.abort();
        }
    }
}
