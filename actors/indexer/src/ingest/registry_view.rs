//! The registry around one block: the stored state before it, and the changes that it makes.

use std::sync::Arc;

use serde_json::Value;

use super::registry_cache::{EntityBody, FoundEntity, RegistryCache};
use crate::{
    block::ChangeCause,
    store::{EntityChange, EntityFilter, EntityKind, IndexStore, IndexStoreError},
};

/// A change with the state before it, and its causes.
#[derive(Debug)]
pub struct EntityTransition {
    pub change: EntityChange,
    pub before: EntityBody,
    pub causes: Vec<ChangeCause>,
}

impl EntityTransition {
    /// Returns the id or name of the entity in activity logs.
    pub fn entity_key(&self) -> String {
        let change = &self.change;
        match (change.kind, change.id, &change.name) {
            (EntityKind::Params, _, Some(name)) | (_, None, Some(name)) => name.clone(),
            (_, Some(id), _) => id.to_string(),
            (_, None, None) => String::new(),
        }
    }
}

/// The state before a block and after it.
pub struct RegistryView<'a> {
    store: &'a IndexStore,
    /// The state before the block, as far as it was read.
    cache: &'a RegistryCache,
    height: u64,
    pub transitions: Vec<EntityTransition>,
}

impl<'a> RegistryView<'a> {
    pub fn new(store: &'a IndexStore, cache: &'a RegistryCache, height: u64) -> Self {
        Self { store, cache, height, transitions: Vec::new() }
    }

    /// Returns the state of an entity before the block.
    pub async fn entity_before(&self, kind: EntityKind, id: u64) -> Result<EntityBody, IndexStoreError> {
        self.cache.entity(self.store, (kind, id), self.height).await
    }

    /// Returns the state before the block of an entity that its id or its name identifies.
    pub async fn find_entity_before(&self, change: &EntityChange) -> Result<EntityBody, IndexStoreError> {
        if let Some(id) = change.id {
            return self.entity_before(change.kind, id).await;
        }
        let found = self.find_before(change.kind, EntityFilter::identity(change)).await?;
        Ok(found.map(|(_, body)| body))
    }

    async fn find_before(&self, kind: EntityKind, filter: EntityFilter) -> Result<FoundEntity, IndexStoreError> {
        self.cache.find(self.store, kind, filter, self.height).await
    }

    /// Returns the state of an entity after the block.
    pub async fn entity_after(&self, kind: EntityKind, id: u64) -> Result<EntityBody, IndexStoreError> {
        let changed = self.transitions.iter().find(|step| step.change.kind == kind && step.change.id == Some(id));
        match changed {
            Some(step) => Ok(step.change.body.clone().map(Arc::new)),
            None => self.entity_before(kind, id).await,
        }
    }

    /// Returns the corporation of a policy address.
    pub async fn find_corporation(&self, address: &str) -> Result<Option<u64>, IndexStoreError> {
        self.find_by_name(EntityKind::Corporation, address).await
    }

    async fn find_by_name(&self, kind: EntityKind, name: &str) -> Result<Option<u64>, IndexStoreError> {
        let is_match = |step: &&EntityTransition| step.change.kind == kind && step.change.name.as_deref() == Some(name);
        if let Some(step) = self.transitions.iter().find(is_match) {
            return Ok(step.change.id);
        }
        let filter = EntityFilter { name: Some(name.to_owned()), ..EntityFilter::default() };
        Ok(self.find_before(kind, filter).await?.map(|(id, _)| id))
    }

    /// Returns corporation and policy address of a group.
    pub async fn find_group(&self, group_id: u64) -> Result<Option<(u64, String)>, IndexStoreError> {
        let is_match =
            |step: &&EntityTransition| step.change.kind == EntityKind::Group && step.change.parent_id == Some(group_id);
        if let Some(step) = self.transitions.iter().find(is_match) {
            return Ok(step.change.id.zip(step.change.name.clone()));
        }
        let filter = EntityFilter { parent_id: Some(group_id), ..EntityFilter::default() };
        let found = self.find_before(EntityKind::Group, filter).await?;
        Ok(found.and_then(|(id, body)| Some((id, body["policy"]["address"].as_str()?.to_owned()))))
    }

    /// Returns the entities of a kind that a corporation owns before the block, each with its id.
    pub async fn list_owned_before(
        &self,
        kind: EntityKind,
        corporation_id: u64,
    ) -> Result<Vec<(u64, Value)>, IndexStoreError> {
        let filter = EntityFilter { corporation_id: Some(corporation_id), ..EntityFilter::default() };
        let found = self.store.list_all(kind, self.height, &filter).await?;
        Ok(found.into_iter().map(|stored| (stored.id, stored.body)).collect())
    }

    /// Returns all entities of a kind before this block.
    pub async fn list_before(&self, kind: EntityKind) -> Result<Vec<(u64, Value)>, IndexStoreError> {
        let found = self.store.list_all(kind, self.height, &EntityFilter::default()).await?;
        Ok(found.into_iter().map(|stored| (stored.id, stored.body)).collect())
    }

    /// Returns the validators above a participant, the nearest first, each with its id.
    pub async fn list_ancestors(&self, participant: &Value) -> Result<Vec<(u64, Arc<Value>)>, IndexStoreError> {
        let mut found: Vec<(u64, Arc<Value>)> = Vec::new();
        let mut next = participant["validator_participant_id"].as_u64();
        while let Some(id) = next {
            let Some(body) = self.entity_after(EntityKind::Participant, id).await? else { break };
            next = body["validator_participant_id"].as_u64();
            if found.iter().any(|(known, _)| *known == id) {
                break;
            }
            found.push((id, body));
        }
        Ok(found)
    }
}
