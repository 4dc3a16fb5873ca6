//! The resources `svc://own/…`: the accounts, authorizations, records and state of this server.

mod content;

use rmcp::model::Resource;

/// A resource that every session can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnResource {
    /// The account of the operator.
    Operator,
    /// The bound corporation.
    Corporation,
    /// The authorizations of the operator.
    Authorizations,
    /// The fee allowance.
    FeeGrant,
    /// The agents of the corporation.
    VsAgents,
    /// The state of links, journal, caches and actors.
    Status,
    /// The newest transactions.
    Transactions,
    /// The newest write attempts.
    Audit,
    /// Calls that wait for another principal.
    Approvals,
}

impl OwnResource {
    /// All resources, in the order of their listing.
    pub const ALL: [Self; 9] = [
        Self::Operator,
        Self::Corporation,
        Self::Authorizations,
        Self::FeeGrant,
        Self::VsAgents,
        Self::Status,
        Self::Transactions,
        Self::Audit,
        Self::Approvals,
    ];

    /// The URI of the resource.
    pub fn uri(self) -> &'static str {
        match self {
            Self::Operator => "svc://own/operator",
            Self::Corporation => "svc://own/corporation",
            Self::Authorizations => "svc://own/authorizations",
            Self::FeeGrant => "svc://own/fee-grant",
            Self::VsAgents => "svc://own/vs-agents",
            Self::Status => "svc://own/status",
            Self::Transactions => "svc://own/transactions",
            Self::Audit => "svc://own/audit",
            Self::Approvals => "svc://own/approvals",
        }
    }

    /// Whether it shows the state of the registry, which writes change.
    pub fn shows_writes(self) -> bool {
        match self {
            Self::Corporation | Self::Authorizations | Self::FeeGrant | Self::VsAgents => true,
            Self::Operator | Self::Status | Self::Transactions | Self::Audit | Self::Approvals => false,
        }
    }

    /// The resource with this URI.
    pub fn from_uri(uri: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.uri() == uri)
    }

    /// The resource as `resources/list` shows it.
    pub fn listing(self) -> Resource {
        let (name, description) = match self {
            Self::Operator => ("operator", "Account this server signs with."),
            Self::Corporation => ("corporation", "Corporation this server acts for, with its ecosystems."),
            Self::Authorizations => ("authorizations", "Message types the corporation grants to this operator."),
            Self::FeeGrant => {
                ("fee-grant", "Fee allowance of the corporation for this operator; null when there is none.")
            }
            Self::VsAgents => ("vs-agents", "Agents of the corporation, and where their admin APIs are."),
            Self::Status => ("status", "Links to node, indexer and graph, journal, caches, actors."),
            Self::Transactions => {
                ("transactions", "The last 1,000 transactions of this server and what became of each, newest first.")
            }
            Self::Audit => {
                ("audit", "The last 1,000 write attempts: who asked for what, and how it ended, newest first.")
            }
            Self::Approvals => ("approvals", "Calls that wait for the approval of another principal (`svc approve`)."),
        };
        Resource::new(self.uri(), name).with_description(description).with_mime_type("application/json")
    }
}
