//! Reads blocks for the transactions that wait for proof. Each block is read once for all of them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::RangeInclusive,
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use futures::StreamExt;
use svc_net::upstream::{NodeClient, NodeClientError};
use svc_otel::metrics;
use svc_wire::{
    comet_rpc::{BlockData, ExecTxResult},
    tx::tx_hash,
};
use tokio::sync::Mutex;

use super::core::BlockEvidence;

/// Blocks that are read at once.
const CONCURRENT_READS: usize = 4;
/// Blocks and transactions that stay in the cache.
const MAX_CACHED_BLOCKS: usize = 4_096;
const MAX_CACHED_TXS: usize = 500_000;

/// Reads blocks and remembers the hashes of their transactions. Clones share the memory.
#[derive(Clone, Default)]
pub struct BlockReader(Arc<Mutex<BlockCache>>);

/// Hashes of the transactions of a block, in order.
type BlockHashes = Arc<[String]>;

#[derive(Default)]
struct BlockCache {
    blocks: BTreeMap<u64, BlockHashes>,
    tx_count: usize,
}

impl BlockCache {
    fn insert(&mut self, height: u64, hashes: BlockHashes) {
        self.tx_count += hashes.len();
        if let Some(earlier) = self.blocks.insert(height, hashes) {
            self.tx_count -= earlier.len();
        }
        while self.blocks.len() > MAX_CACHED_BLOCKS || self.tx_count > MAX_CACHED_TXS {
            let Some((_, oldest)) = self.blocks.pop_first() else { return };
            self.tx_count -= oldest.len();
        }
    }
}

impl BlockReader {
    /// Looks for transactions in the blocks that decide each of them. `wanted` has the heights for each hash. A block that the node
    /// lacks is asked of the other nodes.
    ///
    /// # Errors
    /// When a node does not answer. A block that no node has is no error.
    pub async fn find_evidence(
        &self,
        node: &NodeClient,
        wanted: &HashMap<String, RangeInclusive<u64>>,
    ) -> Result<HashMap<String, BlockEvidence>, NodeClientError> {
        let mut evidence: HashMap<String, BlockEvidence> = wanted
            .iter()
            .map(|(hash, heights)| {
                let searched_through = (*heights.end()).max(heights.start().saturating_sub(1));
                (hash.clone(), BlockEvidence { searched_through, ..BlockEvidence::default() })
            })
            .collect();
        let places = self.find_places(node, wanted, &mut evidence).await?;
        for (height, positions) in places {
            let results = read_results(node.clone(), height).await?;
            for (hash, position) in positions {
                let Some(found) = evidence.get_mut(&hash) else { continue };
                match results.as_ref().and_then(|results| results.get(position)) {
                    Some(result) => found.results.push((height, Box::new(result.clone()))),
                    // Without its result a block proves neither success nor failure.
                    None => found.missing.push(height),
                }
            }
        }
        for found in evidence.values_mut() {
            found.missing.sort_unstable();
        }
        Ok(evidence)
    }

    /// Heights and positions of the wanted hashes. The memory is locked meanwhile, so that no block is read twice.
    async fn find_places(
        &self,
        node: &NodeClient,
        wanted: &HashMap<String, RangeInclusive<u64>>,
        evidence: &mut HashMap<String, BlockEvidence>,
    ) -> Result<BTreeMap<u64, Vec<(String, usize)>>, NodeClientError> {
        let heights: BTreeSet<u64> = wanted.values().cloned().flatten().collect();
        let mut cache = self.0.lock().await;
        let mut places: BTreeMap<u64, Vec<(String, usize)>> = BTreeMap::new();
        let reads: Vec<_> = heights
            .into_iter()
            .map(|height| {
                let (node, known) = (node.clone(), cache.blocks.get(&height).cloned());
                async move {
                    match known {
                        Some(hashes) => Ok((height, Some(hashes), false)),
                        None => read_block(node, height).await.map(|hashes| (height, hashes, true)),
                    }
                }
            })
            .collect();
        let mut blocks = futures::stream::iter(reads).buffered(CONCURRENT_READS);
        while let Some(read) = blocks.next().await {
            let (height, hashes, is_new) = read?;
            let Some(hashes) = hashes else {
                let undecided = wanted.iter().filter(|(_, heights)| heights.contains(&height));
                for (hash, _) in undecided {
                    evidence.entry(hash.clone()).or_default().missing.push(height);
                }
                continue;
            };
            for (position, hash) in hashes.iter().enumerate() {
                if wanted.get(hash).is_some_and(|heights| heights.contains(&height)) {
                    places.entry(height).or_default().push((hash.clone(), position));
                }
            }
            if is_new {
                cache.insert(height, hashes);
            }
        }
        Ok(places)
    }
}

