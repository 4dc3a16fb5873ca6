//! The client of the peer flow: trust, request, call.

use std::time::Duration;

use serde_json::json;
use svc_net::host_policy::HostPolicy;
use svc_otel::{metrics, trace};
use svc_wire::{endpoint_access::Material, secret::SecretString, verification_method::did_of_url};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use crate::{
    agent_api::{AgentApi, AgentApiError},
    call::{CALL_TIMEOUT, CallAnswer, CallFault, CallProof, EndpointCaller, EndpointProtocol, PeerCall},
    error::{PeerError, PeerFailure, PeerStep},
    json_member::take_text,
    material::{AccessMaterial, MaterialKind},
    resolution::{PeerEndpoint, PeerResolution},
};

/// Waits that the own agent takes.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// Time between the end of the agent's wait and that of the caller's.
const ANSWER_MARGIN: Duration = Duration::from_millis(500);
const NO_ANSWER_HINT: &str = "the peer may be slow, not see this agent as trusted, or not know endpoint-access, as agents of the first \
                              generation: an endpoint that needs no material can be called with --no-session";

/// A request for access to an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessQuestion {
    /// DID URL of the endpoint.
    pub endpoint: String,
    /// The scopes; those of the endpoint by default.
    pub scopes: Option<Vec<String>>,
    /// The materials that the caller can use; all by default.
    pub accept: Option<Vec<Material>>,
    /// Id of a request whose material the endpoint has refused.
    pub replaces: Option<String>,
    /// Longest wait of the own agent for the peer's answer, 1 s to 120 s; its ENDPOINT_ACCESS_TIMEOUT_MS by default.
    pub timeout: Option<Duration>,
}

/// Options of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// The scopes; those of the endpoint by default.
    pub scopes: Option<Vec<String>>,
    /// Whether the peer is not asked for access, and its endpoint is called plainly.
    pub without_session: bool,
    /// Longest time of the request for access and the call together. By default the request takes as long as the own agent waits, and the
    /// call two minutes.
    pub timeout: Option<Duration>,
}

/// Resolves peers, obtains access to their endpoints through the own agent, and calls them.
pub struct PeerClient {
    agent: AgentApi,
    caller: EndpointCaller,
}

