//! The lookup of one digest. Nodes cannot list digests: an index that begins in the middle of its chain does not have the earlier ones, and
//! asks the node for them.

use std::sync::Arc;

use serde_json::Value;
use svc_net::upstream::{NodeClient, NodeClientError};
use svc_wire::{proto_registry::ProtoRegistry, timestamp::parse_instant};

use super::{
    error::IngestError,
    node_reader::{EntityReading, NodeReader},
};
use crate::{
    block::EntityRef,
    store::{EntityFilter, EntityKind, IndexStore, IndexStoreError},
};

/// A digest could not be looked up.
#[derive(Debug, thiserror::Error)]
pub enum DigestLookupError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] IndexStoreError),
    /// The index does not have the digest, and the node was not able to tell whether it is older than the index.
    #[error(
        "the digest may be older than the index, which begins with block {oldest}, and the node does not tell: {reason}"
    )]
    Unknown {
        /// Oldest height of the index.
        oldest: u64,
        /// The failure of the node, without addresses.
        reason: String,
    },
}

/// Looks digests up in the store, and at the node those that may be older than the store.
#[derive(Clone)]
pub struct DigestLookup {
    store: IndexStore,
    node: NodeClient,
    registry: Arc<ProtoRegistry>,
}

impl DigestLookup {
    /// Creates a lookup in a store and at the node of its chain.
    pub fn new(store: IndexStore, node: NodeClient, registry: Arc<ProtoRegistry>) -> Self {
        Self { store, node, registry }
    }

    /// The store.
    pub fn store(&self) -> &IndexStore {
        &self.store
    }

    /// Returns the digest as it was at a height, whose block has this time; `None` when it was not anchored. Fails when that is not known.
    pub async fn find(&self, digest: &str, height: u64, time: i128) -> Result<Option<Value>, DigestLookupError> {
        let filter = EntityFilter { name: Some(digest.to_owned()), ..EntityFilter::default() };
        if let Some(found) = self.store.find_entity(EntityKind::Digest, &filter, height).await? {
            return Ok(Some(found.body));
        }
        let oldest = self.store.oldest_and_newest_block().await?.first().map(|(oldest, _)| *oldest);
        match oldest {
            Some(oldest) if oldest > 1 => {
                let found = self.ask_node(digest, height).await.map_err(|error| DigestLookupError::Unknown {
                    oldest,
                    reason: IngestError::Node(error).public_message(),
                })?;
                Ok(found.filter(|body| was_anchored_by(body, time)))
            }
            // The index has every digest of the genesis and of all blocks.
            _ => Ok(None),
        }
    }

    /// The chain keeps a digest as it was stored. Where the state of the height is pruned, the newest state tells the same, with the time of
    /// the anchor.
    async fn ask_node(&self, digest: &str, height: u64) -> Result<Option<Value>, NodeClientError> {
        let source = NodeReader { node: &self.node, registry: &self.registry };
        let entity = EntityRef::Digest(digest.to_owned());
        let reading = match source.read_entity(&entity, height).await {
            Err(error) if error.is_pruned() => source.read_entity(&entity, NEWEST_STATE).await?,
            reading => reading?,
        };
        Ok(match reading {
            EntityReading::Change(change) => change.body,
            EntityReading::Allowance { .. } => None,
        })
    }
}

/// The height of a query that stands for the newest state.
const NEWEST_STATE: u64 = 0;

/// Whether a digest was there at an instant, in nanoseconds since the epoch. Times of entities are in milliseconds.
fn was_anchored_by(body: &Value, time: i128) -> bool {
    parse_instant(body, "created").is_some_and(|created| created <= time)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_digest_counts_from_the_time_of_its_anchor() {
        let second = 1_000_000_000;
        for (created, time, counts) in [
            (json!("1970-01-01T00:00:05.000Z"), 5 * second, true),
            (json!("1970-01-01T00:00:05.000Z"), 5 * second + 1, true),
            (json!("1970-01-01T00:00:05.000Z"), 5 * second - 1, false),
            (json!(null), 5 * second, false),
        ] {
            assert_eq!(was_anchored_by(&json!({"created": created}), time), counts, "{created} {time}");
        }
    }
}
