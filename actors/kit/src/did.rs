//! DID Documents, fetched and checked.

use std::{sync::Arc, time::Duration};

use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::hosts::{HostError, HostPolicy};

/// A DID that could not be resolved. Each says which step failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DidError {
    /// Not a DID.
    #[error("{0:?} is not a DID")]
    Syntax(String),
    /// A method this resolver does not speak.
    #[error("DID method {method:?} is not supported; supported: {}", METHODS.join(", "))]
    Method {
        /// The method.
        method: String,
    },
    /// The document's host must not be contacted.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The document could not be fetched.
    #[error("{url} could not be fetched: {reason}")]
    Fetch {
        /// Where it should be.
        url: String,
        /// What the connection or the server says.
        reason: String,
    },
    /// What was fetched is not the DID's document.
    #[error("{url} is not the DID Document of {did}: {reason}")]
    Document {
        /// The DID.
        did: String,
        /// Where it was fetched.
        url: String,
        /// What is wrong.
        reason: String,
    },
}

/// Methods that can be resolved.
pub const METHODS: [&str; 1] = ["did:web"];

/// The HTTP client of a resolver could not be made.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct DidClientError(#[from] reqwest::Error);

/// Resolves DIDs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct DidResolver(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    policy: HostPolicy,
    client: reqwest::Client,
}

/// Time for the whole fetch, and the longest document.
const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;

impl DidResolver {
    /// A resolver that contacts hosts under `policy`.
    pub fn new(policy: HostPolicy) -> Result<Self, DidClientError> {
        let client = policy.client().timeout(TIMEOUT).build()?;
        Ok(Self(Arc::new(Inner { policy, client })))
    }

    /// Hosts it may contact.
    pub fn policy(&self) -> HostPolicy {
        self.0.policy
    }

    /// The DID's current document.
    pub async fn resolve(&self, did: &str) -> Result<Value, DidError> {
        let bare = did.split(['#', '?']).next().unwrap_or(did);
        let syntax = || DidError::Syntax(did.to_owned());
        let (method, id) = bare.strip_prefix("did:").and_then(|rest| rest.split_once(':')).ok_or_else(syntax)?;
        if method != "web" {
            return Err(DidError::Method { method: format!("did:{method}") });
        }
        let url = self.web_url(id).ok_or_else(syntax)?;
        self.0.policy.check(&url)?;
        let body = self.fetch(&url).await?;
        let wrong = |reason: String| DidError::Document { did: bare.to_owned(), url: url.clone(), reason };
        let document: Value = serde_json::from_slice(&body).map_err(|error| wrong(error.to_string()))?;
        match document["id"].as_str() {
            Some(id) if id == bare => Ok(document),
            found => {
                Err(wrong(format!("its id is {}", found.map_or_else(|| "missing".to_owned(), |id| format!("{id:?}")))))
            }
        }
    }

    /// Where a `did:web` document is: colons are slashes, `%3A` is the colon before a port.
    fn web_url(&self, id: &str) -> Option<String> {
        let mut segments = id.split(':');
        let host = percent_decode_str(segments.next().filter(|host| !host.is_empty())?).decode_utf8().ok()?;
        let path: Vec<&str> = segments.collect();
        if path.iter().any(|segment| segment.is_empty()) || host.contains(['/', '@', '?', '#', '\\']) {
            return None;
        }
        let path = if path.is_empty() { ".well-known".to_owned() } else { path.join("/") };
        let name = host.rsplit_once(':').map_or(&*host, |(name, _)| name);
        let is_loopback = name == "localhost" || name == "127.0.0.1";
        let scheme = if is_loopback && self.0.policy == HostPolicy::AllowPrivate { "http" } else { "https" };
        Some(format!("{scheme}://{host}/{path}/did.json"))
    }

    async fn fetch(&self, url: &str) -> Result<Vec<u8>, DidError> {
        let failed = |reason: String| DidError::Fetch { url: url.to_owned(), reason };
        let innermost = |error: reqwest::Error| failed(crate::upstream::innermost(&error));
        let mut response = self.0.client.get(url).send().await.map_err(innermost)?;
        if !response.status().is_success() {
            return Err(failed(format!("HTTP status {}", response.status().as_u16())));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(innermost)? {
            if body.len() + chunk.len() > MAX_DOCUMENT_BYTES {
                return Err(failed(format!("it is longer than {MAX_DOCUMENT_BYTES} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// The first service of a type in a DID Document, as an origin: `scheme://host[:port]` without a path.
pub fn service_origin(document: &Value, kind: &str) -> Option<String> {
    let is_kind = |service: &&Value| match &service["type"] {
        Value::String(one) => one == kind,
        Value::Array(several) => several.iter().any(|one| one == kind),
        _ => false,
    };
    let service = document["service"].as_array()?.iter().find(is_kind)?;
    let text = service["serviceEndpoint"].as_str()?;
    let url = url::Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())?;
    Some(url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_did_web_says_where_its_document_is() {
        let (public, development) = (HostPolicy::PublicOnly, HostPolicy::AllowPrivate);
        for (policy, id, url) in [
            (public, "example.org", Some("https://example.org/.well-known/did.json")),
            (public, "example.org%3A8443", Some("https://example.org:8443/.well-known/did.json")),
            (public, "example.org:user:alice", Some("https://example.org/user/alice/did.json")),
            (public, "localhost%3A80", Some("https://localhost:80/.well-known/did.json")),
            (development, "localhost%3A80", Some("http://localhost:80/.well-known/did.json")),
            (development, "example.org", Some("https://example.org/.well-known/did.json")),
            (public, "", None),
            (public, "example.org::x", None),
            (public, "user%40example.org", None),
            (public, "example.org%2Fx", None),
        ] {
            let resolver = DidResolver::new(policy).expect("a client");
            assert_eq!(resolver.web_url(id).as_deref(), url, "{id}");
        }
    }

    #[tokio::test]
    async fn what_cannot_be_resolved_says_which_step_failed() {
        let resolver = DidResolver::new(HostPolicy::PublicOnly).expect("a client");
        for (did, expected) in [
            ("web:x", "is not a DID"),
            ("did:example:1", "method \"did:example\" is not supported"),
            ("did:web:127.0.0.1", "not a public address"),
            ("did:web:10.0.0.1%3A80", "not a public address"),
            ("did:web:[::1]", "is not a DID"),
        ] {
            let error = resolver.resolve(did).await.expect_err("refused").to_string();
            assert!(error.contains(expected), "{did}: {error}");
        }
    }

    #[test]
    fn a_service_is_found_by_its_type_alone() {
        let document = json!({"service": [
            {"id": "#a", "type": "LinkedDomains", "serviceEndpoint": "https://example.org"},
            {"id": "#b", "type": ["X", "VsAgentAdminAPI"], "serviceEndpoint": "https://agent.example.org:3000/"},
            {"id": "#c", "type": "Odd", "serviceEndpoint": {"uri": "https://example.org"}},
        ]});
        let found = service_origin(&document, "VsAgentAdminAPI");
        assert_eq!(found.as_deref(), Some("https://agent.example.org:3000"));
        assert_eq!(service_origin(&document, "Odd"), None);
        assert_eq!(service_origin(&json!({}), "Odd"), None);
    }
}
