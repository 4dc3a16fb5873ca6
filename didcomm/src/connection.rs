//! Connections: which peer a message belongs to, while DIDs change.
//!
//! There is no handshake. A connection begins with the first message of either side. The peer may go on under another DID, which
//! it proves by `from_prior`; it stays the peer that it was, by the DID that it began with. Trust is asked about that DID alone.

use crate::{
    from_prior::FromPrior,
    peer_did::{comparable, is_same_did},
    refusal::Refusal,
};

/// DIDs that a connection remembers behind the present one.
const MAX_PREVIOUS: usize = 16;

/// A relation of one DID of ours with one peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// Id of the record.
    pub id: String,
    /// Our DID.
    pub our_did: String,
    /// The peer's present DID, to which messages go.
    pub their_did: String,
    /// The peer's earlier DIDs, oldest first.
    pub previous: Vec<String>,
    /// The DID by which the peer is known: its first one, or the root of its chain of `from_prior`.
    pub public_did: String,
    /// Whether the peer has ended it.
    pub has_ended: bool,
}

impl Connection {
    /// Begins a connection with a peer under its present DID.
    pub fn begin(id: &str, our_did: &str, their_did: &str) -> Self {
        Self {
            id: id.to_owned(),
            our_did: our_did.to_owned(),
            their_did: their_did.to_owned(),
            previous: Vec::new(),
            public_did: their_did.to_owned(),
            has_ended: false,
        }
    }

    /// Whether the peer has, or had, this DID.
    pub fn knows(&self, did: &str) -> bool {
        is_same_did(&self.their_did, did) || self.had(did)
    }

    /// The first DID counts however long ago it was.
    fn had(&self, did: &str) -> bool {
        let is_first = is_same_did(&self.public_did, did) && !is_same_did(&self.their_did, did);
        is_first || self.previous.iter().any(|previous| is_same_did(previous, did))
    }

    /// Every DID by which the connection is found, in its comparable form.
    pub fn known_dids(&self) -> Vec<&str> {
        let all = [&self.their_did, &self.public_did].into_iter().chain(&self.previous);
        let mut dids: Vec<&str> = all.map(|did| comparable(did)).collect();
        dids.sort_unstable();
        dids.dedup();
        dids
    }

    /// Goes on under the peer's new DID.
    fn rotate(&mut self, did: &str) {
        let before = std::mem::replace(&mut self.their_did, did.to_owned());
        self.remember(before);
    }

    fn remember(&mut self, did: String) {
        if is_same_did(&did, &self.their_did) || self.previous.iter().any(|previous| is_same_did(previous, &did)) {
            return;
        }
        if self.previous.len() == MAX_PREVIOUS {
            self.previous.remove(0);
        }
        self.previous.push(did);
    }
}

/// A message of a peer, with everything about its sender proven.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// DID of the key that encrypted it.
    pub sender: &'a str,
    /// Our DID that it was encrypted for.
    pub recipient: &'a str,
    /// Its `from_prior`, whose signature was verified.
    pub prior: Option<&'a FromPrior>,
    /// Seconds since the epoch.
    pub now: i64,
}

/// Where a message belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// The peer is unknown: a connection begins.
    New {
        /// The peer's present DID.
        their_did: String,
        /// An earlier DID that it proved to have.
        previous: Option<String>,
    },
    /// A connection that is there, as it is afterwards.
    Known(Connection),
    /// Two connections turn out to be with one peer: the first goes on, the second ends in it.
    Merged {
        /// Goes on.
        kept: Connection,
        /// Id of the other.
        dropped: String,
    },
}

