//! Metrics of the devnet.

use std::time::Duration;

use super::instrument::instrument;

/// Records a block of the devnet: its height, the time it took, and the codespace of each transaction (empty on success).
pub fn record_devnet_block<'a>(height: u64, codespaces: impl Iterator<Item = &'a str>, took: Duration) {
    instrument!(Gauge, "svc_devnet_block_height", "Newest height of the devnet's chain.").set(height, []);
    instrument!(
        DurationHistogram,
        "svc_devnet_block_duration_seconds",
        "Seconds the devnet took to run, seal and store a block."
    )
    .record(took, []);
    let transactions = instrument!(
        Counter,
        "svc_devnet_txs_total",
        "Transactions in the devnet's blocks, by codespace; ok for those without error."
    );
    for codespace in codespaces {
        let outcome = if codespace.is_empty() { "ok" } else { codespace };
        transactions.increment([("codespace", outcome)]);
    }
}
