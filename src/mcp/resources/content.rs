//! The contents of the resources, from the published snapshot and the operator's records.

use serde_json::{Value, json};
use svc_operator::{CorporationSnapshot, FeeAllowance, FeeBudget, HeightSource, KnownAllowance};
use svc_wire::timestamp;

use super::OwnResource;
use crate::{
    mcp::{server::ToolServer, session::SessionState},
    principals::Principal,
};

/// State of the fee allowance for an authorization: `active` when it covers all message types, `partial`, `none`, or
/// `unknown` while the node does not say it.
fn fee_grant_state(snapshot: &CorporationSnapshot, msg_types: &[String], now: &prost_types::Timestamp) -> &'static str {
    let budgets: Result<Vec<_>, _> = msg_types.iter().map(|one| snapshot.fee_budget(one, now)).collect();
    let Ok(budgets) = budgets else { return "unknown" };
    match budgets.into_iter().flatten().count() {
        0 => "none",
        all if all == msg_types.len() => "active",
        _ => "partial",
    }
}

impl ToolServer {
    fn show_allowance(&self, snapshot: &CorporationSnapshot, allowance: &FeeAllowance) -> Value {
        let prost_types::Any { type_url, value } = &allowance.encoded;
        let decoded = self.operator.chain().registry.decode(type_url, value).unwrap_or_else(|_| json!({}));
        json!({
            "granter": snapshot.policy_address(), "grantee": self.operator.identity().address, "denom": self.operator.chain().params.denom,
            "budget": budget_text(allowance.budget), "msg_types": allowance.msg_types,
            "expiration": allowance.expiration.as_ref().map(timestamp::iso_millis),
            "refills": allowance.refills_at.as_ref().map(timestamp::iso_millis), "allowance": decoded,
        })
    }

    /// Waits until a resource shows the session's last write. Where that takes too long, returns the height that the resource shows.
    pub async fn await_own_state(&self, own: OwnResource, session: &SessionState) -> Option<u64> {
        let written = session.last_write_height();
        if written == 0 || !own.shows_writes() {
            return None;
        }
        let wait_limit = session.wait_limit(HeightSource::Indexer, written, self.operator.indexer_timeout());
        if self.operator.await_snapshot(written, wait_limit).await {
            return None;
        }
        session.record_miss(HeightSource::Indexer, written);
        Some(self.operator.snapshot().as_of_height)
    }

    /// The content of a resource as JSON, as far as it is the principal's.
    pub async fn read_own_resource(&self, own: OwnResource, principal: &Principal) -> Value {
        let (snapshot, identity) = (self.operator.snapshot(), self.operator.identity());
        match own {
            OwnResource::Operator => json!({
                "address": identity.address, "account_number": snapshot.account_number, "sequence": snapshot.sequence,
                "public_key": base64(identity.public_key.as_bytes()), "chain_id": self.operator.chain().params.chain_id,
            }),
            OwnResource::Corporation => {
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
            OwnResource::Authorizations => {
                let now = self.operator.chain_time();
                let types = |record: &Value| -> Vec<String> {
                    let listed = record["msg_types"].as_array().into_iter().flatten();
                    listed.filter_map(Value::as_str).map(str::to_owned).collect()
                };
                let granted = snapshot.authorizations.iter().map(|one| {
                    json!({
                        "id": one.id, "msg_types": one.msg_types,
                        "expiration": one.expiration.as_ref().map(timestamp::iso_millis),
                        "fee_grant_state": fee_grant_state(&snapshot, &one.msg_types, &now),
                    })
                });
                // An authorization of a VS operator is valid for one participant.
                let records = snapshot.own_vs_records().map(|(id, record)| {
                    json!({
                        "id": id, "participant_id": record["participant_id"], "msg_types": record["msg_types"],
                        "expiration": record["expiration"],
                        "fee_grant_state": fee_grant_state(&snapshot, &types(record), &now),
                    })
                });
                granted.chain(records).collect()
            }
            OwnResource::FeeGrant => match &snapshot.allowance {
                KnownAllowance::Absent => Value::Null,
                KnownAllowance::Unknown(unknown) => json!({"unknown": unknown.0}),
                KnownAllowance::Given(allowance) => self.show_allowance(&snapshot, allowance),
            },
            OwnResource::VsAgents => self.list_vs_agents().into(),
            OwnResource::Status => {
                let mut status = self.operator.status().await;
                status["bootstrap_complete"] = true.into();
                status["build_version"] = env!("CARGO_PKG_VERSION").into();
                status
            }
            OwnResource::Transactions => match self.operator.transactions().await {
                Ok(rows) => {
                    let rows: Vec<_> = rows.into_iter().filter(|row| may_see(principal, &row.principal)).collect();
                    json!({"transactions": rows})
                }
                Err(error) => json!({"transactions": [], "unreadable": error.to_string()}),
            },
            OwnResource::Approvals => json!({"approvals": self.confirmations.approvals.list(principal)}),
            OwnResource::Audit => {
                let records = self.operator.audit_records();
                let own: Vec<_> = records.into_iter().filter(|record| may_see(principal, &record.principal)).collect();
                json!({"records": own})
            }
        }
    }

    /// The agents with a DID, then the VS operators without one, which have no admin API.
    pub fn list_vs_agents(&self) -> Vec<Value> {
        let snapshot = self.operator.snapshot();
        let mut agents: Vec<Value> = Vec::new();
        for agent in &snapshot.agents {
            let known = self.operator.agent_directory().endpoint(&agent.did).unwrap_or_default();
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
}

/// Whether a principal may see the record of another one: the default one sees all.
fn may_see(principal: &Principal, owner: &str) -> bool {
    principal.is_default() || *principal.id == *owner
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Largest fee that an allowance pays, as text; `null` without a limit.
fn budget_text(budget: FeeBudget) -> Option<String> {
    match budget {
        FeeBudget::Unlimited => None,
        FeeBudget::UpTo(amount) => Some(amount.to_string()),
    }
}
