//! The write of several blocks in one transaction.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use svc_otel::{
    metrics::{self, BlockStage},
    trace,
};
use svc_wire::event_stream::BlockMessage;
use tracing::{Instrument, Span};

use super::Args;
use crate::{
    ingest::{
        BlockIngester, FetchedBlock, IngestError, NextBlock, NextLink, NodeBlock, NodeReader, RegistryCache, judge_next,
    },
    store::{BlockWrite, Checkpoint, IndexStore, StoredBlock, iso_millis},
};

/// Time after which a transaction takes no further block: readers of the trust verdicts wait for it.
const MAX_BATCH_TIME: Duration = Duration::from_millis(250);

/// Writes blocks in one transaction, until one of them fails, needs the node, or the time of a transaction is over. Returns those that
/// are in the store.
pub(super) async fn write_blocks(
    args: &Args,
    fetched: &[Arc<FetchedBlock>],
) -> (Vec<BlockMessage>, Option<IngestError>) {
    let (started, mut written) = (Instant::now(), Vec::new());
    let failure = match fetched.split_first() {
        Some((first, others)) => write_batch(args, first, others, &mut written).await.err(),
        None => None,
    };
    metrics::record_indexer_stage(BlockStage::Write, started.elapsed());
    match failure {
        // The blocks before are in the store, and the next transaction begins with this one.
        Some(IngestError::NodeNeeded) => (written, None),
        failure => (written, failure),
    }
}

/// The first block is gathered before the transaction begins: the node may be asked for it. The others are gathered within, and see the
/// blocks before them. Blocks go into `written` once they are committed.
async fn write_batch(
    args: &Args,
    first: &FetchedBlock,
    others: &[Arc<FetchedBlock>],
    written: &mut Vec<BlockMessage>,
) -> Result<(), IngestError> {
    let newest = args.store.newest_block().await?;
    let learnt = judge_block(args, &newest, first).await?;
    let checkpoint = newest.place;
    let mut due = DueClock::read(&args.store, &checkpoint).await?;
    let source = BlockSource {
        store: &args.store,
        cache: &RegistryCache::default(),
        checkpoint: &checkpoint,
        may_ask_node: true,
    };
    let block = match gather_block(args, &due, source, first).await {
        Err(IngestError::Node(error)) if error.is_pruned() => {
            return Err(args.pruned_height(first.facts.height).await?.into());
        }
        gathered => gathered?,
    };
    let (started, mut failure) = (Instant::now(), Ok(()));
    let mut batch = args.store.begin_blocks().await?;
    if let Some(hash) = learnt.filter(|_| batch.checkpoint().height == checkpoint.height) {
        batch.learn_hash(&hash).await?;
    }
    due.note(&block);
    batch.write(&block).await?;
    // Another process may have written between the first block's reads and the transaction: a cache begins with it.
    let (mut gathered, cache) = (vec![block], RegistryCache::default());
    for fetched in others {
        if started.elapsed() > MAX_BATCH_TIME {
            break;
        }
        // The node is asked for nothing: a store without a hash has learnt it with the first block.
        if let Err(error) = judge_known_block(batch.newest(), None, fetched) {
            failure = Err(error);
            break;
        }
        let checkpoint = batch.checkpoint().clone();
        let source = BlockSource { store: batch.store(), cache: &cache, checkpoint: &checkpoint, may_ask_node: false };
        let block = match gather_block(args, &due, source, fetched).await {
            Ok(block) => block,
            // The state of the transaction is unknown after an error of the store.
            Err(error @ IngestError::Store(_)) => return Err(error),
            Err(error) => {
                failure = Err(error);
                break;
            }
        };
        if batch.write(&block).await? {
            cache.apply(&block.changes);
        } else {
            // Another process has written it, so that the cache is of another height.
            cache.clear();
        }
        // An instant that is over makes way for the next one.
        if due.is_reached(block.time) {
            due = DueClock::read(batch.store(), batch.checkpoint()).await?;
        } else {
            due.note(&block);
        }
        gathered.push(block);
    }
    batch.commit().await?;
    written.extend(gathered.into_iter().map(|block| BlockMessage {
        block: block.height,
        block_time: iso_millis(block.time),
        events: block.events,
    }));
    failure
}

