//! The hook through which a program adds tools, prompts or resources to the tool server.

use axum::Router;
use rmcp::ServerHandler;

use super::handler::McpSession;

/// Extends the tool server's HTTP surface.
pub trait McpExtension: Clone + Send + Sync + 'static {
    /// The handler of one session, or of one request where the protocol has no sessions.
    type Session: ServerHandler;

    /// Wraps a session of the tool server. The wrapper answers requests for its own tools, prompts and resources, and passes all others on.
    fn extend_session(&self, session: McpSession) -> Self::Session;

    /// Adds layers to the route of the MCP endpoint. Requests reach them after authentication and admission.
    fn extend_endpoint(&self, endpoint: Router) -> Router {
        endpoint
    }
}

/// The tool server without an extension.
#[derive(Debug, Clone, Copy)]
pub struct NoExtension;

impl McpExtension for NoExtension {
    type Session = McpSession;

    fn extend_session(&self, session: McpSession) -> McpSession {
        session
    }
}
