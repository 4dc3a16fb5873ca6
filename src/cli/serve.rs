//! `svc serve`: the tool server, configured by the environment.

use std::{net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use rmcp::ServiceExt;
use svc_operator::{BootError, BootSubject, MissingServer, Operator};
use svc_wire::error_envelope::{ErrorEnvelope, FailureCode};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    config::{HttpTransportConfig, ServeConfig, TransportConfig, named_boot_error},
    listener::{ListenerConfig, bind_listener, starting::StartupResponder},
    mcp::{HttpServer, HttpServerConfig, McpSession, ServerSlot, Startup, StartupPublisher, ToolSelection, ToolServer},
    principals::{OauthVerifier, PeerVerifier},
    shutdown::{DRAIN_TIMEOUT, stop_signal},
};

/// Boots the operator, serves until a stop signal or until its supervisor gives up, and drains.
pub(super) async fn run(config: ServeConfig) -> anyhow::Result<()> {
    // One future for the whole run: between two of them a signal would be lost.
    let stop = stop_signal()?;
    tokio::pin!(stop);
    let mut hang_ups = signal(SignalKind::hangup())?;
    match config.transport {
        TransportConfig::Stdio => {
            let (operator, selection) = (config.operator, config.selection);
            let waiting_for = operator.patience.waiting_for.subscribe();
            let (slot, startup) = ServerSlot::starting(operator.corporation_id, waiting_for, &selection)?;
            let boot = boot_behind(Operator::boot(operator, config.key), selection, startup);
            let boot = AbortOnDropHandle::new(tokio::spawn(boot));
            serve_stdio(stop, &mut hang_ups, slot, boot).await
        }
        TransportConfig::Http(http) => {
            // The port is taken before the boot, so that a wrong port fails at once and not after a minute.
            let HttpTransportConfig { bind, port, principals, oauth, peers, allowed_hosts, sessions, listener: front } =
                *http;
            let has_other_jwts = oauth.is_some();
            let peers =
                peers.map(|peers| PeerVerifier::new(peers, Arc::clone(&principals), !has_other_jwts)).transpose()?;
            let oauth = oauth.map(|oauth| OauthVerifier::new(oauth, Arc::clone(&principals))).transpose()?;
            let address = SocketAddr::new(bind, port);
            let listener = bind_listener(address).with_context(|| format!("cannot listen on {address}"))?;
            front.warn_of_clear_text(address);
            let _metrics = front.start_metrics()?;
            let responder = {
                let waiting_for = config.operator.patience.waiting_for.subscribe();
                let missing = move || waiting_for.borrow().as_ref().map(name_of_missing);
                StartupResponder::start("mcp", listener.try_clone()?, &front, missing, |routes| routes)?
            };
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
            let http = HttpServerConfig { principals, oauth, peers, allowed_hosts, sessions, listener: front.clone() };
            let http = HttpServer::start(listener, Arc::clone(&server), http)?;
            tracing::info!(address = %http.address, "serving MCP over HTTP");
            serve_until_stopped(stop, &mut hang_ups, &operator, &server, http, &front).await
        }
    }
}

fn name_of_missing(missing: &MissingServer) -> &'static str {
    if missing.subject == BootSubject::Indexer { "indexer" } else { "node" }
}

/// Boots the operator behind sessions that are served already, and publishes the outcome to them.
async fn boot_behind(
    boot: impl Future<Output = Result<Operator, BootError>>,
    selection: ToolSelection,
    startup: StartupPublisher,
) {
    let booted = boot.await.map_err(named_boot_error);
    let server = booted.and_then(|operator| Ok(ToolServer::start(operator, &selection)?));
    startup.publish(match server {
        Ok(server) => Startup::Ready(server),
        Err(error) => {
            tracing::error!(
                error = format!("{error:#}"),
                "the operator cannot start; every call is answered with this error"
            );
            let hint = "correct the setting and start the server again; `svc check` tests every setting";
            let error = ErrorEnvelope::new(FailureCode::NotReady, format!("{error:#}"), hint);
            Startup::Failed(error.not_retryable())
        }
    });
}

/// Serves one host on standard input and output, from before the chain is known until the host closes, and drains. Fails when the
/// operator could not start, or has given up.
async fn serve_stdio<S: Future<Output = ()>>(
    stop: Pin<&mut S>,
    hang_ups: &mut Signal,
    slot: ServerSlot,
    boot: AbortOnDropHandle<()>,
) -> anyhow::Result<()> {
    let served = serve_host(stop, hang_ups, &slot).await;
    drop(boot);
    match slot.server() {
        Ok(server) => {
            server.drain();
            server.operator().shutdown(DRAIN_TIMEOUT).await;
        }
        Err(error) if !error.retryable => bail!("{}", error.message),
        Err(_) => {}
    }
    served
}

/// Serves until the host closes, a stop signal comes or the operator gives up.
async fn serve_host<S: Future<Output = ()>>(
    mut stop: Pin<&mut S>,
    hang_ups: &mut Signal,
    slot: &ServerSlot,
) -> anyhow::Result<()> {
    let running = tokio::select! {
        initialized = McpSession::new(slot.clone()).serve(rmcp::transport::stdio()) => match initialized {
            Ok(running) => running,
            // The library's own words are the names of its types.
            Err(_) => bail!("the host has closed standard input, or did not begin with initialize"),
        },
        () = &mut stop => return Ok(()),
    };
    let operator = async || match slot.outcome().await {
        Ok(server) => server.operator().clone(),
        Err(_) => std::future::pending().await,
    };
    tokio::select! {
        ended = running.waiting() => { ended?; }
        () = &mut stop => {}
        () = async { reread_files(hang_ups, &operator().await, None).await } => {}
        reason = async { operator().await.supervisor().wait_until_ended().await } => {
            bail!("the operator has given up: {reason}");
        }
    }
    Ok(())
}

/// Waits for the stop signal or the end of the operator, then drains.
async fn serve_until_stopped<S: Future<Output = ()>>(
    stop: Pin<&mut S>,
    hang_ups: &mut Signal,
    operator: &Operator,
    server: &ToolServer,
    http: HttpServer,
    front: &ListenerConfig,
) -> anyhow::Result<()> {
    let end_reason = tokio::select! {
        () = stop => None,
        reason = operator.supervisor().wait_until_ended() => Some(reason),
        () = reread_files(hang_ups, operator, Some(front)) => None,
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

/// At each SIGHUP: continues the audit in a new file, after the old one was moved away, and reads certificate and key again.
async fn reread_files(hang_ups: &mut Signal, operator: &Operator, front: Option<&ListenerConfig>) {
    while hang_ups.recv().await.is_some() {
        operator.audit().rotate();
        if let Some(front) = front {
            front.reload_tls();
        }
    }
    std::future::pending().await
}
