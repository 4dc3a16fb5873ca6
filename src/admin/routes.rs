//! The routes of the admin API, and the order of its checks: the caller, the login, the path, the method, the body.

use std::{
    net::{IpAddr, Ipv4Addr, TcpListener},
    sync::Arc,
    time::Instant,
};

use axum::{
    Extension, Json, Router,
    extract::{MatchedPath, Request, State},
    http::{Method, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::get,
};
use svc_agent::{AgentPart, Refusal, RefusalCode, TokenCheck};
use svc_net::listener::{ClientConnection, HttpListener};
use svc_otel::{metrics, trace};
use svc_wire::secret::SecretString;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;
use utoipa::openapi::{
    ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder, RefOr, Schema,
    security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    agent_info,
    api::AdminApi,
    caller::{Caller, Peer},
    docs_page::docs_page,
    flows::requests as flows,
    format::answer::{no_store, refuse},
    identity::{credentials, keys, login, service_endpoints, setup},
    peers::{access, conversations, exchanges},
    store::{events, export},
};
use crate::{
    listener::{self, ListenerConfig},
    status::metrics_response,
};

/// Paths of logins, which external callers use without a token in mode corporation.
const LOGIN_PATHS: [&str; 2] = ["/v2/auth/challenge", "/v2/auth/token"];
/// Paths that answer every caller.
const HEALTH_PATHS: [&str; 2] = ["/v2/agent/health/live", "/v2/agent/health/ready"];

/// The routes that are described, and their description.
fn described_routes() -> OpenApiRouter<AdminApi> {
    OpenApiRouter::with_openapi(base_document())
        .routes(routes!(login::challenge))
        .routes(routes!(login::redeem))
        .routes(routes!(agent_info::info))
        .routes(routes!(setup::setup))
        .routes(routes!(agent_info::live))
        .routes(routes!(agent_info::ready))
        .routes(routes!(service_endpoints::list, service_endpoints::add))
        .routes(routes!(service_endpoints::update, service_endpoints::delete))
        .routes(routes!(credentials::list_linked, credentials::import))
        .routes(routes!(credentials::remove))
        .routes(routes!(credentials::list_issued, credentials::issue))
        .routes(routes!(credentials::list_schemas))
        .routes(routes!(keys::rotate))
        .routes(routes!(conversations::list_protocols))
        .routes(routes!(conversations::list_connections, conversations::open_connection))
        .routes(routes!(conversations::get_connection, conversations::delete_connection))
        .routes(routes!(conversations::send_invitation))
        .routes(routes!(conversations::list_basic_messages, conversations::send_basic_message))
        .routes(routes!(exchanges::list_exchanges))
        .routes(routes!(exchanges::get_exchange, exchanges::delete_exchange))
        .routes(routes!(exchanges::accept_offer))
        .routes(routes!(exchanges::accept_request))
        .routes(routes!(exchanges::accept_credential))
        .routes(routes!(exchanges::decline))
        .routes(routes!(exchanges::offer))
        .routes(routes!(flows::list_flows, flows::open_flow))
        .routes(routes!(flows::get_flow))
        .routes(routes!(flows::edit_claims))
        .routes(routes!(flows::send_oob_link))
        .routes(routes!(flows::start_validation))
        .routes(routes!(flows::validate_flow))
        .routes(routes!(flows::reject_flow))
        .routes(routes!(flows::resend_flow))
        .routes(routes!(flows::end_flow))
        .routes(routes!(access::request_access))
        .routes(routes!(access::present_for_access))
        .routes(routes!(access::resolve_peer))
        .routes(routes!(access::list_grants))
        .routes(routes!(access::revoke_grant))
        .routes(routes!(access::void_tokens))
        .routes(routes!(access::rotate_key))
        .routes(routes!(export::export))
        .routes(routes!(events::list_dead_letters))
        .routes(routes!(events::remove_dead_letter))
        .routes(routes!(events::retry_dead_letter))
        .routes(routes!(events::list_gaps))
        .routes(routes!(events::refill_gaps))
}

fn base_document() -> OpenApi {
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A token of /v2/auth/token. Callers of ADMIN_API_TRUSTED_NETWORKS need none."));
    let components = ComponentsBuilder::new().security_scheme("token", SecurityScheme::Http(bearer.build())).build();
    let info = InfoBuilder::new().title("Admin API of a service agent").version(env!("CARGO_PKG_VERSION")).build();
    let requirements = [SecurityRequirement::new("token", Vec::<String>::new()), SecurityRequirement::default()];
    OpenApiBuilder::new().info(info).components(Some(components)).security(Some(requirements)).build()
}

/// The OpenAPI document of the admin API, made of the handlers that the routes lead to.
pub fn openapi() -> OpenApi {
    complete(described_routes().into_openapi())
}

/// Adds the rules that no attribute of a type states.
fn complete(mut document: OpenApi) -> OpenApi {
    let schemas = document.components.as_mut().map(|components| &mut components.schemas);
    if let Some(RefOr::T(Schema::Object(change))) = schemas.and_then(|all| all.get_mut("ServiceEndpointChange")) {
        change.min_properties = Some(1);
    }
    document
}

/// All routes.
pub fn router(api: AdminApi, config: &ListenerConfig) -> Router {
    let (routes, document) = described_routes().split_for_parts();
    // The host of the request is checked with its caller.
    let routes = match config.metrics_bind {
        None => routes.route("/metrics", get(metrics_response)),
        Some(_) => routes,
    };
    let document = Arc::new(complete(document));
    let described = Arc::clone(&document);
    routes
        .route("/openapi.json", get(async move || no_store(Json(&*document).into_response())))
        .route("/docs", get(async move || docs_page(&described)))
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(unknown_path)
        .layer(from_fn_with_state(api.clone(), admit))
        .with_state(api)
}

async fn unknown_path() -> Response {
    refuse(Refusal::new(RefusalCode::UnknownId, "nothing is served at this path"))
}

async fn method_not_allowed(method: Method) -> Response {
    let message = format!("{method} is not a method of this path; the header Allow names them");
    refuse(Refusal::new(RefusalCode::MethodNotAllowed, message))
}

/// Admits a request, or refuses it before anything of it is read.
async fn admit(State(api): State<AdminApi>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let admission = judge_request(&api, &request);
    let connection = request.extensions().get::<ClientConnection>().cloned();
    let (admitted, is_proven) = match admission {
        Ok(Admission::Open(caller)) => (Ok(caller), caller == Caller::Trusted),
        Ok(Admission::WithToken(token)) => {
            let checked = check_token(&api, token).await.map(|()| Caller::External);
            let is_proven = checked.is_ok();
            (checked, is_proven)
        }
        Err(refusal) => (Err(refusal), false),
    };
    if let Some(connection) = connection {
        if is_proven { connection.trust() } else { connection.doubt() }
    }
    let response = match admitted {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            let span = trace::admin_span(request.method().as_str(), &route, request.headers());
            let response = next.run(request).instrument(span.clone()).await;
            trace::record_http_status(&span, response.status().as_u16());
            response
        }
        Err(refusal) => refuse(refusal),
    };
    metrics::record_admin_request(&route, response.status().as_u16(), started.elapsed());
    response
}

