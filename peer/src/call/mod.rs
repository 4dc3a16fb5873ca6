//! Calls of endpoints in their own protocols.
//!
//! The owner of an endpoint chose its URL, and its server every byte of the answer. A host is checked before anything is sent, redirects are
//! not followed, the secret goes to the origin of the entry alone, and the answer is bounded in bytes and time.

mod a2a;
mod http_call;
mod mcp;
mod website;

use std::time::Duration;

use http::{HeaderName, HeaderValue, header};
use serde_json::{Map, Value, json};
use svc_net::host_policy::HostPolicy;
use svc_wire::secret::SecretString;
use tokio::time::timeout;
use url::Url;

pub(crate) use self::http_call::HttpCaller;
use crate::error::{PeerError, PeerFailure, PeerStep};

/// Longest call by default, with everything that it needs.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// A protocol that this client speaks, by the type of a service entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointProtocol {
    /// MCP over streamable HTTP, in both of its generations.
    Mcp,
    /// A2A over JSON-RPC, 1.0 and 0.3, as the Agent Card says.
    A2a,
    /// A GET of a page.
    Website,
}

impl EndpointProtocol {
    /// Every protocol.
    pub const ALL: [Self; 3] = [Self::Mcp, Self::A2a, Self::Website];

    /// The type of the entries that are called so.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mcp => "MCP",
            Self::A2a => "A2A",
            Self::Website => "Website",
        }
    }

    /// The protocol of a type.
    pub fn of_type(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str().eq_ignore_ascii_case(kind))
    }
}

/// A call of an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub enum PeerCall {
    /// The tools of an MCP server.
    ListTools,
    /// A tool of an MCP server.
    Tool {
        /// Its name.
        name: String,
        /// Its arguments.
        arguments: Map<String, Value>,
    },
    /// A text for an A2A agent.
    Text(String),
    /// A page of a website, by its path below the URL of the entry; empty for that URL itself.
    Page(String),
}

impl PeerCall {
    /// The protocol that has this call.
    pub fn protocol(&self) -> EndpointProtocol {
        match self {
            Self::ListTools | Self::Tool { .. } => EndpointProtocol::Mcp,
            Self::Text(_) => EndpointProtocol::A2a,
            Self::Page(_) => EndpointProtocol::Website,
        }
    }
}

/// The answer of an endpoint. Its texts are those of a stranger.
#[derive(Debug, Clone, PartialEq)]
pub struct CallAnswer {
    /// The whole answer.
    pub content: Value,
    /// Its text for a person.
    pub text: String,
}

/// The header by which a call proves its right.
#[derive(Default)]
pub(crate) enum CallProof {
    #[default]
    None,
    Bearer(SecretString),
    Header(String, SecretString),
}

impl CallProof {
    /// The header, which no log shows; none where nothing is needed.
    fn header(&self) -> Result<Option<(HeaderName, HeaderValue)>, PeerError> {
        let unusable = || {
            let hint = "ask the operator of the endpoint";
            let message = "the material of the endpoint has characters that no header can have";
            failed(PeerFailure::Refused, "UNUSABLE_MATERIAL", message, hint)
        };
        let (name, text) = match self {
            Self::None => return Ok(None),
            Self::Bearer(token) => {
                (header::AUTHORIZATION, SecretString::new(format!("Bearer {}", token.expose_secret())))
            }
            Self::Header(name, value) => {
                (name.parse().map_err(|_| unusable())?, SecretString::new(value.expose_secret().to_owned()))
            }
        };
        let mut value = HeaderValue::from_str(text.expose_secret()).map_err(|_| unusable())?;
        value.set_sensitive(true);
        Ok(Some((name, value)))
    }
}

/// A call that has failed.
#[derive(Debug)]
pub(crate) enum CallFault {
    /// The endpoint has not accepted the proof (401).
    Unauthorized,
    /// Anything else.
    Failed(PeerError),
}

impl From<PeerError> for CallFault {
    fn from(error: PeerError) -> Self {
        Self::Failed(error)
    }
}

