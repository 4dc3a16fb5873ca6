//! `svc serve`: the tool server from the environment.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use rmcp::ServiceExt;
use svc_operator::Operator;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    config::{HttpConfig, ServeConfig, Transport},
    mcp::{Front, HttpServer, HttpServerConfig, Session},
    process,
};

/// How long running requests and writes get after a signal.
pub const DRAIN: Duration = Duration::from_secs(25);

/// Boots, serves until a signal or the end of the tree, drains.
pub async fn run(config: ServeConfig) -> anyhow::Result<()> {
    // One for the whole run: a signal between two of them would be lost.
    let stop = stop_signal()?;
    tokio::pin!(stop);
    match config.transport {
        Transport::Stdio => {
            let operator = tokio::select! {
                booted = Operator::boot(config.operator, config.key) => booted?,
                () = &mut stop => return Ok(()),
            };
            let front = Front::new(operator.clone(), &config.selection)?;
            let running = Session::new(Arc::clone(&front)).serve(rmcp::transport::stdio()).await?;
            let token = running.cancellation_token();
            tokio::select! {
                ended = running.waiting() => { ended?; }
                () = &mut stop => {}
                reason = operator.supervisor().ended() => anyhow::bail!("the operator has given up: {reason}"),
            }
            front.drain();
            operator.shutdown(DRAIN).await;
            token.cancel();
            Ok(())
        }
        Transport::Http(http) => {
            // The port is taken first, so that a wrong port is told at once, not after a minute of boot.
            let HttpConfig { bind, port, bearer, allowed_hosts, sessions } = http;
            let address = SocketAddr::new(bind, port);
            let listener = process::bind(address).with_context(|| format!("cannot listen on {address}"))?;
            let starting = Starting::answer(listener.try_clone()?)?;
            let booted = tokio::select! {
                booted = Operator::boot(config.operator, config.key) => Some(booted),
                () = &mut stop => None,
            };
            starting.stop().await;
            let Some(operator) = booted.transpose()? else {
                tracing::info!("stopped before the boot was over");
                return Ok(());
            };
            let front = Front::new(operator.clone(), &config.selection)?;
            let server =
                HttpServer::start(listener, Arc::clone(&front), HttpServerConfig { bearer, allowed_hosts, sessions })?;
            tracing::info!(address = %server.address, "serving MCP over HTTP");
            let given_up = tokio::select! {
                () = &mut stop => None,
                reason = operator.supervisor().ended() => Some(reason),
            };
            tracing::info!("draining");
            front.drain();
            operator.shutdown(DRAIN).await;
            server.stop(Duration::from_secs(3)).await;
            tracing::info!("stopped");
            match given_up {
                Some(reason) => anyhow::bail!("the operator has given up: {reason}"),
                None => Ok(()),
            }
        }
    }
}

/// Answers `/healthz` with `starting` until the boot is over.
struct Starting {
    stop: tokio_util::sync::CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Starting {
    fn answer(listener: std::net::TcpListener) -> anyhow::Result<Self> {
        use axum::{Json, Router, http::StatusCode};
        let body = || async { (StatusCode::SERVICE_UNAVAILABLE, Json(serde_json::json!({"status": "starting"}))) };
        let router = Router::new().fallback(body);
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let stop = tokio_util::sync::CancellationToken::new();
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

/// SIGTERM or SIGINT.
pub fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