impl PeerClient {
    /// Makes a client over the admin API of the own agent. `hosts` are those that endpoints may be at.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn new(agent: AgentApi, hosts: HostPolicy) -> Result<Self, PeerError> {
        Ok(Self { agent, caller: EndpointCaller::new(hosts)? })
    }

    /// The admin API of the own agent.
    pub fn agent(&self) -> &AgentApi {
        &self.agent
    }

    /// Decides about a DID: step 1. An answer that it is not trusted is no error.
    ///
    /// # Errors
    /// When nothing can be decided.
    pub async fn trust(&self, did: &str) -> Result<PeerResolution, PeerError> {
        let answer = self.agent.post_json("/v2/vt/peer-resolutions", &json!({"did": did})).await;
        let answer = answer.map_err(|error| agent_failed(PeerStep::Trust, error))?;
        serde_json::from_value(answer).map_err(|_| other_version(PeerStep::Trust))
    }

    /// The endpoint of a trusted peer with a DID URL: step 1 of a call.
    ///
    /// # Errors
    /// When the DID is not trusted, its document cannot be had, or has no such endpoint.
    pub async fn find_endpoint(&self, id: &str) -> Result<PeerEndpoint, PeerError> {
        let failed = |failure, code, message: String, hint: String| {
            Err(PeerError::new((PeerStep::Trust, failure), code, message, hint))
        };
        let did = did_of_url(id);
        let peer = self.trust(did).await?;
        if !peer.trusted {
            let reasons: Vec<String> =
                peer.reasons.iter().map(|one| format!("{}: {}", one.code, one.message)).collect();
            let message = format!("{did} is not trusted: {}", reasons.join("; "));
            return failed(
                PeerFailure::NotTrusted,
                "NOT_TRUSTED",
                message,
                format!("`svc peer trust {did}` shows all"),
            );
        }
        if let Some(problem) = &peer.document_problem {
            let message = format!("the document of {did} cannot be had: {problem}");
            return failed(PeerFailure::Unreachable, "NO_DOCUMENT", message, "try again later".to_owned());
        }
        if let Some(found) = peer.endpoints.iter().find(|endpoint| endpoint.id == id) {
            return Ok(found.clone());
        }
        let known: Vec<&str> = peer.endpoints.iter().map(|endpoint| endpoint.id.as_str()).collect();
        let hint = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
        failed(PeerFailure::Usage, "UNKNOWN_ENDPOINT", format!("{did} has no endpoint {id:?}"), hint)
    }

    /// Obtains the material of an endpoint: steps 1 and 2, by the own agent.
    ///
    /// # Errors
    /// With the reason of the own agent, or of the peer.
    pub async fn request(&self, question: &AccessQuestion) -> Result<AccessMaterial, PeerError> {
        let mut body = json!({"endpoint": question.endpoint});
        if let Some(scopes) = &question.scopes {
            body["scopes"] = json!(scopes);
        }
        if let Some(accept) = &question.accept {
            body["accept"] = accept.iter().map(|one| one.as_str()).collect();
        }
        if let Some(replaces) = &question.replaces {
            body["replaces"] = json!(replaces);
        }
        if let Some(timeout) = question.timeout {
            let millis = timeout.clamp(SHORTEST_WAIT, LONGEST_WAIT).as_millis();
            body["timeoutMs"] = json!(u64::try_from(millis).unwrap_or_default());
        }
        let answer = self.agent.post_json("/v2/vt/access-requests", &body).await;
        let answer = answer.map_err(|error| agent_failed(PeerStep::Request, error))?;
        AccessMaterial::from_json(answer).ok_or_else(|| other_version(PeerStep::Request))
    }

    /// Calls an endpoint: step 3, with step 2 before it. After a 401 the peer is asked for other material once.
    ///
    /// # Errors
    /// With the step that failed.
    pub async fn call(
        &self,
        endpoint: &PeerEndpoint,
        call: &PeerCall,
        options: &CallOptions,
    ) -> Result<CallAnswer, PeerError> {
        let protocol = call.protocol();
        let (started, span) = (Instant::now(), trace::call_peer_span(protocol.as_str()));
        let called = self.call_in_span(endpoint, call, options).instrument(span.clone()).await;
        let outcome = match &called {
            Ok(_) => "ok",
            Err(error) => error.step.as_str(),
        };
        trace::record_peer_outcome(&span, outcome);
        metrics::record_peer_call(protocol.as_str(), outcome, started.elapsed());
        called
    }

    async fn call_in_span(
        &self,
        endpoint: &PeerEndpoint,
        call: &PeerCall,
        options: &CallOptions,
    ) -> Result<CallAnswer, PeerError> {
        if EndpointProtocol::of_type(&endpoint.kind) != Some(call.protocol()) {
            return Err(not_spoken(endpoint));
        }
        let deadline = options.timeout.map(|timeout| Instant::now() + timeout);
        if options.without_session {
            let url = endpoint.url.as_deref().ok_or_else(|| without_url(endpoint))?;
            let called = self.caller.call(url, &CallProof::None, call, options.timeout.unwrap_or(CALL_TIMEOUT)).await;
            return called.map_err(CallFault::into_error);
        }
        let mut question = AccessQuestion {
            endpoint: endpoint.id.clone(),
            scopes: options.scopes.clone(),
            ..AccessQuestion::default()
        };
        let material = self.request_until(&mut question, deadline).await?;
        let end_of_call = deadline.unwrap_or_else(|| Instant::now() + CALL_TIMEOUT);
        match self.call_with(&material, call, end_of_call).await {
            Err(CallFault::Unauthorized) => {}
            called => return called.map_err(CallFault::into_error),
        }
        question.replaces = Some(material.request_id);
        let renewed = self.request_until(&mut question, deadline).await?;
        self.call_with(&renewed, call, end_of_call).await.map_err(CallFault::into_error)
    }

    /// Obtains material, until a deadline at the latest.
    async fn request_until(
        &self,
        question: &mut AccessQuestion,
        deadline: Option<Instant>,
    ) -> Result<AccessMaterial, PeerError> {
        let Some(deadline) = deadline else { return self.request(question).await };
        let left = deadline.saturating_duration_since(Instant::now());
        // The agent's answer, which names the reason, arrives before the deadline.
        question.timeout = Some(left.saturating_sub(ANSWER_MARGIN));
        timeout_at(deadline, self.request(question))
            .await
            .unwrap_or_else(|_| Err(no_access_in_time(&question.endpoint)))
    }

    /// Calls an endpoint with material that was granted for it.
    async fn call_with(
        &self,
        material: &AccessMaterial,
        call: &PeerCall,
        end: Instant,
    ) -> Result<CallAnswer, CallFault> {
        let proof = match &material.secret {
            MaterialKind::None => CallProof::None,
            MaterialKind::Bearer(token) => CallProof::Bearer(SecretString::new(token.expose_secret().to_owned())),
            MaterialKind::Key(name, value) => {
                CallProof::Header(name.clone(), SecretString::new(value.expose_secret().to_owned()))
            }
            MaterialKind::Credential { .. } => {
                let presented = timeout_at(end, self.present(material)).await;
                CallProof::Bearer(presented.unwrap_or_else(|_| Err(no_access_in_time(&material.url)))?)
            }
        };
        self.caller.call(&material.url, &proof, call, end.saturating_duration_since(Instant::now())).await
    }

    /// A presentation of an own credential to the endpoint of a grant.
    async fn present(&self, material: &AccessMaterial) -> Result<SecretString, PeerError> {
        let body = json!({"requestId": material.request_id});
        let answer = self.agent.post_json("/v2/vt/access-presentations", &body).await;
        let mut answer = answer.map_err(|error| agent_failed(PeerStep::Request, error))?;
        match (answer["url"] == material.url.as_str(), take_text(&mut answer, "presentation")) {
            (true, Some(presentation)) => Ok(SecretString::new(presentation)),
            _ => Err(other_version(PeerStep::Request)),
        }
    }
}