impl CallFault {
    /// The error, where no other material is asked for.
    pub fn into_error(self) -> PeerError {
        match self {
            Self::Failed(error) => error,
            Self::Unauthorized => failed(
                PeerFailure::Refused,
                "UNAUTHENTICATED",
                "the endpoint does not accept the material (HTTP status 401)",
                "its own operator can say why; `svc peer trust DID` shows what it requires",
            ),
        }
    }
}

/// A failure of this step.
pub(crate) fn failed(failure: PeerFailure, code: &str, message: impl Into<String>, hint: &str) -> PeerError {
    PeerError::new((PeerStep::Call, failure), code, message, hint)
}

/// The failure of an answer that is none of the protocol.
fn not_of_protocol(protocol: &str, problem: impl std::fmt::Display) -> CallFault {
    let message = format!("the endpoint does not answer as {protocol}: {problem}");
    let hint = "its document may name a wrong type or URL; its operator can say";
    failed(PeerFailure::Refused, "NOT_OF_PROTOCOL", message, hint).into()
}

/// Calls endpoints.
pub(crate) struct EndpointCaller {
    http: HttpCaller,
}

impl EndpointCaller {
    pub fn new(hosts: HostPolicy) -> Result<Self, PeerError> {
        Ok(Self { http: HttpCaller::new(hosts)? })
    }

    /// Calls an endpoint at its URL.
    pub async fn call(
        &self,
        url: &str,
        proof: &CallProof,
        call: &PeerCall,
        longest: Duration,
    ) -> Result<CallAnswer, CallFault> {
        let url = self.http.check(url)?;
        let called = async {
            match call {
                PeerCall::ListTools => mcp::list_tools(&self.http, &url, proof).await,
                PeerCall::Tool { name, arguments } => mcp::call_tool(&self.http, &url, proof, (name, arguments)).await,
                PeerCall::Text(text) => a2a::send_text(&self.http, &url, proof, text).await,
                PeerCall::Page(path) => website::get_page(&self.http, &url, proof, path).await,
            }
        };
        timeout(longest, called).await.unwrap_or_else(|_| {
            let message = format!("the endpoint has not ended its answer within {} s", longest.as_secs());
            Err(failed(PeerFailure::Unreachable, "TIMEOUT", message, "whether it has acted is unknown").into())
        })
    }
}

/// Whether two URLs have the same scheme, host and port.
fn is_same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

/// Content with one text.
fn answer_of(content: Value, text: String) -> CallAnswer {
    let content = if content.is_null() { json!({}) } else { content };
    CallAnswer { content, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_a_header_that_no_log_shows() {
        let secret = |text: &str| SecretString::new(text.to_owned());
        assert!(CallProof::None.header().expect("usable").is_none());
        let (name, value) = CallProof::Bearer(secret("t")).header().expect("usable").expect("one");
        assert_eq!((name.as_str(), value.as_bytes(), value.is_sensitive()), ("authorization", &b"Bearer t"[..], true));
        let (name, value) = CallProof::Header("X-Api-Key".into(), secret("k")).header().expect("usable").expect("one");
        assert_eq!((name.as_str(), value.as_bytes(), value.is_sensitive()), ("x-api-key", &b"k"[..], true));
        for (name, value) in [("a b", "k"), ("X-Api-Key", "a\nb")] {
            let error = CallProof::Header(name.into(), secret(value)).header().expect_err("unusable");
            assert!(!error.message.contains(value), "{error}");
        }
    }

    #[test]
    fn the_type_of_an_entry_says_its_protocol() {
        for (kind, expected) in [
            ("MCP", Some(EndpointProtocol::Mcp)),
            ("mcp", Some(EndpointProtocol::Mcp)),
            ("A2A", Some(EndpointProtocol::A2a)),
            ("Website", Some(EndpointProtocol::Website)),
            ("LinkedDomains", None),
            ("", None),
        ] {
            assert_eq!(EndpointProtocol::of_type(kind), expected, "{kind}");
        }
    }
}
