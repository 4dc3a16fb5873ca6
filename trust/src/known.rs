//! What an evaluation may ask for, and what is known of it.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::reason::{Code, Reason};

/// Something an evaluation has to know. Also what a verdict depends on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Need {
    /// The document of a DID.
    Document(String),
    /// The text behind a URL.
    Resource(String),
    /// The participants of a DID.
    Participants(String),
    /// A credential schema of the registry.
    Schema(u64),
    /// When a digest was anchored, as the chain holds it: `sha384-…`.
    Digest(String),
}

/// Material that could not be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Which step failed.
    pub code: Code,
    /// What exactly.
    pub message: String,
}

impl From<&Failure> for Reason {
    fn from(failure: &Failure) -> Self {
        Self { message: failure.message.clone(), ..Self::bare(failure.code) }
    }
}

/// What a participant is at the evaluated block, as the indexer derives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// In force.
    Active,
    /// Its time is over.
    Expired,
    /// Its time has not come.
    Future,
    /// Withdrawn.
    Revoked,
    /// Punished.
    Slashed,
    /// Punished, and the damage repaired; it does not come back to life.
    Repaid,
    /// Never in force.
    Inactive,
}

/// A participant of a DID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Participant {
    /// Its id.
    pub id: u64,
    /// ISSUER, HOLDER, …
    pub role: String,
    /// Its schema.
    pub schema_id: u64,
    /// Since when it is in force, nanoseconds since the epoch.
    pub effective_from: Option<i128>,
    /// Until when.
    pub effective_until: Option<i128>,
    /// What it is at the evaluated block.
    pub state: State,
}

/// A credential schema of the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// Its id.
    pub id: u64,
    /// Its ecosystem.
    pub ecosystem_id: u64,
    /// DID of that ecosystem.
    pub ecosystem_did: String,
    /// Its text, byte for byte as the chain holds it.
    pub json_schema: String,
    /// `sha384` or `sha512`.
    pub digest_algorithm: String,
    /// Whether anybody may hold its credentials, without being a participant.
    pub is_open_to_holders: bool,
}

/// What is known. Everything may also be known to be missing.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// DID Documents.
    pub documents: HashMap<String, Result<Arc<Value>, Failure>>,
    /// Texts behind URLs.
    pub resources: HashMap<String, Result<Arc<str>, Failure>>,
    /// Participants by DID.
    pub participants: HashMap<String, Arc<[Participant]>>,
    /// Schemas by id.
    pub schemas: HashMap<u64, Option<Arc<Schema>>>,
    /// Times of anchoring, nanoseconds since the epoch.
    pub digests: HashMap<String, Option<i128>>,
    /// What signatures and schemas came to: an evaluation begins anew each time something was found out, and they take time.
    pub proofs: Proofs,
}

impl Known {
    /// Everything that is known.
    pub fn needs(&self) -> Vec<Need> {
        let documents = self.documents.keys().cloned().map(Need::Document);
        let resources = self.resources.keys().cloned().map(Need::Resource);
        let participants = self.participants.keys().cloned().map(Need::Participants);
        let schemas = self.schemas.keys().copied().map(Need::Schema);
        let digests = self.digests.keys().cloned().map(Need::Digest);
        documents.chain(resources).chain(participants).chain(schemas).chain(digests).collect()
    }
}

/// What checks that take time came to, at one instant.
#[derive(Debug, Clone, Default)]
pub struct Proofs(Arc<Mutex<Outcomes>>);

/// By the digest of everything that was looked at.
type Outcomes = HashMap<[u8; 32], Result<(), Reason>>;

/// Why an evaluation, or a part of it, goes no further.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Something has to be found out first.
    Unknown,
    /// It is judged.
    Because(Reason),
}

impl<R: Into<Reason>> From<R> for Stop {
    fn from(reason: R) -> Self {
        Self::Because(reason.into())
    }
}

/// Looks at what is known, and notes what was looked at and what was missing.
pub(crate) struct Gaze<'a> {
    known: &'a Known,
    inputs: RefCell<BTreeSet<Need>>,
    missing: RefCell<BTreeSet<Need>>,
}

impl<'a> Gaze<'a> {
    pub fn new(known: &'a Known) -> Self {
        Self { known, inputs: RefCell::default(), missing: RefCell::default() }
    }

    fn note<T>(&self, need: Need, found: Option<&'a T>) -> Result<&'a T, Stop> {
        if found.is_none() {
            self.missing.borrow_mut().insert(need.clone());
        }
        self.inputs.borrow_mut().insert(need);
        found.ok_or(Stop::Unknown)
    }

    pub fn document(&self, did: &str) -> Result<&'a Value, Stop> {
        let found = self.note(Need::Document(did.to_owned()), self.known.documents.get(did))?;
        found.as_deref().map_err(|failure| Reason { did: Some(did.to_owned()), ..Reason::from(failure) }.into())
    }

    pub fn resource(&self, url: &str) -> Result<&'a str, Stop> {
        let found = self.note(Need::Resource(url.to_owned()), self.known.resources.get(url))?;
        found.as_deref().map_err(|failure| Reason::from(failure).into())
    }

    /// What a check of these things comes to, or came to before.
    pub fn once(&self, things: &[&[u8]], check: impl FnOnce() -> Result<(), Reason>) -> Result<(), Reason> {
        let mut hash = Sha256::new();
        for thing in things {
            hash = hash.chain_update((thing.len() as u64).to_be_bytes()).chain_update(thing);
        }
        let name: [u8; 32] = hash.finalize().into();
        let known = |proofs: &Proofs| proofs.0.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
        if let Some(known) = known(&self.known.proofs) {
            return known;
        }
        let outcome = check();
        let mut proofs = self.known.proofs.0.lock().unwrap_or_else(PoisonError::into_inner);
        proofs.insert(name, outcome.clone());
        outcome
    }

    pub fn participants(&self, did: &str) -> Result<&'a [Participant], Stop> {
        self.note(Need::Participants(did.to_owned()), self.known.participants.get(did)).map(|found| &**found)
    }

    pub fn schema(&self, id: u64) -> Result<&'a Schema, Stop> {
        let found = self.note(Need::Schema(id), self.known.schemas.get(&id))?;
        found.as_deref().ok_or_else(|| Reason::new(Code::SchemaUnknown, format!("schema {id}")).into())
    }

    pub fn digest(&self, digest: &str) -> Result<Option<i128>, Stop> {
        self.note(Need::Digest(digest.to_owned()), self.known.digests.get(digest)).copied()
    }

    /// What was looked at, or what is missing.
    pub fn finish(self) -> Result<BTreeSet<Need>, BTreeSet<Need>> {
        let missing = self.missing.into_inner();
        if missing.is_empty() { Ok(self.inputs.into_inner()) } else { Err(missing) }
    }
}
