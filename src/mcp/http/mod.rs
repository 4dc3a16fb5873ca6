//! The HTTP surface: `/mcp` and `/approvals` behind the bearer token, `/healthz`, `/metrics`, and the metadata of an OAuth resource.

mod admission;
mod approvals;
mod authentication;

use std::{
    net::{IpAddr, SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, State},
    http::{StatusCode, header},
    middleware,
    response::{IntoResponse, Response},
    routing::get,
};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tower_http::catch_panic::CatchPanicLayer;

use super::{
    extension::{McpExtension, NoExtension},
    handler::McpSession,
    server::ToolServer,
    session::{BoundedSessionManager, SessionLimits},
    startup::ServerSlot,
};
use crate::{
    listener::{ListenerConfig, serve},
    principals::{Authenticator, OauthVerifier, PeerVerifier, PrincipalDirectory, TokenVerifier, WrongTokenThrottle},
    status::{HealthStatus, health_response},
};
pub use admission::check_message;
use admission::{HttpAdmission, admit_request};
use authentication::{BearerGuard, authenticate};

/// Longest request body, in bytes.
const MAX_BODY_BYTES: usize = 1024 * 1024;
/// Longest body of a decision, in bytes.
const MAX_DECISION_BYTES: usize = 4 * 1024;
/// Origins of web pages that may call: pages on this machine.
const LOOPBACK_ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

/// The configuration of the listener.
pub struct HttpServerConfig {
    /// The principals with static tokens.
    pub principals: Arc<PrincipalDirectory>,
    /// Verifies access tokens of an OAuth issuer.
    pub oauth: Option<Arc<OauthVerifier>>,
    /// Verifies tokens of peers; `None` while none are accepted.
    pub peers: Option<Arc<PeerVerifier>>,
    /// Host names that clients may use, in addition to the loopback names and the bound address.
    pub allowed_hosts: Vec<String>,
    /// Limits of the sessions.
    pub sessions: SessionLimits,
    /// Limits and encryption of the listener.
    pub listener: ListenerConfig,
}

/// The listener cannot serve.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve HTTP on {address}: {cause}")]
pub struct HttpServerError {
    /// Address of the listener.
    pub address: SocketAddr,
    /// The error of the operating system.
    pub cause: std::io::Error,
}

/// A running HTTP server.
pub struct HttpServer {
    /// Address of the listener.
    pub address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
    /// Watch the file of the principals, and end idle sessions and those of principals and peers that are gone.
    #[expect(dead_code, reason = "held as long as requests are served")]
    helpers: [AbortOnDropHandle<()>; 4],
}

impl HttpServer {
    /// Serves a tool server on a bound listener. Fails when the listener cannot be used.
    pub fn start(
        listener: TcpListener,
        server: Arc<ToolServer>,
        config: HttpServerConfig,
    ) -> Result<Self, HttpServerError> {
        Self::start_extended(listener, server, config, &NoExtension)
    }

    /// Serves a tool server whose sessions another program extends. Fails as [`HttpServer::start`] does.
    pub fn start_extended(
        listener: TcpListener,
        server: Arc<ToolServer>,
        config: HttpServerConfig,
        extension: &impl McpExtension,
    ) -> Result<Self, HttpServerError> {
        let unbound = SocketAddr::from(([0, 0, 0, 0], 0));
        let address = listener.local_addr().map_err(|cause| HttpServerError { address: unbound, cause })?;
        let failed = |cause| HttpServerError { address, cause };
        let stop = CancellationToken::new();
        let sessions = Arc::new(BoundedSessionManager::new(config.sessions));
        let router = router(Arc::clone(&server), &config, (address.ip(), &stop), &sessions, extension);
        let task = serve("mcp", listener, router, &config.listener, stop.clone()).map_err(failed)?;
        let peer_follower = follow_peers(config.peers.clone(), Arc::clone(&sessions));
        let follower = follow_principals(Arc::clone(&config.principals), Arc::clone(&sessions), server);
        let helpers = [
            config.principals.spawn_watch(),
            sessions.spawn_idle_cleanup(),
            AbortOnDropHandle::new(tokio::spawn(follower)),
            AbortOnDropHandle::new(tokio::spawn(peer_follower)),
        ];
        Ok(Self { address, stop, task, helpers })
    }

    /// Accepts no new connection, waits at most `timeout` for running requests, and aborts the rest.
    pub async fn stop(self, timeout: Duration) {
        self.stop.cancel();
        let abort = self.task.abort_handle();
        if tokio::time::timeout(timeout, self.task).await.is_err() {
            abort.abort();
        }
    }
}