/// Finds the connection of a message among those that know the sender or the issuer of its `from_prior`.
pub fn place(connections: &[Connection], arrival: Arrival<'_>) -> Result<Placement, Refusal> {
    let Arrival { sender, recipient, prior, now } = arrival;
    let ours = || connections.iter().filter(|connection| is_same_did(&connection.our_did, recipient));
    let present = ours().find(|connection| is_same_did(&connection.their_did, sender));
    let known = present.or_else(|| ours().find(|connection| connection.knows(sender)));
    let Some(prior) = prior else {
        return Ok(known.map_or_else(
            || Placement::New { their_did: sender.to_owned(), previous: None },
            |connection| Placement::Known(Connection { has_ended: false, ..connection.clone() }),
        ));
    };
    if prior.subject.as_deref().is_none_or(|subject| !is_same_did(subject, sender)) {
        return Err(Refusal::FromPriorClaims);
    }
    // A rotation that was taken before is repeated until the peer knows that we know it.
    if let Some(connection) = known.filter(|connection| connection.had(&prior.issuer)) {
        return Ok(Placement::Known(Connection { has_ended: false, ..connection.clone() }));
    }
    if !prior.is_fresh(now) {
        return Err(Refusal::FromPriorClaims);
    }
    let of_issuer = ours().find(|connection| is_same_did(&connection.their_did, &prior.issuer));
    let of_issuer = of_issuer.or_else(|| ours().find(|connection| connection.knows(&prior.issuer)));
    match (of_issuer, known) {
        (Some(connection), None) => {
            let mut connection = Connection { has_ended: false, ..connection.clone() };
            connection.rotate(sender);
            Ok(Placement::Known(connection))
        }
        (Some(kept), Some(other)) if kept.id == other.id => {
            Ok(Placement::Known(Connection { has_ended: false, ..kept.clone() }))
        }
        (Some(kept), Some(other)) => {
            let mut merged = Connection { has_ended: false, ..kept.clone() };
            other.previous.iter().for_each(|did| merged.remember(did.clone()));
            merged.rotate(sender);
            Ok(Placement::Merged { kept: merged, dropped: other.id.clone() })
        }
        // A stranger's rotation cannot move a peer that began under the new DID: the peer's own chain would be another.
        (None, Some(_)) => Err(Refusal::FromPriorIssuer),
        (None, None) => Ok(Placement::New { their_did: sender.to_owned(), previous: Some(prior.issuer.clone()) }),
    }
}

