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

use super::{
    account_txs::{BlockSigner, read_account_txs},
    core::BlockEvidence,
};

/// Blocks that are read at once.
const CONCURRENT_READS: usize = 4;
/// Blocks and transactions that stay in the cache.
const MAX_CACHED_BLOCKS: usize = 4_096;
const MAX_CACHED_TXS: usize = 500_000;

/// Reads blocks and remembers the hashes of their transactions. Clones share the memory.
#[derive(Clone, Default)]
pub struct BlockReader(Arc<Mutex<BlockCache>>);

/// Blocks in which to look for a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockSearch {
    /// Their heights.
    pub heights: RangeInclusive<u64>,
    /// The sequence of the transaction, when another transaction of the account that used it is looked for too.
    pub sequence: Option<u64>,
}

/// Hashes of the transactions of a block, in order.
type BlockHashes = Arc<[String]>;
/// Sequences that the account has used in a block, with the hashes of the transactions.
type UsedSequences = Arc<[(u64, String)]>;

#[derive(Default)]
struct BlockCache {
    blocks: BTreeMap<u64, BlockHashes>,
    tx_count: usize,
    used_sequences: BTreeMap<u64, UsedSequences>,
}

impl BlockCache {
    fn insert(&mut self, height: u64, hashes: BlockHashes) {
        self.tx_count += hashes.len();
        if let Some(earlier) = self.blocks.insert(height, hashes) {
            self.tx_count -= earlier.len();
        }
        while self.blocks.len() > MAX_CACHED_BLOCKS || self.tx_count > MAX_CACHED_TXS {
            let Some((height, oldest)) = self.blocks.pop_first() else { return };
            self.tx_count -= oldest.len();
            self.used_sequences.remove(&height);
        }
    }
}

impl BlockReader {
    /// Looks for transactions in the blocks that decide each of them. `wanted` has the search for each hash. A block that the node
    /// lacks is asked of the other nodes.
    pub async fn find_evidence(
        &self,
        node: &NodeClient,
        signer: &BlockSigner,
        wanted: &HashMap<String, BlockSearch>,
    ) -> HashMap<String, BlockEvidence> {
        let mut evidence: HashMap<String, BlockEvidence> = wanted
            .iter()
            .map(|(hash, BlockSearch { heights, .. })| {
                let searched_through = (*heights.end()).max(heights.start().saturating_sub(1));
                (hash.clone(), BlockEvidence { searched_through, ..BlockEvidence::default() })
            })
            .collect();
        let places = self.find_places(node, wanted, &mut evidence).await;
        for (height, positions) in places {
            let results = read_results(node.clone(), height).await;
            for (hash, position) in positions {
                let Some(found) = evidence.get_mut(&hash) else { continue };
                match results.as_ref().map(|results| results.as_ref().and_then(|results| results.get(position))) {
                    Ok(Some(result)) => found.results.push((height, Box::new(result.clone()))),
                    // Without its result a block proves neither success nor failure.
                    Ok(None) => found.missing.push(height),
                    Err(_) => found.unread.push(height),
                }
            }
        }
        self.find_displacements(node, signer, wanted, &mut evidence).await;
        for found in evidence.values_mut() {
            found.missing.sort_unstable();
        }
        evidence
    }

    /// Looks for other transactions that have used the wanted sequences. The results say where, and the signature of the account proves
    /// it: no node can invent a transaction that uses a sequence.
    async fn find_displacements(
        &self,
        node: &NodeClient,
        signer: &BlockSigner,
        wanted: &HashMap<String, BlockSearch>,
        evidence: &mut HashMap<String, BlockEvidence>,
    ) {
        let mut searches: BTreeMap<u64, Vec<(&String, u64)>> = BTreeMap::new();
        for (hash, search) in wanted {
            let Some(sequence) = search.sequence else { continue };
            for height in search.heights.clone() {
                searches.entry(height).or_default().push((hash, sequence));
            }
        }
        let mut cache = self.0.lock().await;
        for (height, searches) in searches {
            // An empty block has no results, and one that was not read is known to be missing.
            if cache.blocks.get(&height).is_none_or(|hashes| hashes.is_empty()) {
                continue;
            }
            let used = match cache.used_sequences.get(&height) {
                Some(used) => Ok(Some(Arc::clone(used))),
                None => read_used_sequences(node, height, signer).await,
            };
            for (hash, sequence) in searches {
                let Some(found) = evidence.get_mut(hash) else { continue };
                match &used {
                    Ok(Some(used)) => {
                        let is_other = used.iter().any(|(one, user)| *one == sequence && user != hash);
                        found.displaced_at = found.displaced_at.or(is_other.then_some(height));
                    }
                    Ok(None) => found.missing_results.push(height),
                    Err(_) => found.unread.push(height),
                }
            }
            if let Ok(Some(used)) = used {
                cache.used_sequences.insert(height, used);
            }
        }
    }