/// Ends the sessions of peers whose newest token has ended or was revoked. Each request is verified by itself; streams are not.
async fn follow_peers(peers: Option<Arc<PeerVerifier>>, sessions: Arc<BoundedSessionManager>) {
    let Some(peers) = peers else { return };
    loop {
        tokio::time::sleep(PEER_LOOK).await;
        for owner in sessions.owners(|owner| owner.rights.is_peer) {
            if !peers.is_live(&owner).await {
                sessions.close_sessions_of(|one| one.id == owner.id).await;
            }
        }
    }
}

/// Time between two looks at the sessions of peers.
const PEER_LOOK: Duration = Duration::from_secs(10);

/// Ends the sessions of principals that have lost their rights, and announces that lists of tools may have changed.
async fn follow_principals(
    principals: Arc<PrincipalDirectory>,
    sessions: Arc<BoundedSessionManager>,
    server: Arc<ToolServer>,
) {
    let mut changes = principals.changes();
    while changes.changed().await.is_ok() {
        sessions.close_sessions_of(|owner| !principals.is_current(owner)).await;
        server.announce_rights();
    }
}

fn router(
    server: Arc<ToolServer>,
    config: &HttpServerConfig,
    (bound, stop): (IpAddr, &CancellationToken),
    sessions: &Arc<BoundedSessionManager>,
    extension: &impl McpExtension,
) -> Router {
    let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned(), "::1".to_owned()];
    if !bound.is_unspecified() {
        hosts.push(bound.to_string());
    }
    hosts.extend(config.allowed_hosts.iter().cloned());
    let settings = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .with_allowed_origins(LOOPBACK_ORIGINS)
        .enforce_origin_validation()
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        // The library would begin each stream with an event without data. The session manager sends it to the clients that read it.
        .with_sse_retry(None)
        .with_cancellation_token(stop.child_token());
    let slot = ServerSlot::ready(Arc::clone(&server));
    let session = {
        let extension = extension.clone();
        move || Ok(extension.extend_session(McpSession::new(slot.clone())))
    };
    let service = StreamableHttpService::new(session, Arc::clone(sessions), settings);
    let directory = Arc::clone(&config.principals) as Arc<dyn TokenVerifier>;
    let peers = config.peers.clone().map(|peers| peers as Arc<dyn TokenVerifier>);
    let oauth = config.oauth.clone().map(|oauth| oauth as Arc<dyn TokenVerifier>);
    let guard = BearerGuard {
        authenticator: Authenticator::new([directory].into_iter().chain(peers).chain(oauth)),
        oauth: config.oauth.clone(),
        has_peers: config.peers.is_some(),
        server: Arc::clone(&server),
        throttle: Arc::new(Mutex::new(WrongTokenThrottle::default())),
    };
    let mcp = extension.extend_endpoint(Router::new().route_service("/mcp", service));
    let admission = HttpAdmission { sessions: Arc::clone(sessions), principals: Arc::clone(&config.principals) };
    let mcp = mcp.layer(middleware::from_fn_with_state(admission, admit_request));
    let approvals =
        approvals::routes().layer(DefaultBodyLimit::max(MAX_DECISION_BYTES)).with_state(Arc::clone(&server));
    let guarded = mcp.merge(approvals).layer(middleware::from_fn_with_state(guard, authenticate));
    let status = Router::new().route("/healthz", get(healthz)).with_state(server);
    let public = config.listener.with_metrics(status);
    let public = match &config.oauth {
        None => public,
        Some(oauth) => public.merge(resource_metadata(oauth)),
    };
    public.merge(guarded).layer(CatchPanicLayer::new())
}

/// The metadata of the protected resource, at the path of RFC 9728 and without the path of the resource.
fn resource_metadata(oauth: &Arc<OauthVerifier>) -> Router {
    let oauth = Arc::clone(oauth);
    let answer = async move || Json(oauth.resource_metadata());
    Router::new()
        .route("/.well-known/oauth-protected-resource", get(answer.clone()))
        .route("/.well-known/oauth-protected-resource/{*path}", get(answer))
}

async fn healthz(State(server): State<Arc<ToolServer>>) -> Response {
    let operator = server.operator();
    health_response(match (server.is_draining(), operator.is_healthy()) {
        (true, _) => HealthStatus::Draining,
        (false, true) if operator.is_degraded() => HealthStatus::Degraded,
        (false, true) => HealthStatus::Ok,
        (false, false) => HealthStatus::Restarting,
    })
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