/// The failure of a call of an endpoint whose type has another protocol, or none that this client speaks.
pub fn not_spoken(endpoint: &PeerEndpoint) -> PeerError {
    let (kind, url) = (&endpoint.kind, endpoint.url.as_deref().unwrap_or("no URL"));
    let message = format!(
        "{} is of type {kind:?} at {url}, and requires: {}; this client speaks MCP, A2A and Website",
        endpoint.id,
        endpoint.requirement()
    );
    let hint = "POST /v2/vt/access-requests of your agent obtains the material for a client of its own";
    PeerError::new((PeerStep::Call, PeerFailure::NotSpoken), "NOT_SPOKEN", message, hint)
}

fn no_access_in_time(endpoint: &str) -> PeerError {
    let message = format!("no access to {endpoint} in time");
    PeerError::new((PeerStep::Request, PeerFailure::Unreachable), "TIMEOUT", message, NO_ANSWER_HINT)
}

fn without_url(endpoint: &PeerEndpoint) -> PeerError {
    let message = format!("{} has no URL in the document", endpoint.id);
    PeerError::new((PeerStep::Trust, PeerFailure::Usage), "NO_URL", message, "only its operator can add one")
}

fn other_version(step: PeerStep) -> PeerError {
    let hint = "agent and client should be of the same version";
    let message = "the own agent answers in another form";
    PeerError::new((step, PeerFailure::Other), "AGENT_ANSWER", message, hint)
}

/// The failure of a request to the own agent.
pub fn agent_failed(step: PeerStep, error: AgentApiError) -> PeerError {
    let text = error.to_string();
    let AgentApiError::Refused { status, code, message, details, retry_after } = error else {
        let failure = match error {
            AgentApiError::Unreachable { .. } => PeerFailure::Unreachable,
            _ => PeerFailure::Other,
        };
        let hint = "SVC_PEER_AGENT names the admin API of your agent";
        return PeerError::new((step, failure), "AGENT_UNREACHABLE", text, hint);
    };
    let denial = details["code"].as_str().unwrap_or_default().to_owned();
    let (failure, hint): (PeerFailure, &str) = match (code.as_str(), status) {
        ("PEER_NOT_AUTHORIZED", _) => (PeerFailure::NotTrusted, "`svc peer trust DID` shows the reasons"),
        ("RESOLVER_UNAVAILABLE", _) => (PeerFailure::VerdictUnknown, "try again later"),
        ("ACCESS_DENIED", _) => (PeerFailure::Denied, hint_of_denial(&denial)),
        ("PEER_UNREACHABLE", _) => (
            PeerFailure::Unreachable,
            "try again later; an endpoint that needs no material can be called with --no-session",
        ),
        ("PEER_UNANSWERED", _) => (PeerFailure::Unreachable, NO_ANSWER_HINT),
        ("UNKNOWN_ID", 404) if step == PeerStep::Request => {
            (PeerFailure::Usage, "`svc peer trust DID` lists the endpoints")
        }
        ("INVALID_INPUT", 400) => (PeerFailure::Usage, "see the message for what is allowed"),
        (_, 401 | 403) => (PeerFailure::Other, "the agent must trust the address of the caller: use its local socket"),
        ("NOT_READY", _) => (PeerFailure::Other, "try again when the own agent is ready: `svc agent check`"),
        _ => (PeerFailure::Other, "see the message"),
    };
    let retry_after = details["retryAfter"].as_u64().or(retry_after);
    let code = if failure == PeerFailure::Denied && !denial.is_empty() { denial } else { code };
    PeerError { details: Box::new(details), retry_after, ..PeerError::new((step, failure), &code, message, hint) }
}