/// A request that may be admitted.
enum Admission {
    /// Without a login.
    Open(Caller),
    /// By its bearer token.
    WithToken(SecretString),
}

fn refused(message: &str) -> Refusal {
    Refusal::new(RefusalCode::Forbidden, message)
}

fn needs_token() -> Refusal {
    let message = "a bearer token is needed: get one from /v2/auth/challenge and /v2/auth/token";
    Refusal::new(RefusalCode::Unauthenticated, message)
}

fn judge_request(api: &AdminApi, request: &Request) -> Result<Admission, Refusal> {
    let extensions = request.extensions();
    let connection = extensions.get::<ClientConnection>();
    let address = connection.and_then(ClientConnection::peer).map(|address| Peer::Address(address.ip()));
    // A server that does not state the peer of a connection has no trusted callers.
    let unknown = Peer::Address(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let peer = extensions.get::<Peer>().copied().or(address).unwrap_or(unknown);
    // In the absolute form of a target its host overrides the header.
    let target = request.uri().authority().map(|authority| authority.as_str().to_ascii_lowercase());
    let host = request.headers().get(header::HOST).and_then(|value| value.to_str().ok()).map(str::to_ascii_lowercase);
    if target.is_some() && target != host {
        return Err(refused("the target names another host than the header Host"));
    }
    let path = request.uri().path();
    if HEALTH_PATHS.contains(&path) {
        return Ok(Admission::Open(Caller::External));
    }
    if api.rules.classify(peer, request.headers())? == Caller::Trusted {
        return Ok(Admission::Open(Caller::Trusted));
    }
    if !path.starts_with("/v2/") {
        return Err(refused("this path is for callers of ADMIN_API_TRUSTED_NETWORKS"));
    }
    if api.agent.tokens().is_none() {
        let message = "ADMIN_API_AUTH_MODE is internal: callers outside ADMIN_API_TRUSTED_NETWORKS are not served";
        return Err(refused(message));
    }
    if LOGIN_PATHS.contains(&path) {
        return Ok(Admission::Open(Caller::External));
    }
    let bearer = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token =
        bearer.and_then(|text| text.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let (_, token) = token.ok_or_else(needs_token)?;
    Ok(Admission::WithToken(SecretString::new(token.trim().to_owned())))
}

async fn check_token(api: &AdminApi, token: SecretString) -> Result<(), Refusal> {
    let Some(tokens) = api.agent.tokens() else { return Err(needs_token()) };
    match tokens.check(token).await {
        Ok(TokenCheck::Allowed(account)) => {
            tracing::debug!(account, "a request of an account");
            Ok(())
        }
        Ok(TokenCheck::NotAllowed) => Err(refused("the account is not in ADMIN_API_CORPORATION_ALLOWED_ACCOUNTS")),
        Ok(TokenCheck::Unknown) => Err(needs_token()),
        Err(error) => Err(Refusal::not_ready(AgentPart::Store, format!("logins do not work now: {error}"), 1)),
    }
}

/// Serves the routes on a TCP listener until the API is shut down.
pub async fn serve_address(socket: TcpListener, api: AdminApi, config: ListenerConfig) -> std::io::Result<()> {
    let shutdown = api.shutdown.clone();
    let serving = listener::serve("admin", socket, router(api, &config), &config, shutdown)?;
    AbortOnDropHandle::new(serving).await.map_err(std::io::Error::other)
}

/// Serves the routes on a Unix socket until the API is shut down.
pub async fn serve_socket(socket: tokio::net::UnixListener, api: AdminApi) -> std::io::Result<()> {
    let shutdown = api.shutdown.clone();
    let config = ListenerConfig::default();
    let routes = router(api, &config).layer(Extension(Peer::LocalSocket));
    let listener = HttpListener::unix("admin_socket", socket, config.settings);
    listener::serve_on(listener, routes, shutdown).await;
    Ok(())
}
