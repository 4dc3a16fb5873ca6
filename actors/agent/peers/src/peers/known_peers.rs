//! Peers whose connections were just read: each message of a conversation would read the same rows again.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use moka::future::Cache;

/// Senders that are kept.
const MAX_SENDERS: u64 = 10_000;

/// The DIDs by which senders are known, by the sender's DID in its comparable form and by ours. This process is the only one that
/// writes connections, so that an entry is as good as a read until one of them changes.
#[derive(Debug)]
pub(super) struct KnownPeers {
    senders: Cache<(String, String), (u64, Arc<str>)>,
    /// Grows with each change of a connection: an entry that was read before is none.
    changes: AtomicU64,
}

impl Default for KnownPeers {
    fn default() -> Self {
        Self { senders: Cache::new(MAX_SENDERS), changes: AtomicU64::new(0) }
    }
}

impl KnownPeers {
    /// The number of changes; to be asked before the rows are read.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Notes that a connection has changed in more than its counters.
    pub fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the DID by which the sender of a message to one of our DIDs is known.
    pub async fn find(&self, sender: &str, own: &str) -> Option<Arc<str>> {
        let (read_at, public_did) = self.senders.get(&(sender.to_owned(), own.to_owned())).await?;
        (read_at == self.changes()).then_some(public_did)
    }

    /// Keeps the result of a read that began after a number of changes.
    pub async fn keep(&self, sender: &str, own: &str, read_at: u64, public_did: &str) {
        self.senders.insert((sender.to_owned(), own.to_owned()), (read_at, public_did.into())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_entry_ends_with_any_change_also_one_during_its_read() {
        let known = KnownPeers::default();
        let before = known.changes();
        known.keep("did:web:peer", "did:web:own", before, "did:web:peer").await;
        assert_eq!(known.find("did:web:peer", "did:web:own").await.as_deref(), Some("did:web:peer"));
        assert_eq!(known.find("did:web:peer", "did:peer:4own").await, None, "another connection");
        known.note_change();
        assert_eq!(known.find("did:web:peer", "did:web:own").await, None);
        known.keep("did:web:peer", "did:web:own", before, "did:web:peer").await;
        assert_eq!(known.find("did:web:peer", "did:web:own").await, None, "it was read before the change");
    }
}
