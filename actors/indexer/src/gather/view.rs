//! The registry around one block: what was stored before it, and what it changes.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;

use crate::{
    block::Cause,
    store::{Change, Filter, Kind, Store, StoreError},
};

/// An entity's state; shared, since one block asks for the same ones again and again.
pub type Body = Option<Arc<Value>>;

/// A change with what was there before, and what made it.
#[derive(Debug)]
pub struct Step {
    pub change: Change,
    pub before: Body,
    pub causes: Vec<Cause>,
}

impl Step {
    /// Id or name under which activity logs know the entity.
    pub fn key(&self) -> String {
        let change = &self.change;
        match (change.kind, change.id, &change.name) {
            (Kind::Params, _, Some(name)) | (_, None, Some(name)) => name.clone(),
            (_, Some(id), _) => id.to_string(),
            (_, None, None) => String::new(),
        }
    }
}

/// Reads of the state before a block and after it.
pub struct View<'a> {
    store: &'a Store,
    height: u64,
    before: Mutex<HashMap<(Kind, u64), Body>>,
    pub steps: Vec<Step>,
}

impl<'a> View<'a> {
    pub fn new(store: &'a Store, height: u64) -> Self {
        Self { store, height, before: Mutex::default(), steps: Vec::new() }
    }

    /// State before the block.
    pub async fn before(&self, kind: Kind, id: u64) -> Result<Body, StoreError> {
        if let Some(known) = self.before.lock().unwrap_or_else(PoisonError::into_inner).get(&(kind, id)) {
            return Ok(known.clone());
        }
        let body = self.store.entity(kind, id, self.height).await?.map(Arc::new);
        self.before.lock().unwrap_or_else(PoisonError::into_inner).insert((kind, id), body.clone());
        Ok(body)
    }

    /// State before the block of what is known by a name.
    pub async fn find_before(&self, change: &Change) -> Result<Body, StoreError> {
        if let Some(id) = change.id {
            return self.before(change.kind, id).await;
        }
        let filter = Filter {
            corporation_id: change.corporation_id,
            parent_id: change.parent_id,
            name: change.name.clone(),
            did: None,
        };
        Ok(self.store.find(change.kind, &filter, self.height).await?.map(|stored| Arc::new(stored.body)))
    }

    /// State after the block.
    pub async fn after(&self, kind: Kind, id: u64) -> Result<Body, StoreError> {
        let changed = self.steps.iter().find(|step| step.change.kind == kind && step.change.id == Some(id));
        match changed {
            Some(step) => Ok(step.change.body.clone().map(Arc::new)),
            None => self.before(kind, id).await,
        }
    }

    /// The corporation of a policy address.
    pub async fn corporation_at(&self, address: &str) -> Result<Option<u64>, StoreError> {
        self.named(Kind::Corporation, address).await
    }

    async fn named(&self, kind: Kind, name: &str) -> Result<Option<u64>, StoreError> {
        let is_it = |step: &&Step| step.change.kind == kind && step.change.name.as_deref() == Some(name);
        if let Some(step) = self.steps.iter().find(is_it) {
            return Ok(step.change.id);
        }
        let filter = Filter { name: Some(name.to_owned()), ..Filter::default() };
        Ok(self.store.find(kind, &filter, self.height).await?.map(|stored| stored.id))
    }

    /// Policy address and corporation of a group.
    pub async fn group(&self, group_id: u64) -> Result<Option<(u64, String)>, StoreError> {
        let is_it = |step: &&Step| step.change.kind == Kind::Group && step.change.parent_id == Some(group_id);
        if let Some(step) = self.steps.iter().find(is_it) {
            return Ok(step.change.id.zip(step.change.name.clone()));
        }
        let filter = Filter { parent_id: Some(group_id), ..Filter::default() };
        let found = self.store.find(Kind::Group, &filter, self.height).await?;
        Ok(found.and_then(|stored| {
            let address = stored.body["policy"]["address"].as_str()?.to_owned();
            Some((stored.id, address))
        }))
    }

    /// Everything of a kind that belongs to a corporation, before the block.
    pub async fn owned_before(&self, kind: Kind, corporation_id: u64) -> Result<Vec<(u64, Value)>, StoreError> {
        let filter = Filter { corporation_id: Some(corporation_id), ..Filter::default() };
        let found = self.store.all(kind, self.height, &filter).await?;
        Ok(found.into_iter().map(|stored| (stored.id, stored.body)).collect())
    }

    /// Participants up the chain of validators, the nearest first, without the participant itself.
    pub async fn ancestors(&self, participant: &Value) -> Result<Vec<(u64, Arc<Value>)>, StoreError> {
        let mut found: Vec<(u64, Arc<Value>)> = Vec::new();
        let mut next = participant["validator_participant_id"].as_u64();
        while let Some(id) = next {
            let Some(body) = self.after(Kind::Participant, id).await? else { break };
            next = body["validator_participant_id"].as_u64();
            if found.iter().any(|(known, _)| *known == id) {
                break;
            }
            found.push((id, body));
        }
        Ok(found)
    }
}
