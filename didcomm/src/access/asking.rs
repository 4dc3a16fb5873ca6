//! The asker's side: requests that wait for an answer, and the grants that it holds. Nothing that was not asked for is taken.

use std::collections::HashMap;

use svc_wire::{endpoint_access::Material, verification_method::did_of_url};

use crate::protocol::endpoint_access::{AccessDenial, AccessFrame, AccessGrant, AccessRequest};

/// Requests that wait at the same time.
const MAX_OPEN: usize = 1_000;
/// Grants that are held at the same time.
const MAX_HELD: usize = 10_000;
/// Longest life of a grant, and that of one without an end, in seconds.
const MAX_GRANT_SECONDS: i64 = 24 * 3600;
/// Seconds before its end after which a grant is not used again.
const RENEWED_BEFORE_END: i64 = 60;

/// A request of this side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRequest {
    /// The frame.
    pub request: AccessRequest,
    /// Time after which no answer is taken, in seconds since the epoch.
    pub deadline: i64,
}

impl OpenRequest {
    fn peer(&self) -> &str {
        did_of_url(&self.request.endpoint)
    }
}

/// The table is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_OPEN} requests for access wait for their answers")]
pub struct TooManyRequests;

/// The reason why a frame is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// No request of this side waits for it.
    NotAsked,
    /// It is from another DID than that of the endpoint.
    OtherSender,
    /// It is about another endpoint.
    OtherEndpoint,
    /// Its URL is not that of the endpoint's document.
    OtherUrl,
    /// The request does not accept its material.
    Material,
    /// It has scopes that were not asked for.
    Wider,
    /// It lasts for more than a day, or has ended.
    Lifetime,
    /// It cannot be read, or is no answer.
    Unreadable,
}

impl DropReason {
    /// Every reason.
    pub const ALL: [Self; 8] = [
        Self::NotAsked,
        Self::OtherSender,
        Self::OtherEndpoint,
        Self::OtherUrl,
        Self::Material,
        Self::Wider,
        Self::Lifetime,
        Self::Unreadable,
    ];

    /// The name for telemetry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotAsked => "not_asked",
            Self::OtherSender => "other_sender",
            Self::OtherEndpoint => "other_endpoint",
            Self::OtherUrl => "other_url",
            Self::Material => "material",
            Self::Wider => "wider",
            Self::Lifetime => "lifetime",
            Self::Unreadable => "unreadable",
        }
    }
}

/// The consequence of a frame of a peer.
#[derive(Debug, Clone, PartialEq)]
pub enum HeardAnswer {
    /// A grant, which [`AskerTable::settle`] takes once the document of the endpoint was read again.
    Granted {
        /// Id of the request.
        id: String,
        /// The endpoint.
        endpoint: String,
    },
    /// The request is denied.
    Denied(AccessDenial),
    /// A grant that is held, or one that was asked for, is void.
    Revoked {
        /// Id of the request.
        id: String,
    },
    /// Nothing follows.
    Dropped(DropReason),
}

/// A request, and the grant that has come for it.
struct Asked {
    open: OpenRequest,
    answer: Option<AccessGrant>,
}

/// A grant that is held, for the same question.
struct Held {
    grant: AccessGrant,
    question: (Option<Vec<String>>, Option<Vec<Material>>),
    ends_at: i64,
}

/// The requests and grants of this side. Times are in seconds since the epoch.
#[derive(Default)]
pub struct AskerTable {
    asked: HashMap<String, Asked>,
    held: HashMap<String, Held>,
}

impl AskerTable {
    /// Returns a grant that is held for the same question, and lasts for another minute.
    pub fn held(
        &self,
        endpoint: &str,
        question: &(Option<Vec<String>>, Option<Vec<Material>>),
        now: i64,
    ) -> Option<&AccessGrant> {
        let is_usable = |held: &&Held| {
            held.grant.endpoint == endpoint && held.question == *question && held.ends_at - RENEWED_BEFORE_END > now
        };
        self.held.values().filter(is_usable).max_by_key(|held| held.ends_at).map(|held| &held.grant)
    }

    /// Returns the grant of a request, while it is held.
    pub fn grant(&self, id: &str, now: i64) -> Option<&AccessGrant> {
        self.held.get(id).filter(|held| held.ends_at > now).map(|held| &held.grant)
    }

    /// Notes a request before it is sent.
    pub fn ask(&mut self, open: OpenRequest, now: i64) -> Result<(), TooManyRequests> {
        self.asked.retain(|_, asked| asked.open.deadline > now);
        if self.asked.len() >= MAX_OPEN {
            return Err(TooManyRequests);
        }
        self.asked.insert(open.request.id.clone(), Asked { open, answer: None });
        Ok(())
    }