fn hint_of_denial(code: &str) -> &'static str {
    match code {
        "not_trusted" => "the peer does not see this agent as a verifiable service: `svc agent init` shows the steps",
        "unknown_endpoint" => "`svc peer trust DID` lists the endpoints",
        "not_allowed" => "the operator of the peer must name the DID of this agent for the endpoint",
        "scope_refused" => "ask for fewer scopes with --scopes, or for none",
        "material_unsupported" => "the endpoint needs material that was not accepted",
        "rate_limited" | "unavailable" => "try again after the seconds that the peer names",
        _ => "the versions of both agents may differ",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[tokio::test]
    async fn a_peer_that_never_answers_takes_no_longer_than_the_whole_call_may() {
        let (told, mut waits) = tokio::sync::mpsc::unbounded_channel();
        let route = axum::routing::post(move |axum::Json(body): axum::Json<Value>| {
            let told = told.clone();
            async move {
                told.send(body["timeoutMs"].as_u64()).expect("the test waits");
                std::future::pending::<()>().await;
            }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let router = axum::Router::new().route("/v2/vt/access-requests", route);
        tokio::spawn(async move { axum::serve(listener, router).await });
        let agent = AgentApi::new(format!("http://{address}").parse().expect("an origin"), "SVC_PEER_AGENT");
        let client = PeerClient::new(agent.expect("a client"), HostPolicy::default()).expect("a client");
        let endpoint: PeerEndpoint = serde_json::from_value(json!({
            "id": "did:web:peer.example#mcp", "type": "MCP", "url": "https://peer.example/mcp", "material": null,
            "scopes": [], "defaultScopes": [], "schemaId": null, "issuer": null,
        }))
        .expect("an endpoint");
        let options = CallOptions { timeout: Some(Duration::from_millis(1_800)), ..CallOptions::default() };
        let refused = client.call(&endpoint, &PeerCall::ListTools, &options).await.expect_err("no answer");
        assert_eq!(
            (refused.step, refused.failure, refused.code.as_str()),
            (PeerStep::Request, PeerFailure::Unreachable, "TIMEOUT")
        );
        assert!(refused.hint.contains("--no-session") && refused.message.contains("did:web:peer.example#mcp"));
        let wait = waits.recv().await.flatten().expect("the agent is told how long it may wait");
        assert!((1_000..=1_300).contains(&wait), "{wait}");
    }

    #[test]
    fn refusals_of_the_agent_are_failures_with_a_way_on() {
        let refused = |code: &str, status: u16, details: Value| AgentApiError::Refused {
            status,
            code: code.to_owned(),
            message: "words".to_owned(),
            details,
            retry_after: None,
        };
        let denied = |code: &str| json!({"code": code, "retryAfter": 7});
        for (code, status, details, expected, shown) in [
            ("PEER_NOT_AUTHORIZED", 409, json!(null), PeerFailure::NotTrusted, "PEER_NOT_AUTHORIZED"),
            ("RESOLVER_UNAVAILABLE", 503, json!(null), PeerFailure::VerdictUnknown, "RESOLVER_UNAVAILABLE"),
            ("ACCESS_DENIED", 409, denied("rate_limited"), PeerFailure::Denied, "rate_limited"),
            ("PEER_UNREACHABLE", 502, json!(null), PeerFailure::Unreachable, "PEER_UNREACHABLE"),
            ("PEER_UNANSWERED", 504, json!(null), PeerFailure::Unreachable, "PEER_UNANSWERED"),
            ("UNKNOWN_ID", 404, json!(null), PeerFailure::Usage, "UNKNOWN_ID"),
            ("INVALID_INPUT", 400, json!(null), PeerFailure::Usage, "INVALID_INPUT"),
            ("NOT_READY", 503, json!(null), PeerFailure::Other, "NOT_READY"),
            ("FORBIDDEN", 403, json!(null), PeerFailure::Other, "FORBIDDEN"),
            ("INVALID_STATE", 409, json!(null), PeerFailure::Other, "INVALID_STATE"),
        ] {
            let error = agent_failed(PeerStep::Request, refused(code, status, details));
            assert_eq!((error.failure, error.code.as_str()), (expected, shown), "{code}");
            assert!(!error.hint.is_empty() && error.to_json()["error"]["stage"] == "request", "{code}");
        }
        let limited = agent_failed(PeerStep::Request, refused("ACCESS_DENIED", 409, denied("rate_limited")));
        assert_eq!((limited.retry_after, limited.is_retryable()), (Some(7), true));
    }
}
