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
        let journal = self.pipeline().journal();
        let mut record = journal.find_by_hash(hash).await.ok().flatten();
        // A write may have several transactions at one sequence, and the caller knows one of them.
        if let Some(ended) = record.as_ref().filter(|record| never_executes(record))
            && let Ok(Some(successor)) = journal.find_successor(ended).await
        {
            record = Some(successor);
        }
        let hash = record.as_ref().map_or(hash, |record| record.tx_hash.as_str()).to_owned();
        let hash = hash.as_str();
        let found = self.node().tx(hash).await.map_err(|error| node_error(&error))?;
        let block = record.as_ref().filter(|record| !record.is_abandoned()).and_then(|record| record.block_height);
        let found = match (found, block) {
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

fn never_executes(record: &JournalRecord) -> bool {
    matches!(record.state.as_str(), "refused" | "expired" | "displaced" | "abandoned")
}

/// The state of a transaction as JSON. Pure.
fn describe_tx(hash: &str, node_height: u64, found: Option<IncludedTx>, record: Option<JournalRecord>) -> Value {
    let is_open = record.as_ref().is_some_and(|record| record.state.starts_with("open"));
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
    // The words of the tool's output schema. `open_refused`: it may still execute until its timeout height.
    let state = match record.as_ref().map(|record| record.state.as_str()) {
        None => "unknown",
        Some("open" | "open_refused") => "pending",
        // The index of the node is late, or pruned.
        Some("included" | "failed") => "included",
        // The bytes of a history that has ended may come into a block of this one.
        Some("abandoned") if record.as_ref().is_some_and(|record| record.timeout_height > node_height) => "pending",
        Some(_) => "expired",
    };
    // The result of an abandoned transaction is gone with its block.
    let result = record.as_ref().filter(|record| !record.is_abandoned());
    json!({
        "found": false, "state": state, "tx_hash": hash, "node_height": node_height,
        "journal_state": record.as_ref().map(|record| &record.state),
        "timeout_height": record.as_ref().map(|record| record.timeout_height),
        "block_height": result.and_then(|record| record.block_height),
        "code": result.and_then(|record| record.code),
        "codespace": result.and_then(|record| record.codespace.clone()),
        "raw_log": result.and_then(|record| record.raw_log.clone()),
    })
}

#[cfg(test)]
mod tests {
    use svc_wire::comet_rpc::ExecTxResult;

    use super::*;

    #[test]
    fn an_abandoned_transaction_may_come_back_until_its_timeout_height_and_has_no_block() {
        let record = JournalRecord {
            state: "abandoned".to_owned(),
            state_before: Some("included".to_owned()),
            block_height: Some(7),
            timeout_height: 30,
            ..JournalRecord::default()
        };
        for (node_height, state) in [(29, "pending"), (30, "expired")] {
            let status = describe_tx("AB", node_height, None, Some(record.clone()));
            assert_eq!((&status["state"], &status["journal_state"]), (&json!(state), &json!("abandoned")));
            assert_eq!(status["block_height"], Value::Null);
        }
    }

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
