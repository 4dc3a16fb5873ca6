//! What the server tells of itself: the `svc://own/…` resources and the wallet tools, from the published snapshot.

use rmcp::model::Resource;
use serde_json::{Value, json};
use svc_operator::Snapshot;
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
    /// The corporation's agents.
    VsAgents,
    /// Links and actors.
    Status,
    /// Transactions.
    Transactions,
    /// Write attempts.
    Audit,
}

impl Own {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Operator,
        Self::Corporation,
        Self::Authorizations,
        Self::FeeGrant,
        Self::VsAgents,
        Self::Status,
        Self::Transactions,
        Self::Audit,
    ];

    /// Its URI.
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
        }
    }

    /// The resource with this URI.
    pub fn find(uri: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.uri() == uri)
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
            Self::VsAgents => ("vs-agents", "Agents of the corporation, and where their admin APIs are."),
            Self::Status => ("status", "Links to node, indexer and graph, journal, caches, actors."),
            Self::Transactions => {
                ("transactions", "The last 1,000 transactions of this server and what became of each, newest first.")
            }
            Self::Audit => {
                ("audit", "The last 1,000 write attempts: who asked for what, and how it ended, newest first.")
            }
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
                let types = |record: &Value| -> Vec<String> {
                    let listed = record["msg_types"].as_array().into_iter().flatten();
                    listed.filter_map(Value::as_str).map(str::to_owned).collect()
                };
                let granted = snapshot.authorizations.iter().map(|one| {
                    json!({
                        "id": one.id, "msg_types": one.msg_types,
                        "expiration": one.expiration.as_ref().map(instant::iso_millis),
                        "fee_grant_state": fee_grant_state(&snapshot, &one.msg_types, &now),
                    })
                });
                // What a VS operator may send, it may send for one participant.
                let records = snapshot.own_records().map(|(id, record)| {
                    json!({
                        "id": id, "participant_id": record["participant_id"], "msg_types": record["msg_types"],
                        "expiration": record["expiration"],
                        "fee_grant_state": fee_grant_state(&snapshot, &types(record), &now),
                    })
                });
                granted.chain(records).collect()
            }
            Own::FeeGrant => snapshot.allowance.as_ref().map_or(Value::Null, |allowance| {
                json!({
                    "granter": snapshot.policy_address(), "grantee": identity.address, "denom": self.operator.chain().denom,
                    "budget": allowance.budget.map(|budget| budget.to_string()), "msg_types": allowance.msg_types,
                    "expiration": allowance.expiration.as_ref().map(instant::iso_millis),
                    "refills": allowance.refills.as_ref().map(instant::iso_millis), "allowance": allowance.body,
                })
            }),
            Own::VsAgents => self.vs_agents().into(),
            Own::Status => {
                let mut status = self.operator.status().await;
                status["bootstrap_complete"] = (self.readiness() != Readiness::Starting).into();
                status["build_version"] = env!("CARGO_PKG_VERSION").into();
                status
            }
            Own::Transactions => match self.operator.transactions().await {
                Ok(rows) => json!({"transactions": rows}),
                Err(error) => json!({"transactions": [], "unreadable": error.to_string()}),
            },
            Own::Audit => json!({"records": self.operator.audit_records()}),
        }
    }

    /// Answer of a wallet tool.
    pub async fn wallet(&self, tool: WalletTool, arguments: &Value) -> Value {
        match tool {
            WalletTool::GetAddress => self.own(Own::Operator).await,
            WalletTool::GetCorporation => self.own(Own::Corporation).await,
            WalletTool::ListAuthorizations => json!({"authorizations": self.own(Own::Authorizations).await}),
            WalletTool::ListVsAgents => json!({"vs_agents": self.vs_agents()}),
            WalletTool::GetStatus => self.own(Own::Status).await,
            WalletTool::FindTools => json!({"tools": self.find_tools(arguments)}),
        }
    }

    /// Agents with a DID, and VS operators without one: those act on chain, but no admin API can be found for them.
    fn vs_agents(&self) -> Vec<Value> {
        let snapshot = self.operator.snapshot();
        let mut agents: Vec<Value> = Vec::new();
        for agent in &snapshot.agents {
            let known = self.operator.directory().whereabouts(&agent.did).unwrap_or_default();
            let mut row = json!({
                "vs_operator": agent.vs_operator, "did": agent.did, "participants": agent.participants,
                "admin_url": known.admin_url, "admin_url_resolved_at": known.resolved_at,
            });
            if let Some(reason) = known.unreachable_reason {
                row["unreachable_reason"] = reason.into();
            } else if row["admin_url"].is_null() {
                row["unreachable_reason"] = "its DID Document has not been looked at yet".into();
            }
            agents.push(row);
        }
        for body in &snapshot.vs_authorizations {
            if agents.iter().any(|agent| agent["vs_operator"] == body["vs_operator"]) {
                continue;
            }
            let records = body["records"].as_array().cloned().unwrap_or_default();
            let participants: Vec<&Value> = records.iter().map(|record| &record["participant_id"]).collect();
            agents.push(json!({
                "vs_operator": body["vs_operator"], "did": null, "participants": participants, "admin_url": null,
                "admin_url_resolved_at": null, "unreachable_reason": "none of its participants has a DID",
            }));
        }
        agents
    }

    /// Tools by what they are for, best first: a word counts most in the name, then in the title, then in the description.
    fn find_tools(&self, arguments: &Value) -> Vec<Value> {
        let query = arguments["query"].as_str().unwrap_or_default().to_lowercase();
        let words: Vec<&str> = query.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 1).collect();
        let limit = arguments["limit"].as_u64().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(10);
        let mut found: Vec<(usize, &std::sync::Arc<super::catalog::Entry>)> = self
            .catalog
            .iter()
            .filter_map(|entry| {
                let tool = &entry.tool;
                let (name, title) =
                    (tool.name.to_lowercase(), tool.title.as_deref().unwrap_or_default().to_lowercase());
                let description = tool.description.as_deref().unwrap_or_default().to_lowercase();
                let weight = |word: &&str| {
                    8 * usize::from(name.contains(*word))
                        + 4 * usize::from(title.contains(*word))
                        + usize::from(description.contains(*word))
                };
                let score: usize = words.iter().map(weight).sum();
                (score > 0).then_some((score, entry))
            })
            .collect();
        found.sort_by_key(|(score, entry)| (std::cmp::Reverse(*score), entry.tool.name.len()));
        let told = |(_, entry): (usize, &std::sync::Arc<super::catalog::Entry>)| {
            let absence = self.absence(entry);
            let mut row = json!({
                "name": self.catalog.listing(entry).name, "title": entry.tool.title, "description": entry.tool.description,
                "listed": absence.is_none(),
            });
            if let Some(absence) = absence {
                row["reason"] = absence.reason().into();
            }
            row
        };
        found.into_iter().take(limit).map(told).collect()
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
