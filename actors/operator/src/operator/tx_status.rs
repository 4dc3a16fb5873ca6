//! The state of a transaction: the chain's answer, completed by the journal.

use serde_json::{Value, json};
use svc_pipeline::JournalRecord;
use svc_wire::{comet_rpc::IncludedTx, error_envelope::ErrorEnvelope};

use super::Operator;
use crate::error::node_error;

impl Operator {
    /// The state of a transaction as JSON: its result in a block, or the state in the journal with the height up to which the node has
    /// no such transaction.
    pub async fn tx_status(&self, hash: &str) -> Result<Value, ErrorEnvelope> {
        // The height is read first: absence holds up to this height.
        let status = self.node().status().await.map_err(|error| node_error(&error))?;
        let found = self.node().tx(hash).await.map_err(|error| node_error(&error))?;
        let record = self.pipeline().journal().find_by_hash(hash).await.ok().flatten();
        let found = match (found, record.as_ref().and_then(|record| record.block_height)) {
            // The index may lack a block for good; the block itself has the transaction.
            (None, Some(height)) => {
                let result = self.pipeline().read_result(height, hash).await.map_err(|error| node_error(&error))?;
                result.map(|tx_result| IncludedTx { height, tx_result, ..IncludedTx::default() })
            }
            (found, _) => found,
        };
        Ok(describe_tx(hash, status.sync_info.latest_block_height, found, record))
    }
}

/// The state of a transaction as JSON. Pure.
fn describe_tx(hash: &str, node_height: u64, found: Option<IncludedTx>, record: Option<JournalRecord>) -> Value {
    let is_open = record.as_ref().is_some_and(|record| record.state == "open");
    // A failed transaction that is open in the journal was in a block before its sequence was due: the same bytes may still execute.
    let decided = found.filter(|tx| tx.tx_result.code == 0 || !is_open);
    if let Some(tx) = decided {
        let result = tx.tx_result;
        return json!({
            "found": true, "state": "included", "tx_hash": hash, "node_height": node_height, "block_height": tx.height,
            "code": result.code, "codespace": result.codespace, "raw_log": result.log, "gas_used": result.gas_used,
            "gas_wanted": result.gas_wanted, "events": result.events,
        });
    }
    let state = match record.as_ref().map(|record| record.state.as_str()) {
        None => "unknown",
        Some("open") => "pending",
        // The index of the node is late, or pruned.
        Some("included" | "failed") => "included",
        Some(decided) => decided,
    };
    json!({
        "found": false, "state": state, "tx_hash": hash, "node_height": node_height,
        "timeout_height": record.as_ref().map(|record| record.timeout_height),
        "block_height": record.as_ref().and_then(|record| record.block_height),
        "code": record.as_ref().and_then(|record| record.code),
        "codespace": record.as_ref().and_then(|record| record.codespace.clone()),
        "raw_log": record.and_then(|record| record.raw_log),
    })
}

#[cfg(test)]
mod tests {
    use svc_wire::comet_rpc::ExecTxResult;

    use super::*;

    #[test]
    fn an_unknown_transaction_and_an_included_one_are_described() {
        let unknown = describe_tx("AB", 9, None, None);
        assert_eq!(
            (&unknown["found"], &unknown["state"], &unknown["node_height"]),
            (&json!(false), &json!("unknown"), &json!(9))
        );
        let tx = IncludedTx {
            height: 7,
            tx_result: ExecTxResult { code: 5, ..ExecTxResult::default() },
            ..IncludedTx::default()
        };
        let included = describe_tx("AB", 9, Some(tx), None);
        assert_eq!(
            (&included["state"], &included["block_height"], &included["code"]),
            (&json!("included"), &json!(7), &json!(5))
        );
    }
}
