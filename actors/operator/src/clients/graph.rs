//! The graph service's queries.

use serde_json::{Value, json};
use svc_net::upstream::{HttpUpstream, UpstreamError, UpstreamKind};

/// Client of one graph service.
#[derive(Clone)]
pub struct GraphClient {
    upstream: HttpUpstream,
}

impl GraphClient {
    /// A client for the graph at `origin`.
    pub fn new(origin: &str) -> Result<Self, UpstreamError> {
        Ok(Self { upstream: HttpUpstream::new(UpstreamKind::Graph, origin)? })
    }

    /// Where the graph is.
    pub fn origin(&self) -> &str {
        self.upstream.origin()
    }

    /// A traversal; `query` is its code, `A1` to `G1`.
    pub async fn traverse(&self, query: &str, input: &Value, page: &Value) -> Result<Value, UpstreamError> {
        let mut body = json!({"query": query, "input": input});
        for member in ["limit", "cursor"] {
            // The graph refuses a cursor of null here.
            if !page[member].is_null() {
                body[member] = page[member].clone();
            }
        }
        self.post(query, "/v4/graph/traverse", &body).await
    }

    /// A search; `request` has its surface.
    pub async fn search(&self, request: &Value) -> Result<Value, UpstreamError> {
        self.post("search", "/v4/graph/search", request).await
    }

    async fn post(&self, operation: &str, path: &str, body: &Value) -> Result<Value, UpstreamError> {
        let answer = self.upstream.post(operation, path, body).await?;
        self.upstream.parse_json(&answer)
    }
}
