//! What the server tells of itself: the `svc://own/…` resources and the wallet tools, from the published snapshot.

use rmcp::model::Resource;
use serde_json::{Value, json};
use svc_operator::{Snapshot, Versions};
use svc_wire::instant;

use super::{Front, Readiness, catalog::WalletTool};

/// A resource of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// The operator's account.
    Operator,
    /// The bound corporation.
    Corporation,
    /// The operator's authorizations.
    Authorizations,
    /// The fee allowance.
    FeeGrant,
    /// Links and actors.
    Status,
}

impl Own {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Operator, Self::Corporation, Self::Authorizations, Self::FeeGrant, Self::Status];

    /// Its URI.
    pub fn uri(self) -> &'static str {
        match self {
            Self::Operator => "svc://own/operator",
            Self::Corporation => "svc://own/corporation",
            Self::Authorizations => "svc://own/authorizations",
            Self::FeeGrant => "svc://own/fee-grant",
            Self::Status => "svc://own/status",
        }
    }

    /// The resource with this URI.
    pub fn find(uri: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.uri() == uri)
    }

    /// Resources that differ between two versions of the snapshot.
    pub fn changed(before: &Versions, after: &Versions) -> Vec<Self> {
        let parts = [
            (Self::Operator, before.operator != after.operator),
            (Self::Corporation, before.corporation != after.corporation),
            (Self::Authorizations, before.authorizations != after.authorizations),
            (Self::FeeGrant, before.fee_grant != after.fee_grant),
        ];
        parts.into_iter().filter_map(|(own, is_new)| is_new.then_some(own)).collect()
    }

    /// As it is listed.
    pub fn resource(self) -> Resource {
        let (name, description) = match self {
            Self::Operator => ("operator", "Account this server signs with."),
            Self::Corporation => ("corporation", "Corporation this server acts for, with its ecosystems."),
            Self::Authorizations => ("authorizations", "Message types the corporation grants to this operator."),
            Self::FeeGrant => {
                ("fee-grant", "Fee allowance of the corporation for this operator; null when there is none.")
            }
            Self::Status => ("status", "Links to node and indexer, caches, actors."),
        };
        Resource::new(self.uri(), name).with_description(description).with_mime_type("application/json")
    }
}

/// State of the fee allowance for an authorization: `active` when it pays for all of its types, `partial`, `none`.
fn fee_grant_state(snapshot: &Snapshot, msg_types: &[String], now: &prost_types::Timestamp) -> &'static str {
    let covered = msg_types.iter().filter(|one| snapshot.fee_budget(one, now).is_some()).count();
    match covered {
        0 => "none",
        all if all == msg_types.len() => "active",
        _ => "partial",
    }
}

impl Front {
    /// Content of a resource.
    pub async fn own(&self, own: Own) -> Value {
        let (snapshot, identity) = (self.operator.snapshot(), self.operator.identity());
        match own {
            Own::Operator => json!({
                "address": identity.address, "account_number": snapshot.account_number, "sequence": snapshot.sequence,
                "public_key": base64(identity.public_key.as_bytes()), "chain_id": self.operator.chain().chain_id,
            }),
            Own::Corporation => {
                let corporation = &snapshot.corporation;
                let ecosystems: Vec<Value> = snapshot
                    .ecosystems
                    .iter()
                    .map(|one| json!({"id": one["id"], "did": one["did"], "archived": one["archived"]}))
                    .collect();
                json!({
                    "id": corporation["id"], "policy_address": corporation["policy_address"], "did": corporation["did"],
                    "active_version": corporation["active_version"], "language": corporation["language"],
                    "modified": corporation["modified"], "ecosystems": ecosystems,
                })
            }
            Own::Authorizations => {
                let now = svc_kit::wall::now();
                snapshot
                    .authorizations
                    .iter()
                    .map(|one| {
                        json!({
                            "id": one.id, "msg_types": one.msg_types,
                            "expiration": one.expiration.as_ref().map(instant::iso_millis),
                            "fee_grant_state": fee_grant_state(&snapshot, &one.msg_types, &now),
                        })
                    })
                    .collect()
            }
            Own::FeeGrant => snapshot.allowance.as_ref().map_or(Value::Null, |allowance| {
                json!({
                    "granter": snapshot.policy_address(), "grantee": identity.address, "denom": self.operator.chain().denom,
                    "budget": allowance.budget.map(|budget| budget.to_string()), "msg_types": allowance.msg_types,
                    "expiration": allowance.expiration.as_ref().map(instant::iso_millis),
                    "refills": allowance.refills.as_ref().map(instant::iso_millis), "allowance": allowance.body,
                })
            }),
            Own::Status => {
                let mut status = self.operator.status().await;
                status["bootstrap_complete"] = (self.readiness() != Readiness::Starting).into();
                status["build_version"] = env!("CARGO_PKG_VERSION").into();
                status["graph_ws"] = Value::Null;
                status
            }
        }
    }

    /// Answer of a wallet tool.
    pub async fn wallet(&self, tool: WalletTool) -> Value {
        match tool {
            WalletTool::GetAddress => self.own(Own::Operator).await,
            WalletTool::GetCorporation => self.own(Own::Corporation).await,
            WalletTool::ListAuthorizations => json!({"authorizations": self.own(Own::Authorizations).await}),
            WalletTool::ListVsAgents => json!({"vs_agents": self.vs_agents()}),
            WalletTool::GetStatus => self.own(Own::Status).await,
        }
    }

    /// Agents are told by what the authorizations say of them; their DIDs and admin APIs are not looked up yet.
    fn vs_agents(&self) -> Vec<Value> {
        let participants = |body: &Value| -> Vec<Value> {
            let records = body["records"].as_array().cloned().unwrap_or_default();
            records.iter().map(|record| record["participant_id"].clone()).collect()
        };
        self.operator
            .snapshot()
            .vs_authorizations
            .iter()
            .map(|body| {
                json!({
                    "vs_operator": body["vs_operator"], "did": null, "participants": participants(body), "admin_url": null,
                    "admin_url_resolved_at": null,
                    "unreachable_reason": "this server does not look up agents yet",
                })
            })
            .collect()
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
