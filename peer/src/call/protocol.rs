//! The protocols that this client speaks, and their calls. Pure.

use serde_json::{Map, Value};

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

#[cfg(test)]
mod tests {
    use super::*;

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
