//! The admin API of the own agent: over its local socket, or at the origin of one that trusts the caller's address.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

use reqwest::{Method, Response};
use serde_json::Value;
use svc_net::client_tls::http_client_builder;
use svc_otel::trace;
use tracing::Span;
use url::Url;

use crate::json_member::{take_member, take_text};

/// Items of a page.
const PAGE: usize = 500;
/// Longest wait for an answer: a request for access waits for the peer for up to two minutes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(150);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The place of an admin API: `unix:PATH`, or an origin such as `http://10.0.0.5:3000`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentAddress {
    /// A local socket.
    Socket(PathBuf),
    /// An HTTP origin.
    Origin(Url),
}

/// A text that is no place of an admin API.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither unix:PATH nor the origin of an admin API, such as http://127.0.0.1:3000")]
pub struct InvalidAgentAddress(String);

impl FromStr for AgentAddress {
    type Err = InvalidAgentAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAgentAddress> {
        let invalid = || InvalidAgentAddress(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(invalid()) } else { Ok(Self::Socket(path.into())) };
        }
        let url = Url::parse(text).map_err(|_| invalid())?;
        let is_origin = matches!(url.scheme(), "http" | "https")
            && url.host().is_some()
            && url.username().is_empty()
            && url.password().is_none()
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none();
        if is_origin { Ok(Self::Origin(url)) } else { Err(invalid()) }
    }
}

impl fmt::Display for AgentAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(formatter, "{}", path.display()),
            Self::Origin(url) => formatter.write_str(url.as_str().trim_end_matches('/')),
        }
    }
}

/// A request that the agent did not fulfil.
#[derive(Debug, thiserror::Error)]
pub enum AgentApiError {
    /// The agent refuses it.
    #[error("{code}: {message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Code of the refusal.
        code: String,
        /// The offending thing and the allowed values.
        message: String,
        /// Details.
        details: Value,
        /// Seconds after which a repetition may succeed.
        retry_after: Option<u64>,
    },
    /// No agent answers.
    #[error("no agent answers at {address}: does it run, {settings}?")]
    Unreachable {
        /// The place.
        address: String,
        /// The settings that name the place.
        settings: &'static str,
        /// The reason.
        #[source]
        source: reqwest::Error,
    },
    /// The answer is none of an admin API.
    #[error("{path} answered {status} without JSON")]
    NoJson {
        /// Path of the request.
        path: String,
        /// HTTP status.
        status: u16,
    },
}

/// A client of an admin API. Clones share their connections.
#[derive(Clone)]
pub struct AgentApi {
    client: reqwest::Client,
    address: AgentAddress,
    settings: &'static str,
}