/// The connection that its peer ends by a `from_prior` without subject, whose signature was verified.
pub fn end(connections: &[Connection], recipient: &str, prior: &FromPrior, now: i64) -> Result<Connection, Refusal> {
    if prior.subject.is_some() || !prior.is_fresh(now) {
        return Err(Refusal::FromPriorClaims);
    }
    let ours = connections.iter().filter(|connection| is_same_did(&connection.our_did, recipient));
    let found = ours.into_iter().find(|connection| is_same_did(&connection.their_did, &prior.issuer));
    found.map(|connection| Connection { has_ended: true, ..connection.clone() }).ok_or(Refusal::FromPriorIssuer)
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;

    use super::*;
    use crate::from_prior::make_from_prior;

    const NOW: i64 = 1_800_000_000;
    const OURS: &str = "did:web:ours";
    const PUBLIC: &str = "did:web:peer";
    const NEXT: &str = "did:web:peer-next";

    fn prior(issuer: &str, subject: Option<&str>, issued_at: i64) -> FromPrior {
        let key = SigningKey::from_bytes(&[3; 32]);
        FromPrior::read(&make_from_prior(&key, &format!("{issuer}#k"), issuer, subject, issued_at))
            .expect("a from_prior")
    }

    fn rotated() -> Connection {
        let begun = Connection::begin("1", OURS, PUBLIC);
        Connection { their_did: NEXT.into(), previous: vec![PUBLIC.into()], ..begun }
    }

    #[test]
    fn a_message_finds_its_connection() {
        let begun = Connection::begin("1", OURS, PUBLIC);
        let ended = Connection { has_ended: true, ..begun.clone() };
        let other = Connection::begin("2", OURS, NEXT);
        let fresh = prior(PUBLIC, Some(NEXT), NOW - 599);
        let old = prior(PUBLIC, Some(NEXT), NOW - 601);
        let future = prior(PUBLIC, Some(NEXT), NOW + 601);
        let for_another = prior(PUBLIC, Some("did:web:z"), NOW);
        let without = prior(PUBLIC, None, NOW);
        let foreign = prior("did:web:foreign", Some(NEXT), NOW);
        let new = |did: &str, previous: Option<&str>| {
            Ok(Placement::New { their_did: did.into(), previous: previous.map(str::to_owned) })
        };
        let known = |connection: &Connection| Ok(Placement::Known(connection.clone()));
        let merged = Ok(Placement::Merged { kept: rotated(), dropped: "2".into() });
        for (what, connections, sender, prior, expected) in [
            ("a stranger", vec![], PUBLIC, None, new(PUBLIC, None)),
            ("a peer", vec![begun.clone()], PUBLIC, None, known(&begun)),
            ("a peer that comes back", vec![ended], PUBLIC, None, known(&begun)),
            ("a rotation", vec![begun.clone()], NEXT, Some(&fresh), known(&rotated())),
            ("the rotation again, much later", vec![rotated()], NEXT, Some(&old), known(&rotated())),
            ("a message under the earlier DID", vec![rotated()], PUBLIC, None, known(&rotated())),
            ("an old rotation", vec![begun.clone()], NEXT, Some(&old), Err(Refusal::FromPriorClaims)),
            ("one of the future", vec![begun.clone()], NEXT, Some(&future), Err(Refusal::FromPriorClaims)),
            ("one for another DID", vec![begun.clone()], NEXT, Some(&for_another), Err(Refusal::FromPriorClaims)),
            ("one without a DID", vec![begun.clone()], NEXT, Some(&without), Err(Refusal::FromPriorClaims)),
            ("one of a foreign DID", vec![rotated()], NEXT, Some(&foreign), Err(Refusal::FromPriorIssuer)),
            ("a stranger with a root", vec![], NEXT, Some(&fresh), new(NEXT, Some(PUBLIC))),
            ("two connections of one peer", vec![begun.clone(), other.clone()], NEXT, Some(&fresh), merged),
            ("another DID of ours", vec![Connection::begin("1", "did:web:z", PUBLIC)], PUBLIC, None, new(PUBLIC, None)),
        ] {
            let arrival = Arrival { sender, recipient: OURS, prior, now: NOW };
            assert_eq!(place(&connections, arrival), expected, "{what}");
        }
    }

    #[test]
    fn a_peer_keeps_the_did_that_it_began_with() {
        let mut connection = Connection::begin("1", OURS, PUBLIC);
        for step in 0..40 {
            let next = format!("did:web:{step}");
            let issuer = connection.their_did.clone();
            let prior = prior(&issuer, Some(&next), NOW);
            let arrival = Arrival { sender: &next, recipient: OURS, prior: Some(&prior), now: NOW };
            let Ok(Placement::Known(after)) = place(&[connection.clone()], arrival) else { panic!("a rotation") };
            connection = after;
        }
        assert_eq!((connection.public_did.as_str(), connection.their_did.as_str()), (PUBLIC, "did:web:39"));
        assert_eq!(connection.previous.len(), MAX_PREVIOUS);
        assert!(connection.known_dids().contains(&PUBLIC), "it is found by its first DID for ever");
        let arrival = Arrival { sender: PUBLIC, recipient: OURS, prior: None, now: NOW };
        assert_eq!(place(&[connection.clone()], arrival), Ok(Placement::Known(connection)));
    }

    #[test]
    fn only_the_present_did_ends_a_connection() {
        let ended = Connection { has_ended: true, ..rotated() };
        for (what, prior, expected) in [
            ("the present DID", prior(NEXT, None, NOW), Ok(ended)),
            ("an earlier one", prior(PUBLIC, None, NOW), Err(Refusal::FromPriorIssuer)),
            ("one of another day", prior(NEXT, None, NOW - 601), Err(Refusal::FromPriorClaims)),
            ("a rotation", prior(NEXT, Some("did:web:z"), NOW), Err(Refusal::FromPriorClaims)),
        ] {
            assert_eq!(end(&[rotated()], OURS, &prior, NOW), expected, "{what}");
        }
    }
}