    /// Takes a frame of a peer, by the DID that it is known by.
    pub fn hear(&mut self, peer: &str, frame: AccessFrame, now: i64) -> HeardAnswer {
        let heard = match frame {
            AccessFrame::Grant(grant) => self.hear_grant(peer, *grant, now),
            AccessFrame::Denial(denial) => self.hear_denial(peer, denial, now),
            AccessFrame::Revocation(revoked) => self.hear_revocation(peer, &revoked.id),
            AccessFrame::Request(_) | AccessFrame::UnreadableRequest { .. } | AccessFrame::Unreadable(_) => {
                Err(DropReason::Unreadable)
            }
        };
        heard.unwrap_or_else(HeardAnswer::Dropped)
    }

    /// The request with an id that waits for an answer of a peer.
    fn waiting(&mut self, peer: &str, id: &str, now: i64) -> Result<&mut Asked, DropReason> {
        let is_waiting = |asked: &&mut Asked| asked.open.deadline > now && asked.answer.is_none();
        let asked = self.asked.get_mut(id).filter(is_waiting).ok_or(DropReason::NotAsked)?;
        if asked.open.peer() == peer { Ok(asked) } else { Err(DropReason::OtherSender) }
    }

    fn hear_grant(&mut self, peer: &str, grant: AccessGrant, now: i64) -> Result<HeardAnswer, DropReason> {
        let asked = self.waiting(peer, &grant.id, now)?;
        let request = &asked.open.request;
        if grant.endpoint != request.endpoint {
            return Err(DropReason::OtherEndpoint);
        }
        if request.accept.as_ref().is_some_and(|accepted| !accepted.contains(&grant.material.kind())) {
            return Err(DropReason::Material);
        }
        if request.scopes.as_ref().is_some_and(|wanted| grant.scopes.iter().any(|one| !wanted.contains(one))) {
            return Err(DropReason::Wider);
        }
        if grant.expires_at.is_some_and(|end| end <= now || end > now + MAX_GRANT_SECONDS) {
            return Err(DropReason::Lifetime);
        }
        let (id, endpoint) = (grant.id.clone(), grant.endpoint.clone());
        asked.answer = Some(grant);
        Ok(HeardAnswer::Granted { id, endpoint })
    }

    fn hear_denial(&mut self, peer: &str, denial: AccessDenial, now: i64) -> Result<HeardAnswer, DropReason> {
        self.waiting(peer, &denial.id, now)?;
        self.asked.remove(&denial.id);
        Ok(HeardAnswer::Denied(denial))
    }

    /// A grant that comes after its revocation finds no request any more.
    fn hear_revocation(&mut self, peer: &str, id: &str) -> Result<HeardAnswer, DropReason> {
        let held = self.held.get(id).map(|held| did_of_url(&held.grant.endpoint));
        let asked = self.asked.get(id).map(|asked| asked.open.peer());
        match held.or(asked) {
            None => Err(DropReason::NotAsked),
            Some(owner) if owner != peer => Err(DropReason::OtherSender),
            Some(_) => {
                self.forget(id);
                Ok(HeardAnswer::Revoked { id: id.to_owned() })
            }
        }
    }

    /// Takes the grant that has come for a request. `url` is that of the entry in the document, read after the grant came; none when the
    /// document has no such entry any more. After an error the request still waits.
    pub fn settle(&mut self, id: &str, url: Option<&str>, now: i64) -> Result<&AccessGrant, DropReason> {
        let asked = self.asked.get_mut(id).ok_or(DropReason::NotAsked)?;
        let grant = asked.answer.take().ok_or(DropReason::NotAsked)?;
        if url != Some(grant.url.as_str()) {
            return Err(DropReason::OtherUrl);
        }
        let AccessRequest { scopes, accept, .. } = asked.open.request.clone();
        self.asked.remove(id);
        self.expire(now);
        if self.held.len() >= MAX_HELD {
            let first = self.held.iter().min_by_key(|(_, held)| held.ends_at).map(|(id, _)| id.clone());
            first.map(|first| self.held.remove(&first));
        }
        let ends_at = grant.expires_at.unwrap_or(now + MAX_GRANT_SECONDS);
        let held = Held { grant, question: (scopes, accept), ends_at };
        Ok(&self.held.entry(id.to_owned()).insert_entry(held).into_mut().grant)
    }

    /// Forgets a request and its grant: the caller has gone, or the endpoint has refused the material.
    pub fn forget(&mut self, id: &str) {
        self.asked.remove(id);
        self.held.remove(id);
    }

    /// Forgets the grants of a DID, which is not trusted any more.
    pub fn forget_peer(&mut self, did: &str) {
        self.held.retain(|_, held| did_of_url(&held.grant.endpoint) != did);
    }

    /// Forgets the grants that have another URL than the endpoint's document.
    pub fn note_url(&mut self, endpoint: &str, url: Option<&str>) {
        self.held.retain(|_, held| held.grant.endpoint != endpoint || url == Some(held.grant.url.as_str()));
    }

    /// Forgets the grants that have ended.
    pub fn expire(&mut self, now: i64) {
        self.held.retain(|_, held| held.ends_at > now);
    }

    /// Requests that wait, and grants that are held.
    pub fn sizes(&self) -> (usize, usize) {
        (self.asked.len(), self.held.len())
    }
}

#[cfg(test)]
mod tests;