impl AgentApi {
    /// Makes a client. `settings` are those that name the place, in words that an error shows.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn new(address: AgentAddress, settings: &'static str) -> Result<Self, reqwest::Error> {
        // A redirect could lead the request of a trusted caller elsewhere.
        let builder = http_client_builder().no_proxy().redirect(reqwest::redirect::Policy::none());
        let builder = builder.connect_timeout(CONNECT_TIMEOUT);
        let builder = match &address {
            AgentAddress::Socket(path) => builder.unix_socket(path.as_path()),
            AgentAddress::Origin(_) => builder,
        };
        Ok(Self { client: builder.build()?, address, settings })
    }

    /// Reads a resource.
    pub async fn get(&self, path: &str) -> Result<Value, AgentApiError> {
        self.send(Method::GET, path, None).await
    }

    /// Calls a route without a body.
    pub async fn post(&self, path: &str) -> Result<Value, AgentApiError> {
        self.send(Method::POST, path, None).await
    }

    /// Calls a route.
    pub async fn post_json(&self, path: &str, body: &Value) -> Result<Value, AgentApiError> {
        self.send(Method::POST, path, Some(body)).await
    }

    /// Removes a resource.
    pub async fn delete(&self, path: &str) -> Result<Value, AgentApiError> {
        self.send(Method::DELETE, path, None).await
    }

    /// Begins the download of an answer that is no JSON. It may take as long as it needs.
    pub async fn download(&self, path: &str) -> Result<Response, AgentApiError> {
        let answer = self.request(Method::GET, path, None, None).await?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        Err(read_refusal(path, answer).await)
    }

    /// Reads every item of a list.
    pub async fn all(&self, path: &str) -> Result<Vec<Value>, AgentApiError> {
        self.all_of(path, &[]).await
    }

    /// Reads every item of a list that some parameters select.
    pub async fn all_of(&self, path: &str, filters: &[String]) -> Result<Vec<Value>, AgentApiError> {
        let mut items = Vec::new();
        let mut first = vec![format!("limit={PAGE}")];
        first.extend_from_slice(filters);
        let first = format!("{path}?{}", first.join("&"));
        let mut next = first.clone();
        loop {
            let page = self.get(&next).await?;
            items.extend(page["items"].as_array().into_iter().flatten().cloned());
            let Some(cursor) = page["nextCursor"].as_str() else { return Ok(items) };
            next = format!("{first}&cursor={cursor}");
        }
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, AgentApiError> {
        let answer = self.request(method, path, body, Some(ANSWER_TIMEOUT)).await?;
        if !answer.status().is_success() {
            return Err(read_refusal(path, answer).await);
        }
        let status = answer.status().as_u16();
        // A removal has no content.
        match answer.bytes().await {
            Ok(body) if body.is_empty() => Ok(Value::Object(serde_json::Map::new())),
            Ok(body) => serde_json::from_slice(&body).map_err(|_| no_json(path, status)),
            Err(_) => Err(no_json(path, status)),
        }
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        timeout: Option<Duration>,
    ) -> Result<Response, AgentApiError> {
        let origin = match &self.address {
            AgentAddress::Socket(_) => "http://localhost",
            AgentAddress::Origin(url) => url.as_str().trim_end_matches('/'),
        };
        let mut headers = http::HeaderMap::new();
        trace::inject_context(&Span::current(), &mut headers);
        let mut request = self.client.request(method, format!("{origin}{path}")).headers(headers);
        if let Some(body) = body {
            request = request.json(body);
        }
        if let Some(timeout) = timeout {
            request = request.timeout(timeout);
        }
        request.send().await.map_err(|source| {
            let (address, settings) = (self.address.to_string(), self.settings);
            AgentApiError::Unreachable { address, settings, source }
        })
    }
}

fn no_json(path: &str, status: u16) -> AgentApiError {
    AgentApiError::NoJson { path: path.to_owned(), status }
}

async fn read_refusal(path: &str, answer: Response) -> AgentApiError {
    let status = answer.status().as_u16();
    let header = answer.headers().get(http::header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = header.and_then(|seconds| seconds.parse().ok());
    let Ok(mut body) = answer.json::<Value>().await else { return no_json(path, status) };
    let mut error = take_member(&mut body, "error");
    let mut text = |name: &str| take_text(&mut error, name).unwrap_or_default();
    let (code, message) = (text("code"), text("message"));
    AgentApiError::Refused { status, code, message, details: take_member(&mut error, "details"), retry_after }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_socket_or_an_origin() {
        let socket = AgentAddress::Socket("/run/svc/agent.sock".into());
        assert_eq!("unix:/run/svc/agent.sock".parse(), Ok(socket));
        let origin: AgentAddress = "http://127.0.0.1:3000/".parse().expect("an origin");
        assert_eq!(origin.to_string(), "http://127.0.0.1:3000");
        for bad in
            ["unix:", "", "/run/x", "http://", "ftp://a", "http://a/b", "http://u@a", "http://a?b", "http://a#b", "a:1"]
        {
            assert!(bad.parse::<AgentAddress>().is_err(), "{bad}");
        }
    }
}
