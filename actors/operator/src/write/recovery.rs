//! Recovery of the audit: writes that an earlier process began and did not complete.

use svc_kit::wall_clock;
use svc_pipeline::{JournalError, JournalRecord, RecoveredJournal};

use super::{
    audit::{AuditCompletion, AuditLog, AuditRecord},
    receipt::fee_payer,
};

/// Completes the open audit records. A write that may still execute is resumed, and completes its record then.
pub(crate) async fn complete_audit(
    audit: &AuditLog,
    journal: &RecoveredJournal,
    open: Vec<AuditRecord>,
) -> Result<(), JournalError> {
    let complete_since = journal.complete_since().await?;
    for record in open {
        // A journal in memory, one that has lost records, and one that is younger do not know whether a transaction was sent.
        let is_known = complete_since.as_ref().is_some_and(|since| *since <= record.begun_at);
        let no_transaction = if is_known { "not_sent" } else { "unknown" };
        let transactions = journal.transactions_of_write(&record.id).await?;
        let last = match deciding_transaction(transactions) {
            DecidingTransaction::Open => continue,
            DecidingTransaction::None => None,
            DecidingTransaction::Found(tx) => Some(*tx),
        };
        let completion = AuditCompletion {
            completed_at: wall_clock::now_rfc3339(),
            outcome: last.as_ref().map_or(no_transaction, |tx| tx.state.as_str()).to_owned(),
            error_code: None,
            tx_hash: last.as_ref().map(|tx| tx.tx_hash.clone()),
            block_height: last.as_ref().and_then(|tx| tx.block_height),
            code: last.as_ref().and_then(|tx| tx.code),
            fee: None,
            fee_payer: last.as_ref().map(|tx| fee_payer(tx.is_fee_granted).to_owned()),
            codespace: last.and_then(|tx| tx.codespace).filter(|codespace| !codespace.is_empty()),
        };
        audit.complete(&record.id, completion);
    }
    Ok(())
}

/// The transaction that decides how a write has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DecidingTransaction {
    /// One that may still execute: the write has not ended.
    Open,
    /// Nothing of the write was ever sent.
    None,
    Found(Box<JournalRecord>),
}

pub(super) fn deciding_transaction(mut transactions: Vec<JournalRecord>) -> DecidingTransaction {
    // At most one of them is in a block, though one of an earlier signature may still be open.
    if let Some(position) = transactions.iter().position(|tx| tx.state == "included") {
        return DecidingTransaction::Found(Box::new(transactions.swap_remove(position)));
    }
    // A transaction that failed in a block has used the sequence of those that were refused before it.
    let is_failed = transactions.last().is_some_and(|newest| newest.state == "failed");
    let may_execute = |tx: &JournalRecord| tx.state == "open" || (tx.state == "open_refused" && !is_failed);
    if transactions.iter().any(may_execute) {
        return DecidingTransaction::Open;
    }
    // One that was never sent has no reason of a refusal.
    transactions.retain(|tx| tx.state != "refused" || tx.code.is_some());
    // The last one speaks for a write of which none is in a block.
    transactions.pop().map_or(DecidingTransaction::None, |tx| DecidingTransaction::Found(Box::new(tx)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_in_a_block_decides_though_another_one_is_open() {
        let record = |hash: &str, state: &str, code: Option<u32>| JournalRecord {
            tx_hash: hash.to_owned(),
            state: state.to_owned(),
            code,
            ..JournalRecord::default()
        };
        let refused = || record("A", "open_refused", Some(38));
        for (transactions, expected) in [
            (vec![refused(), record("B", "included", Some(0))], Some("B")),
            (vec![record("A", "included", Some(0)), record("B", "open", None)], Some("A")),
            (vec![record("A", "failed", Some(11)), record("B", "expired", None)], Some("B")),
            (vec![record("A", "refused", Some(13)), record("B", "refused", None)], Some("A")),
        ] {
            let DecidingTransaction::Found(found) = deciding_transaction(transactions) else { panic!("{expected:?}") };
            assert_eq!(Some(found.tx_hash.as_str()), expected);
        }
        assert_eq!(deciding_transaction(vec![record("A", "failed", Some(11)), refused()]), DecidingTransaction::Open);
        let failed = deciding_transaction(vec![refused(), record("B", "failed", Some(11))]);
        assert!(matches!(failed, DecidingTransaction::Found(tx) if tx.tx_hash == "B"));
        assert_eq!(deciding_transaction(vec![record("A", "refused", None)]), DecidingTransaction::None);
    }
}