/// Fails unless a block follows the newest one of the store. Returns the hash of the newest one, where the store has none.
async fn judge_block(args: &Args, newest: &StoredBlock, fetched: &FetchedBlock) -> Result<Option<String>, IngestError> {
    let height = newest.place.height;
    let before = match (&newest.hash, height) {
        (Some(_), _) | (None, 0) => None,
        (None, height) => match args.node.read_at_any(|node| async move { node.block(height).await }).await {
            Ok(block) => Some(NodeBlock::new(&block)),
            Err(error) if error.is_pruned() => {
                tracing::warn!(
                    height,
                    "no node has the newest block of the index any more: the next one is not compared with it"
                );
                None
            }
            Err(error) => return Err(error.into()),
        },
    };
    judge_known_block(newest, before.as_ref(), fetched)
}

fn judge_known_block(
    newest: &StoredBlock,
    before: Option<&NodeBlock>,
    fetched: &FetchedBlock,
) -> Result<Option<String>, IngestError> {
    let FetchedBlock { origin, facts, .. } = fetched;
    match judge_next(newest, before, &NextLink { height: facts.height, last_hash: &facts.last_hash }) {
        NextBlock::Take => Ok(None),
        NextBlock::Learn(hash) => Ok(Some(hash)),
        NextBlock::Mismatch(mismatch) => Err(IngestError::OtherHistory { mismatch, origin: origin.clone() }),
    }
}

/// The next instant at which time alone changes an entity: a block before it that names no entity and has no event has no rows but its
/// own.
struct DueClock {
    /// Nanoseconds since the epoch; `None` when time changes nothing any more.
    next: Option<i128>,
    /// The first block of a store has rows in any case.
    is_empty: bool,
}

impl DueClock {
    async fn read(store: &IndexStore, checkpoint: &Checkpoint) -> Result<Self, IngestError> {
        Ok(Self { next: store.next_due_after(checkpoint.time).await?, is_empty: checkpoint.height == 0 })
    }

    /// Whether time alone may change an entity up to an instant.
    fn is_reached(&self, time: i128) -> bool {
        self.next.is_some_and(|next| next <= time)
    }

    /// The rows of a block without content; `None` for any other block.
    fn quiet_block(&self, fetched: &FetchedBlock) -> Option<BlockWrite> {
        let facts = &fetched.facts;
        let is_quiet = !self.is_empty && facts.is_empty() && !self.is_reached(facts.time);
        let hash = Some(facts.hash.clone());
        is_quiet.then(|| BlockWrite { height: facts.height, time: facts.time, hash, ..BlockWrite::default() })
    }

    /// Takes in the instants that a block schedules.
    fn note(&mut self, block: &BlockWrite) {
        self.is_empty = false;
        let earliest = block.schedule.iter().map(|change| change.due).chain(self.next).min();
        self.next = earliest;
    }
}

/// The state that a block is gathered from.
struct BlockSource<'a> {
    store: &'a IndexStore,
    cache: &'a RegistryCache,
    checkpoint: &'a Checkpoint,
    /// Whether no transaction waits for the node's answers.
    may_ask_node: bool,
}

/// Gathers the rows of a block.
async fn gather_block(
    args: &Args,
    due: &DueClock,
    source: BlockSource<'_>,
    fetched: &FetchedBlock,
) -> Result<BlockWrite, IngestError> {
    if let Some(block) = due.quiet_block(fetched) {
        return Ok(block);
    }
    let registry = args.messages.get();
    let gather = async {
        let BlockSource { store, cache, checkpoint, may_ask_node } = source;
        let ingester = BlockIngester {
            node: NodeReader { node: &args.node, registry: &registry },
            store,
            cache,
            checkpoint,
            may_be_due: due.is_reached(fetched.facts.time),
            may_ask_node,
            known_messages: &args.known_messages,
        };
        let started = Instant::now();
        let block = ingester.ingest(fetched).await?;
        metrics::record_indexer_stage(BlockStage::Gather, started.elapsed());
        trace::record_block(&Span::current(), block.events.len(), block.changes.len());
        Ok(block)
    };
    gather.instrument(trace::index_block_span(fetched.facts.height)).await
}
