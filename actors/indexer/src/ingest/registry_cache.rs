//! The newest state of entities, as the blocks of a transaction have read and changed it. An entity that is known here is not read again.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;

use crate::store::{EntityChange, EntityFilter, EntityKind, IndexStore, IndexStoreError};

/// Entities and searches that are kept; at more, all are forgotten.
const MAX_KEPT: usize = 8_192;

/// The state of an entity; `None` when it does not exist. Shared, since blocks read the same entity many times.
pub type EntityBody = Option<Arc<Value>>;

/// An entity that a search has found, with its id.
pub type FoundEntity = Option<(u64, Arc<Value>)>;

/// The newest state, as far as it is known. Valid as long as every change of the store is taken in.
#[derive(Debug, Default)]
pub struct RegistryCache(Mutex<KnownEntities>);

#[derive(Debug, Default)]
struct KnownEntities {
    by_id: HashMap<(EntityKind, u64), EntityBody>,
    searches: HashMap<EntityKind, HashMap<EntityFilter, FoundEntity>>,
}

impl RegistryCache {
    fn known(&self) -> MutexGuard<'_, KnownEntities> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of an entity before the block of a height, which is the next one of the store.
    pub async fn entity(
        &self,
        store: &IndexStore,
        (kind, id): (EntityKind, u64),
        height: u64,
    ) -> Result<EntityBody, IndexStoreError> {
        if let Some(known) = self.known().by_id.get(&(kind, id)) {
            return Ok(known.clone());
        }
        let body = store.entity(kind, id, height).await?.map(Arc::new);
        self.known().by_id.insert((kind, id), body.clone());
        Ok(body)
    }

    /// Returns the first entity of a kind that passes the filter before the block of a height.
    pub async fn find(
        &self,
        store: &IndexStore,
        kind: EntityKind,
        filter: EntityFilter,
        height: u64,
    ) -> Result<FoundEntity, IndexStoreError> {
        if let Some(known) = self.known().searches.get(&kind).and_then(|searches| searches.get(&filter)) {
            return Ok(known.clone());
        }
        let found = store.find_entity(kind, &filter, height).await?.map(|found| (found.id, Arc::new(found.body)));
        self.known().searches.entry(kind).or_default().insert(filter, found.clone());
        Ok(found)
    }

    /// Forgets everything.
    pub fn clear(&self) {
        *self.known() = KnownEntities::default();
    }

    /// Takes in the changes of a block that was written.
    pub fn apply(&self, changes: &[EntityChange]) {
        let mut known = self.known();
        for change in changes {
            known.apply(change);
        }
        let searches: usize = known.searches.values().map(HashMap::len).sum();
        if known.by_id.len() + searches > MAX_KEPT {
            *known = KnownEntities::default();
        }
    }
}

impl KnownEntities {
    fn apply(&mut self, change: &EntityChange) {
        let kind = change.kind;
        let searches = self.searches.entry(kind).or_default();
        let by_name = EntityFilter::identity(change);
        let found_id = searches.get(&by_name).and_then(|found| found.as_ref().map(|(id, _)| *id));
        let Some(id) = change.id.or(found_id) else {
            // The store assigns the id.
            self.by_id.retain(|(other, _), _| *other != kind);
            searches.retain(|filter, found| found.is_some() && !filter.passes(change));
            return;
        };
        let body = change.stored_body(id).map(Arc::new);
        self.by_id.insert((kind, id), body.clone());
        searches.retain(|filter, found| {
            let passes = body.is_some() && filter.passes(change);
            match (found, &body) {
                (Some((known, found)), Some(body)) if *known == id && passes => {
                    found.clone_from(body);
                    true
                }
                (Some((known, _)), _) => *known != id && !(passes && id < *known),
                (None, _) => !passes,
            }
        });
    }
}
