//! The listeners of the front ends: binding, limits, encryption, and the checks that precede every route.

pub(crate) mod starting;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
};

use anyhow::Context;
use axum::{
    Router,
    extract::Request,
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use svc_net::listener::{
    ClientConnection, HostRule, HttpListener, ListenerSettings, Refusal, TlsIdentity, TowerService,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::status::metrics_response;

/// The configuration that all listeners of a process share.
#[derive(Debug, Clone, Default)]
pub struct ListenerConfig {
    /// Limits of connections and requests.
    pub settings: ListenerSettings,
    /// Encrypts the connections.
    pub tls: Option<Arc<TlsIdentity>>,
    /// Address of a listener for `/metrics` alone. Without it each listener has the route.
    pub metrics_bind: Option<SocketAddr>,
    /// Host names that requests of `/metrics` may use, in addition to the loopback names and IP addresses.
    pub metrics_hosts: Vec<String>,
}

impl ListenerConfig {
    /// Limits for a network on one machine, whose clients all have one address.
    pub fn for_local_network() -> Self {
        Self { settings: ListenerSettings::for_one_machine(), ..Self::default() }
    }

    /// Adds `/metrics` to the routes of a listener, unless it has a listener of its own.
    pub(crate) fn with_metrics<S: Clone + Send + Sync + 'static>(&self, routes: Router<S>) -> Router<S> {
        if self.metrics_bind.is_some() { routes } else { routes.merge(metrics_routes(self.metrics_hosts.clone())) }
    }

    /// Starts the listener of `/metrics`, when there is one. Fails when its address cannot be used.
    pub fn start_metrics(&self) -> anyhow::Result<Option<AbortOnDropHandle<()>>> {
        let Some(address) = self.metrics_bind else { return Ok(None) };
        let socket = bind_listener(address).with_context(|| format!("SVC_METRICS_BIND: cannot listen on {address}"))?;
        let routes = metrics_routes(self.metrics_hosts.clone());
        let task = serve("metrics", socket, routes, self, CancellationToken::new())?;
        tracing::info!(%address, "serving metrics");
        Ok(Some(AbortOnDropHandle::new(task)))
    }

    /// Reads certificate and key again, after they were replaced. A failure is logged, and the former ones stay in use.
    pub fn reload_tls(&self) {
        match self.tls.as_ref().map(|tls| tls.reload()) {
            None => {}
            Some(Ok(())) => tracing::info!("certificate and key were read again"),
            Some(Err(error)) => tracing::error!(%error, "certificate and key stay as they were"),
        }
    }

    /// Reads certificate and key again at each SIGHUP. Fails when no signal handler can be installed.
    pub fn reload_at_hang_ups(&self) -> anyhow::Result<AbortOnDropHandle<()>> {
        let (mut hang_ups, config) = (signal(SignalKind::hangup())?, self.clone());
        Ok(AbortOnDropHandle::new(tokio::spawn(async move {
            while hang_ups.recv().await.is_some() {
                config.reload_tls();
            }
        })))
    }

    /// Warns when tokens would travel unencrypted beyond this machine.
    pub fn warn_of_clear_text(&self, bound: SocketAddr) {
        if self.tls.is_none() && !bound.ip().is_loopback() {
            tracing::warn!(
                address = %bound,
                "bearer tokens reach this address unencrypted: set SVC_TLS_CERT and SVC_TLS_KEY, or bind a loopback address behind a \
                 proxy that encrypts"
            );
        }
    }
}

/// Connections that the kernel keeps for the accept loop, as far as its own limit allows.
const BACKLOG: i32 = 4_096;

/// Binds a non-blocking listener; needs no tokio runtime. Fails when the address is in use or not available.
pub fn bind_listener(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    // The library's queue of 128 is full in a moment of many connects, and each further client waits a second for its next attempt.
    rustix::net::listen(&listener, BACKLOG)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves routes on a bound socket until `shutdown` is cancelled and the open requests have ended. `name` is the label of the listener in
/// metrics and logs.
///
/// # Errors
/// When the runtime cannot use the socket.
pub fn serve(
    name: &'static str,
    socket: TcpListener,
    routes: Router,
    config: &ListenerConfig,
    shutdown: CancellationToken,
) -> io::Result<JoinHandle<()>> {
    let listener = HttpListener::tcp(name, socket, config.settings.clone())?.with_tls(config.tls.clone());
    Ok(tokio::spawn(serve_on(listener, routes, shutdown)))
}

/// Serves routes on a listener until `shutdown` is cancelled and the open requests have ended.
pub(crate) async fn serve_on(listener: HttpListener, routes: Router, shutdown: CancellationToken) {
    let routes = routes.layer(middleware::from_fn(check_form));
    listener.serve(TowerService::new(routes), shutdown).await;
}

/// Refuses a request that names several hosts or origins: of two readers each could take another one.
async fn check_form(request: Request, next: Next) -> Response {
    match HostRule::check_form(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => {
            record_refusal(&request, Refusal::Host, &refusal.to_string());
            (StatusCode::BAD_REQUEST, refusal.to_string()).into_response()
        }
    }
}

/// Counts a refused request for its listener.
pub(crate) fn record_refusal(request: &Request, refusal: Refusal, detail: &str) {
    if let Some(connection) = request.extensions().get::<ClientConnection>() {
        connection.record_refusal(refusal, detail);
    }
}

/// The route of the metrics. A page of a browser, whose requests name its own host, cannot read them.
fn metrics_routes<S: Clone + Send + Sync + 'static>(hosts: Vec<String>) -> Router<S> {
    let rule = Arc::new(HostRule::new(hosts).with_addresses());
    let handler = async move |request: Request| match rule.check(request.uri(), request.headers()) {
        Ok(()) => metrics_response().await,
        Err(refusal) => {
            record_refusal(&request, Refusal::Host, &refusal.to_string());
            let text = format!("{refusal}; SVC_METRICS_HOSTS names the allowed hosts");
            (StatusCode::FORBIDDEN, text).into_response()
        }
    };
    Router::new().route("/metrics", get(handler))
}