    /// Heights and positions of the wanted hashes. The memory is locked meanwhile, so that no block is read twice.
    async fn find_places(
        &self,
        node: &NodeClient,
        wanted: &HashMap<String, BlockSearch>,
        evidence: &mut HashMap<String, BlockEvidence>,
    ) -> BTreeMap<u64, Vec<(String, usize)>> {
        let heights: BTreeSet<u64> = wanted.values().flat_map(|search| search.heights.clone()).collect();
        let mut cache = self.0.lock().await;
        let mut places: BTreeMap<u64, Vec<(String, usize)>> = BTreeMap::new();
        let reads: Vec<_> = heights
            .into_iter()
            .map(|height| {
                let (node, known) = (node.clone(), cache.blocks.get(&height).cloned());
                async move {
                    match known {
                        Some(hashes) => (height, Ok(Some(hashes)), false),
                        None => (height, read_block(node, height).await, true),
                    }
                }
            })
            .collect();
        let mut blocks = futures::stream::iter(reads).buffered(CONCURRENT_READS);
        while let Some((height, read, is_new)) = blocks.next().await {
            let hashes = match read {
                Ok(Some(hashes)) => hashes,
                // One height without an answer does not keep the others from being read.
                gap => {
                    for (hash, _) in wanted.iter().filter(|(_, search)| search.heights.contains(&height)) {
                        let found = evidence.entry(hash.clone()).or_default();
                        let heights = if gap.is_ok() { &mut found.missing } else { &mut found.unread };
                        heights.push(height);
                    }
                    continue;
                }
            };
            for (position, hash) in hashes.iter().enumerate() {
                if wanted.get(hash).is_some_and(|search| search.heights.contains(&height)) {
                    places.entry(height).or_default().push((hash.clone(), position));
                }
            }
            if is_new {
                cache.insert(height, hashes);
            }
        }
        places
    }
}

/// The result of a transaction in the block at a height; `None` when no node has the block, or when it does not contain the
/// transaction.
pub async fn read_result(node: &NodeClient, height: u64, hash: &str) -> Result<Option<ExecTxResult>, NodeClientError> {
    let Some(hashes) = read_block(node.clone(), height).await? else { return Ok(None) };
    let results = read_results(node.clone(), height).await?;
    Ok(results.and_then(|results| result_of(hash, &hashes, results)))
}

fn result_of(hash: &str, hashes: &[String], results: Vec<ExecTxResult>) -> Option<ExecTxResult> {
    let position = hashes.iter().position(|known| known == hash)?;
    results.into_iter().nth(position)
}

/// The result of a transaction in the block at a height, as every node states it that has the block; `None` when no node shows it
/// there, or when two nodes contradict each other.
pub async fn read_agreed_result(
    node: &NodeClient,
    height: u64,
    hash: &str,
) -> Result<Option<ExecTxResult>, NodeClientError> {
    let Some(result) = read_result(node, height, hash).await? else { return Ok(None) };
    let others = node.alternatives().into_iter().map(|node| read_own_result(node, height, hash));
    for other in futures::future::join_all(others).await {
        // A node that lags, or does not answer, contradicts nothing.
        let Ok((origin, stated)) = other else { continue };
        let code = stated.map(|stated| stated.code);
        if code != Some(result.code) {
            tracing::error!(
                tx_hash = hash,
                height,
                code = result.code,
                origin,
                other_code = code,
                "nodes disagree on a result"
            );
            return Ok(None);
        }
    }
    Ok(Some(result))
}

/// The result of a transaction as one node states it, with the node's origin; `None` when the block does not contain it.
async fn read_own_result(
    node: NodeClient,
    height: u64,
    hash: &str,
) -> Result<(String, Option<ExecTxResult>), NodeClientError> {
    let (block, results) = (node.block(height).await?, node.block_results(height).await?.txs_results);
    let result = hash_txs(&block.block.data).and_then(|hashes| result_of(hash, &hashes, results));
    Ok((node.origin().to_owned(), result))
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
    read_anywhere(node, "block", height, read).await
}

/// `None` when a transaction is no base64: such a block proves the absence of nothing.
fn hash_txs(data: &BlockData) -> Option<BlockHashes> {
    data.txs.iter().map(|text| STANDARD.decode(text).ok().map(|bytes| tx_hash(&bytes))).collect()
}

/// Sequences that the account has used in a block, with the hashes of the transactions.
async fn read_used_sequences(
    node: &NodeClient,
    height: u64,
    signer: &BlockSigner,
) -> Result<Option<UsedSequences>, NodeClientError> {
    let found = read_account_txs(node, height, signer).await?;
    Ok(found.map(|found| found.into_iter().map(|tx| (tx.sequence, tx.hash)).collect()))
}

/// Results of the transactions of a block; `None` when no node has them.
pub(super) async fn read_results(node: NodeClient, height: u64) -> Result<Option<Vec<ExecTxResult>>, NodeClientError> {
    let read = |node: NodeClient| async move { node.block_results(height).await };
    let results = read_anywhere(node, "results", height, read).await?;
    Ok(results.map(|results| results.txs_results))
}

/// Asks the node, and the others for a block that it lacks. `None` when all of them lack it for good.
///
/// # Errors
/// When one of them may have it: it does not answer, has not reached the height, or answers with an error that says nothing of the
/// block.
pub(super) async fn read_anywhere<T, F>(
    node: NodeClient,
    part: &'static str,
    height: u64,
    read: impl Fn(NodeClient) -> F,
) -> Result<Option<T>, NodeClientError>
where
    F: Future<Output = Result<T, NodeClientError>>,
{
    let mut silent = None;
    let others = node.alternatives();
    for node in std::iter::once(node).chain(others) {
        match read(node.clone()).await {
            Ok(found) => {
                metrics::record_block_read(part, "read");
                return Ok(Some(found));
            }
            Err(error) if node.lacks_block(height, &error).await => {}
            Err(error) => silent = silent.or(Some(error)),
        }
    }
    match silent {
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
