//! Recovery of the audit: writes that an earlier process began and did not complete.

use svc_kit::wall_clock;
use svc_pipeline::{JournalError, RecoveredJournal};

use super::audit::{AuditCompletion, AuditLog, AuditRecord};

/// Completes the open audit records, unless a transaction of the write is still open: the resumed write completes that record.
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
        let mut transactions = journal.transactions_of_write(&record.id).await?;
        // One that was never sent has no reason of a refusal.
        transactions.retain(|tx| tx.state != "refused" || tx.code.is_some());
        if transactions.iter().any(|tx| tx.state.starts_with("open")) {
            continue;
        }
        // At most one of them is in a block; the last one speaks for a write of which none is.
        let included = transactions.iter().position(|tx| tx.state == "included");
        let last = match included {
            Some(position) => transactions.into_iter().nth(position),
            None => transactions.into_iter().next_back(),
        };
        let completion = AuditCompletion {
            completed_at: wall_clock::now_rfc3339(),
            outcome: last.as_ref().map_or(no_transaction, |tx| tx.state.as_str()).to_owned(),
            error_code: None,
            tx_hash: last.as_ref().map(|tx| tx.tx_hash.clone()),
            block_height: last.as_ref().and_then(|tx| tx.block_height),
            code: last.as_ref().and_then(|tx| tx.code),
            fee: None,
            codespace: last.and_then(|tx| tx.codespace).filter(|codespace| !codespace.is_empty()),
        };
        audit.complete(&record.id, completion);
    }
    Ok(())
}
