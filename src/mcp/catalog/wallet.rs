//! Surface `wallet`: what this server is and may do. Answered from the published snapshot, without asking anybody.

use serde_json::{Value, json};

use super::{Hints, Outline};

/// A tool of the wallet surface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalletTool {
    /// Operator account.
    GetAddress,
    /// Bound corporation.
    GetCorporation,
    /// Authorizations of the operator.
    ListAuthorizations,
    /// Agents of the corporation.
    ListVsAgents,
    /// Links, actors, caches.
    GetStatus,
}

impl WalletTool {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::GetAddress, Self::GetCorporation, Self::ListAuthorizations, Self::ListVsAgents, Self::GetStatus];

    pub(super) fn outline(self) -> Outline {
        let (name, title, description, output): (_, _, &str, Value) = match self {
            Self::GetAddress => (
                "svc.wallet.getAddress",
                "Get the operator's account",
                "The account this server signs with: address, account number, sequence, public key, chain id. Fund this address if fees cannot be paid.",
                json!({"type": "object", "properties": {"address": {"type": "string"}}, "required": ["address"]}),
            ),
            Self::GetCorporation => (
                "svc.wallet.getCorporation",
                "Get the bound corporation",
                "The one corporation this server acts for, with its ecosystems. Every write is made in its name.",
                json!({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}),
            ),
            Self::ListAuthorizations => (
                "svc.wallet.listAuthorizations",
                "List this operator's authorizations",
                "Message types the corporation grants to this operator, until when, and whether a fee allowance pays for them. A write tool is listed only while its type is here.",
                json!({"type": "object", "properties": {"authorizations": {"type": "array"}}, "required": ["authorizations"]}),
            ),
            Self::ListVsAgents => (
                "svc.wallet.listVSAgents",
                "List the corporation's agents",
                "Verifiable-service operators of the corporation with their participants, and how their admin API is reached if it is known.",
                json!({"type": "object", "properties": {"vs_agents": {"type": "array"}}, "required": ["vs_agents"]}),
            ),
            Self::GetStatus => (
                "svc.wallet.getStatus",
                "Get the server's status",
                "Whether the links to node and indexer are up, how far each is, when the authorizations were read, and the state of every actor. Look here first when something fails.",
                json!({"type": "object", "properties": {"bootstrap_complete": {"type": "boolean"}}, "required": ["bootstrap_complete"]}),
            ),
        };
        Outline {
            name,
            title,
            description: description.to_owned(),
            input: json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": {},
                "additionalProperties": false,
            }),
            output,
            hints: Hints::READ,
        }
    }
}
