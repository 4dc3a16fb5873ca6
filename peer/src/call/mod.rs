//! Calls of endpoints in their own protocols.
//!
//! The owner of an endpoint chose its URL, and its server every byte of the answer. A host is checked before anything is sent, redirects are
//! not followed, the secret goes to the origin of the entry alone, and the answer is bounded in bytes and time.

mod a2a;
mod http_call;
mod mcp;
mod outcome;
mod proof;
mod protocol;
mod website;

use std::time::Duration;

use svc_net::host_policy::HostPolicy;
use tokio::time::timeout;

use self::{http_call::HttpCaller, outcome::failed};
pub use self::{
    outcome::CallAnswer,
    protocol::{EndpointProtocol, PeerCall},
};
pub(crate) use self::{outcome::CallFault, proof::CallProof};
use crate::error::{PeerError, PeerFailure};

/// Longest call by default, with everything that it needs.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(120);

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
