//! One tool call: look the tool up, check the arguments, ask, shape.

use std::sync::Arc;

use serde_json::{Value, json};
use svc_operator::{Gate, LedgerCall};
use svc_wire::envelope::{Code, ErrorEnvelope};

use super::{
    Front, Readiness,
    catalog::{Account, Action, Entry, LedgerTool},
};

/// A successful call: structured content, and a line for people.
pub struct Shaped {
    /// Structured content.
    pub content: Value,
    /// One line.
    pub summary: String,
}

impl Front {
    /// Tools that are listed now. The same test holds at dispatch.
    pub fn listed(&self) -> impl Iterator<Item = &Arc<Entry>> {
        let (snapshot, now) = (self.operator.snapshot(), svc_kit::wall::now());
        self.catalog.iter().filter(move |entry| match (&entry.action, &entry.msg_type) {
            (Action::Ledger(tool), Some(msg_type)) if tool.needs_grant => {
                snapshot.gate(msg_type, &now) == Gate::Granted
            }
            _ => true,
        })
    }

    /// Calls a tool.
    pub async fn call(&self, name: &str, arguments: Value) -> Result<Shaped, ErrorEnvelope> {
        if self.readiness() == Readiness::Draining {
            return Err(ErrorEnvelope::new(
                Code::NotReady,
                "the server is stopping",
                "call another instance, or later",
            ));
        }
        let Some(entry) = self.catalog.get(name) else {
            let hint = "tools/list shows what there is";
            return Err(ErrorEnvelope::new(Code::ToolUnknown, format!("there is no tool {name:?}"), hint)
                .with_details(json!({"tool": name})));
        };
        entry.check(&arguments)?;
        match (&entry.action, &entry.msg_type) {
            (Action::Ledger(tool), Some(msg_type)) => self.write(name, tool, msg_type, arguments).await,
            (Action::Idx(tool), _) => {
                let asked = tool.ask(&arguments);
                let content = self
                    .operator
                    .indexer_get(tool.operation(), &asked.path, &asked.query, asked.at_block_height)
                    .await?;
                Ok(Shaped { summary: summary(name, &content), content })
            }
            (Action::GetTx, _) => self.get_tx(arguments["hash"].as_str().unwrap_or_default()).await,
            (Action::Wallet(tool), _) => {
                let content = self.wallet(*tool).await;
                Ok(Shaped { summary: summary(name, &content), content })
            }
            (Action::Ledger(_), None) => {
                Err(ErrorEnvelope::new(Code::ToolUnknown, "the tool has no message", "report this"))
            }
        }
    }

    async fn write(
        &self,
        name: &str,
        tool: &LedgerTool,
        msg_type: &str,
        arguments: Value,
    ) -> Result<Shaped, ErrorEnvelope> {
        let snapshot = self.operator.snapshot();
        let account = |account: Account| match account {
            Account::Corporation => snapshot.policy_address().to_owned(),
            Account::Operator => self.operator.identity().address.to_string(),
        };
        let accounts = tool.accounts.iter().map(|(field, whose)| ((*field).to_owned(), account(*whose))).collect();
        let call = LedgerCall { msg_type: msg_type.to_owned(), arguments, accounts, needs_grant: tool.needs_grant };
        let receipt = self.operator.execute(call).await?;
        let indexed = if receipt.indexer_synced { "and indexed" } else { "not indexed yet" };
        let summary = format!(
            "{name}: included in block {} {indexed}, tx {}, response {}",
            receipt.block_height, receipt.tx_hash, receipt.response
        );
        let content = serde_json::to_value(receipt).unwrap_or_default();
        Ok(Shaped { content, summary })
    }

    async fn get_tx(&self, hash: &str) -> Result<Shaped, ErrorEnvelope> {
        let hash = hash.trim_start_matches("0x").to_ascii_uppercase();
        let (found, node_height) = self.operator.tx(&hash).await?;
        let timeout_height = self.operator.timeout_height_of(&hash);
        let content = match found {
            Some(tx) => json!({
                "found": true, "state": "included", "tx_hash": hash, "node_height": node_height, "block_height": tx.height,
                "code": tx.tx_result.code, "codespace": tx.tx_result.codespace, "raw_log": tx.tx_result.log,
                "gas_used": tx.tx_result.gas_used, "gas_wanted": tx.tx_result.gas_wanted, "events": tx.tx_result.events,
            }),
            None => {
                let state = match timeout_height {
                    Some(timeout) if node_height > timeout => "expired",
                    Some(_) => "pending",
                    None => "unknown",
                };
                json!({
                    "found": false, "state": state, "tx_hash": hash, "node_height": node_height,
                    "timeout_height": timeout_height,
                })
            }
        };
        let summary = format!("transaction {hash}: {}", content["state"].as_str().unwrap_or_default());
        Ok(Shaped { content, summary })
    }
}

/// A line for people: the tool and the size of what came back.
fn summary(name: &str, content: &Value) -> String {
    let list =
        content.as_object().and_then(|members| members.iter().find_map(|(key, value)| Some((key, value.as_array()?))));
    match list {
        Some((key, items)) => format!("{name}: {} {key}", items.len()),
        None => format!(
            "{name}: {}",
            content.as_object().map(|m| m.keys().cloned().collect::<Vec<_>>().join(", ")).unwrap_or_default()
        ),
    }
}
