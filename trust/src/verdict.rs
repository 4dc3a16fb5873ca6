//! What an evaluation says.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Code, Essential, Need, Reason};

/// Who vouches for a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// It vouches for itself, and shows who answers for it.
    #[serde(rename = "self")]
    Own,
    /// The service that issued its service credential.
    Parent,
}

/// A credential that counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Its id, or the URL of its presentation with its place in it.
    pub id: String,
    /// What it says, with the version of the schema, if its schema is essential.
    pub essential: Option<(Essential, String)>,
    /// Its schema.
    pub schema_id: u64,
    /// The ecosystem of that.
    pub ecosystem_id: u64,
    /// DID of its issuer.
    pub issuer: String,
    /// The participant that was authorised to issue it.
    pub issuer_participant_id: u64,
    /// The participant that anchors it: of the holder, or else of the issuer.
    pub participant_id: u64,
    /// Digest of the whole of it.
    pub digest_jcs: String,
    /// When that was anchored, nanoseconds since the epoch: when it was issued, whatever it says itself.
    pub issued_at: i128,
    /// Since when it says it is valid.
    pub valid_from: Option<i128>,
    /// Until when.
    pub valid_until: Option<i128>,
    /// End of the holder's participant.
    pub anchored_until: Option<i128>,
    /// What it says.
    pub subject: Value,
}

impl Held {
    /// When it ends by itself.
    pub fn expires_at(&self) -> Option<i128> {
        self.valid_until.into_iter().chain(self.anchored_until).min()
    }
}

/// A presentation with what of it counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// Its id, or where it is.
    pub id: String,
    /// Id of the service that links to it.
    pub service: String,
    /// Ids of credentials that count.
    pub credentials: Vec<String>,
    /// Ids of those whose material cannot be had.
    pub unresolvable: Vec<String>,
    /// Ids of those that are wrong.
    pub invalid: Vec<String>,
}

/// Whether a DID is trusted, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Who vouches for it, if it is trusted.
    pub pattern: Option<Pattern>,
    /// When the earliest ends of the credentials it rests on, and of the participants that hold them, nanoseconds since the epoch.
    pub expires_at: Option<i128>,
    /// Everything found wrong. A trusted DID may show credentials that do not count.
    pub reasons: Vec<Reason>,
    /// Credentials that count.
    pub credentials: Vec<Held>,
    /// Its presentations.
    pub presentations: Vec<Shown>,
    /// Everything else its document offers.
    pub services: Vec<Value>,
    /// Parents it rests on, the nearest first.
    pub parents: Vec<String>,
    /// Every service that was judged on the way, trusted or not.
    pub consulted: BTreeSet<String>,
    /// Everything that was looked at.
    pub inputs: Vec<Need>,
}

impl Verdict {
    /// That a DID is not trusted because the evaluation was given up.
    pub fn given_up(did: &str, looked_at: Vec<Need>, why: impl std::fmt::Display) -> Self {
        let own = [Need::Document(did.to_owned()), Need::Participants(did.to_owned())];
        Self {
            pattern: None,
            expires_at: None,
            reasons: vec![Reason::new(Code::GivenUp, why)],
            credentials: Vec::new(),
            presentations: Vec::new(),
            services: Vec::new(),
            parents: Vec::new(),
            consulted: BTreeSet::new(),
            inputs: looked_at.into_iter().chain(own).collect::<BTreeSet<_>>().into_iter().collect(),
        }
    }

    /// Whether it is trusted.
    pub fn is_trusted(&self) -> bool {
        self.pattern.is_some()
    }
}