/// The result of a transaction in the block at a height; `None` when no node has the block, or when it does not contain the
/// transaction.
pub async fn read_result(node: &NodeClient, height: u64, hash: &str) -> Result<Option<ExecTxResult>, NodeClientError> {
    let Some(hashes) = read_block(node.clone(), height).await? else { return Ok(None) };
    let Some(position) = hashes.iter().position(|known| known == hash) else { return Ok(None) };
    let results = read_results(node.clone(), height).await?;
    Ok(results.and_then(|results| results.into_iter().nth(position)))
}

/// Hashes of the transactions of a block; `None` when no node has it.
async fn read_block(node: NodeClient, height: u64) -> Result<Option<BlockHashes>, NodeClientError> {
    let read = |node: NodeClient| async move {
        let block = node.block(height).await?;
        hash_txs(&block.block.data).ok_or_else(|| {
            let reason = format!("block {height} has a transaction that is no base64");
            node.endpoints().current().protocol_error(reason, &[]).into()
        })
    };
    read_anywhere(node, "block", read).await
}

/// `None` when a transaction is no base64: such a block proves the absence of nothing.
fn hash_txs(data: &BlockData) -> Option<BlockHashes> {
    data.txs.iter().map(|text| STANDARD.decode(text).ok().map(|bytes| tx_hash(&bytes))).collect()
}

/// Results of the transactions of a block; `None` when no node has them.
async fn read_results(node: NodeClient, height: u64) -> Result<Option<Vec<ExecTxResult>>, NodeClientError> {
    let results = read_anywhere(node, "results", |node| async move { node.block_results(height).await }).await?;
    Ok(results.map(|results| results.txs_results))
}

/// Asks the node, and the others for a block that it lacks. `None` when all of them lack it.
async fn read_anywhere<T, F>(
    node: NodeClient,
    part: &'static str,
    read: impl Fn(NodeClient) -> F,
) -> Result<Option<T>, NodeClientError>
where
    F: Future<Output = Result<T, NodeClientError>>,
{
    let mut silent = None;
    let others = node.alternatives();
    for node in std::iter::once(node).chain(others) {
        match read(node).await {
            Ok(found) => {
                metrics::record_block_read(part, "read");
                return Ok(Some(found));
            }
            Err(NodeClientError::Rpc { .. }) => {}
            Err(error) => silent = silent.or(Some(error)),
        }
    }
    match silent {
        // A node that does not answer may have it.
        Some(error) => Err(error),
        None => {
            metrics::record_block_read(part, "missing");
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_with_an_unreadable_transaction_proves_nothing() {
        let hashes = |txs: &[&str]| hash_txs(&BlockData { txs: txs.iter().map(|text| (*text).to_owned()).collect() });
        assert_eq!(hashes(&[]).map(|hashes| hashes.len()), Some(0));
        assert_eq!(hashes(&["AQ==", "Ag=="]).map(|hashes| hashes.len()), Some(2));
        assert_eq!(hashes(&["AQ==", "?"]), None);
    }

    #[test]
    fn the_cache_keeps_the_newest_blocks_within_its_bounds() {
        let (mut cache, hashes) = (BlockCache::default(), |count: usize| vec!["A".to_owned(); count].into());
        for height in 0..MAX_CACHED_BLOCKS as u64 + 5 {
            cache.insert(height, hashes(1));
        }
        assert_eq!((cache.blocks.len(), cache.blocks.first_key_value().map(|(height, _)| *height)), (4_096, Some(5)));
        cache.insert(9_000, hashes(MAX_CACHED_TXS - 1));
        assert_eq!((cache.blocks.len(), cache.tx_count), (2, MAX_CACHED_TXS));
        cache.insert(9_000, hashes(3));
        assert_eq!((cache.blocks.len(), cache.tx_count), (2, 4));
    }
}
