//! Before the first write: what an earlier process left open, in the journal and in the audit, compared with the chain.

use svc_kit::upstream::NodeClient;
use svc_otel::metrics;

use crate::{
    audit::{Audit, AuditEnd, AuditError, AuditRecord},
    chain::{ChainParams, Identity, OperatorConfig},
    confirmer::{Looks, Pending, facts, judge},
    in_flight::{CallId, Entry, InFlight, Outcome},
    journal::{JournalError, Recovered, Store},
};

/// What is known of the past.
pub(crate) struct Past {
    pub store: Store,
    pub audit: Audit,
    pub table: InFlight,
    pub recovered: Recovered,
    /// Number of the first call of this process.
    pub next_call: u64,
}

/// Why the past cannot be known.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// The journal cannot be used.
    #[error("SVC_JOURNAL: {0}")]
    Journal(#[from] JournalError),
    /// The audit cannot be used.
    #[error("SVC_AUDIT: {0}")]
    Audit(#[from] AuditError),
    /// The journal is ahead of the chain.
    #[error(
        "SVC_JOURNAL: {place} has a transaction with sequence {used} in a block, the chain at height {height} expects {expected}: \
         it is the journal of another chain of this name"
    )]
    OtherChain {
        /// The journal.
        place: String,
        /// Highest sequence in it.
        used: u64,
        /// The node's height.
        height: u64,
        /// What the node says.
        expected: u64,
    },
}

/// Opens the records and decides what can be decided now. A node that does not answer leaves everything open: the confirmer
/// goes on with it.
pub(crate) async fn learn(
    config: &OperatorConfig,
    chain: &ChainParams,
    identity: &Identity,
    node: &NodeClient,
) -> Result<Past, RecoveryError> {
    let address = identity.address.to_string();
    let store = Store::open(config.journal.as_deref(), &format!("{}/{address}", chain.chain_id)).await?;
    let (audit, begun) = Audit::open(config.audit.as_deref())?;
    let mut next_call = 1;
    let open = store
        .open_entries(|| {
            next_call += 1;
            CallId(next_call)
        })
        .await?;
    let (floor, node) = (store.floor().await?, node.pinned());
    let facts = facts(&node, &address).await.ok();
    let mut recovered = Recovered { found: open.len(), ..Recovered::default() };
    let mut table = InFlight::with_floor(floor);
    let mut looks = Looks::default();
    for entry in open {
        metrics::tx_recovered("found");
        let pending = Pending::from(&entry);
        let outcome = match (&facts, node.tx(&entry.hash).await) {
            (Some(facts), Ok(found)) => judge(&mut looks, &pending, facts, found.map(Box::new)).ok(),
            _ => None,
        };
        take_up(&mut table, &mut recovered, entry, outcome);
    }
    if let (Some(facts), true) = (facts, floor > 0)
        && let Some(expected) = facts.sequence.filter(|expected| *expected < floor)
        && store.newest(1).await?.first().and_then(|row| row.block_height).is_some_and(|height| height < facts.height)
    {
        let (place, height) = (store.place().to_owned(), facts.height);
        return Err(RecoveryError::OtherChain { place, used: floor - 1, height, expected });
    }
    complete(&audit, &store, begun).await?;
    if recovered.found > 0 {
        tracing::warn!(
            found = recovered.found,
            included = recovered.included,
            failed = recovered.failed,
            expired = recovered.expired,
            "transactions of an earlier process are taken up"
        );
    }
    Ok(Past { store, audit, table, recovered, next_call: next_call + 1 })
}

fn take_up(table: &mut InFlight, recovered: &mut Recovered, entry: Entry, outcome: Option<Outcome>) {
    let hash = entry.hash.clone();
    table.add(entry);
    if let Some(outcome) = outcome {
        recovered.decided(outcome.word());
        metrics::tx_recovered(outcome.word());
        table.decide(&hash, outcome);
    }
}

/// Completes what the audit has as begun, unless a transaction of it is still followed: its run completes it.
async fn complete(audit: &Audit, store: &Store, begun: Vec<AuditRecord>) -> Result<(), JournalError> {
    // Without a journal on disk nobody knows what was sent.
    let nothing = if store.is_on_disk() { "not_sent" } else { "unknown" };
    for record in begun {
        let transactions = store.of_write(&record.id).await?;
        if transactions.iter().any(|row| row.state == "open") {
            continue;
        }
        let last = transactions.into_iter().rfind(|row| row.state != "refused");
        audit.complete(
            &record.id,
            AuditEnd {
                completed_at: svc_kit::wall::now_text(),
                outcome: last.as_ref().map_or(nothing, |row| row.state.as_str()).to_owned(),
                error_code: None,
                tx_hash: last.as_ref().map(|row| row.tx_hash.clone()),
                block_height: last.as_ref().and_then(|row| row.block_height),
                code: last.as_ref().and_then(|row| row.code),
                codespace: last.and_then(|row| row.codespace).filter(|codespace| !codespace.is_empty()),
            },
        );
    }
    Ok(())
}
