//! The first state of a store: all entities that the node has after the first block, those of earlier blocks or of the genesis. They are read
//! list by list and written page by page as if the first block had changed them. The block itself is written when everything is there: until
//! then the store has no height. A start that ends between two pages goes on with the next list.
//!
//! The node cannot list digests. Those of the genesis are in the genesis document; a store that begins in the middle of a chain asks the node
//! for each earlier digest that a read needs.

mod genesis;
mod listing;
mod pages;
mod position;

use std::collections::BTreeMap;

pub use listing::{list_entities, scan_ids, walk_authorizations};
use pages::{Listing, StartEntry, StartPage, StartPages};
use position::StartPosition;

use super::{
    block_ingester::{BlockIngester, START},
    error::IngestError,
    node_reader::{EntityReading, NodeReader},
    registry_cache::RegistryCache,
};
use crate::{
    block::{BlockFacts, EntityRef, KnownMessages, VoteRecord},
    store::{Checkpoint, EntityFilter, EntityKind, IndexStore, IndexStoreError, StoredStart},
};

/// A first state of which a page was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartProgress {
    /// Entities and votes of the page.
    pub entries: usize,
    /// Pages so far.
    pub pages: u64,
}

/// The first state of a store, and its first block.
pub struct FirstState<'a> {
    pub source: NodeReader<'a>,
    pub store: &'a IndexStore,
    pub known_messages: &'a KnownMessages,
    /// The first block.
    pub facts: &'a BlockFacts,
}

impl FirstState<'_> {
    /// Writes everything that is still missing; `on_page` hears of each page. Fails when a read or a write fails; the pages that are written
    /// stay.
    pub async fn write(&self, on_page: &(dyn Fn(StartProgress) + Send + Sync)) -> Result<(), IngestError> {
        let (block, first) = ((self.facts.height, self.facts.hash.as_str()), to_text(&StartPosition::FIRST)?);
        let stored = self.store.begin_start(block, &first, |text| parse(text).is_some()).await?;
        // Another process may have written the block meanwhile.
        let Some(mut stored) = stored else { return Ok(()) };
        if stored.pages > 0 {
            tracing::info!(
                height = stored.height,
                pages = stored.pages,
                position = stored.position,
                "the first entities of the index go on"
            );
        }
        let mut pages = StartPages::resume(parse(&stored.position).unwrap_or(StartPosition::FIRST));
        loop {
            while let Some(position) = pages.wanted_list() {
                let listing = listing::read_list(self.source, Some(self.store), position, self.facts.height).await?;
                pages.add(listing.unwrap_or_else(|| Listing::of([], StartPosition::End)));
            }
            let Some(page) = pages.take() else { return Ok(()) };
            let entries = page.entries.len();
            stored = self.write_page(page, &stored).await?;
            on_page(StartProgress { entries, pages: stored.pages });
        }
    }

    async fn write_page(&self, page: StartPage, before: &StoredStart) -> Result<StoredStart, IngestError> {
        let (mut missing, mut readings, mut votes) = (Vec::new(), BTreeMap::new(), Vec::<VoteRecord>::new());
        for entry in page.entries {
            match entry {
                StartEntry::Vote(vote) => votes.push(vote),
                StartEntry::Entity(entity, Some(reading)) => {
                    readings.insert(entity, *reading);
                }
                StartEntry::Entity(entity, None) => {
                    if !self.is_written(&entity).await? {
                        missing.push(entity);
                    }
                }
            }
        }
        let read: BTreeMap<EntityRef, EntityReading> = self.source.read_entities(missing, self.facts.height).await?;
        readings.extend(read);
        let facts = self.facts.of_state(readings.keys().cloned(), votes, START);
        let ingester = BlockIngester {
            node: self.source,
            store: self.store,
            cache: &RegistryCache::default(),
            checkpoint: &Checkpoint::default(),
            may_be_due: false,
            may_ask_node: true,
            known_messages: self.known_messages,
        };
        let rows = ingester.ingest_page(&facts, &readings).await?;
        let position = (to_text(&page.position)?, page.position == StartPosition::End);
        Ok(self.store.write_start_page(before, (&position.0, position.1), &rows).await?)
    }

    /// Whether the store has an entity of a list that may repeat some: pages of sessions do, and so does a list that was split.
    async fn is_written(&self, entity: &EntityRef) -> Result<bool, IndexStoreError> {
        let (kind, name) = match entity {
            EntityRef::Session(id) => (EntityKind::Session, id),
            EntityRef::Digest(digest) => (EntityKind::Digest, digest),
            _ => return Ok(false),
        };
        let filter = EntityFilter { name: Some(name.clone()), ..EntityFilter::default() };
        Ok(self.store.find_entity(kind, &filter, self.facts.height).await?.is_some())
    }
}

fn parse(text: &str) -> Option<StartPosition> {
    serde_json::from_str(text).ok()
}

fn to_text(position: &StartPosition) -> Result<String, IndexStoreError> {
    serde_json::to_string(position).map_err(|error| IndexStoreError::CorruptRow(error.to_string()))
}

/// Returns a corporation that the node has at a height and the store lacks.
pub async fn find_missing_corporation(
    source: NodeReader<'_>,
    store: &IndexStore,
    height: u64,
) -> Result<Option<u64>, IngestError> {
    for corporation in scan_ids(source, EntityRef::Corporation, 1, height).await? {
        if let EntityRef::Corporation(id) = corporation
            && store.entity(EntityKind::Corporation, id, height).await?.is_none()
        {
            return Ok(Some(id));
        }
    }
    Ok(None)
}
