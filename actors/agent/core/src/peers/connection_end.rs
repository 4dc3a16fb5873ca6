//! The end of a connection whose peer gives up its DID. Pure.

use svc_didcomm::{
    Refusal,
    connection::{Connection, end},
    from_prior::FromPrior,
};

use super::{Changes, PeerEvent, RowChange, StoredConnection};
use crate::decision::{Decision, First, Step};

/// The facts of an end.
#[derive(Debug, Clone)]
pub struct ConnectionEnd {
    /// Our DID that the message was encrypted for.
    pub recipient: String,
    /// Its `from_prior`, whose signature was verified.
    pub prior: FromPrior,
    /// Milliseconds since the epoch.
    pub now: i64,
}

/// A question for the connections that know a DID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionsOf {
    /// The DID.
    pub did: String,
}

/// The outcome of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndOutcome {
    /// The connection has ended.
    Ended,
    /// It had ended before.
    EndedBefore,
    /// The message fails a check.
    Refused(Refusal),
}

impl Decision for ConnectionEnd {
    type Query = ConnectionsOf;
    type Rows = Vec<StoredConnection>;
    type Changes = Changes<EndOutcome>;
}

impl ConnectionEnd {
    /// Starts the decision.
    pub fn start(self) -> Step<Self, First> {
        let query = ConnectionsOf { did: self.prior.issuer.clone() };
        Step::load(query, move |rows| Step::Done(self.decide(rows)))
    }

    fn decide(&self, rows: Vec<StoredConnection>) -> Changes<EndOutcome> {
        let known: Vec<Connection> = rows.iter().map(|one| one.connection.clone()).collect();
        let ended = match end(&known, &self.recipient, &self.prior, self.now / 1000) {
            Ok(ended) => ended,
            Err(refusal) => return Changes::none(EndOutcome::Refused(refusal)),
        };
        let live = rows.into_iter().find(|one| one.connection.id == ended.id && !one.connection.has_ended);
        let Some(loaded) = live else { return Changes::none(EndOutcome::EndedBefore) };
        let row = RowChange::EndConnection { id: ended.id.clone(), loaded_at: loaded.updated_at, at: self.now };
        let after =
            StoredConnection { connection: ended, updated_at: self.now, last_seen_at: Some(self.now), ..loaded };
        Changes { rows: vec![row], events: vec![PeerEvent::connection(&after)], outcome: EndOutcome::Ended }
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;
    use svc_didcomm::from_prior::make_from_prior;

    use super::*;
    use crate::peers::ConnectionRole;

    const NOW: i64 = 1_800_000_000_000;
    const OURS: &str = "did:web:ours";
    const THEIRS: &str = "did:web:theirs";

    fn prior(issuer: &str, subject: Option<&str>, age: i64) -> FromPrior {
        let key = SigningKey::from_bytes(&[3; 32]);
        let made = make_from_prior(&key, &format!("{issuer}#k"), issuer, subject, NOW / 1000 - age);
        FromPrior::read(&made).expect("a from_prior")
    }

    fn stored(id: &str, their_did: &str, has_ended: bool) -> StoredConnection {
        StoredConnection {
            connection: Connection { has_ended, ..Connection::begin(id, OURS, their_did) },
            role: ConnectionRole::Responder,
            thread_id: None,
            out_of_band_id: None,
            parent_id: None,
            verdict: None,
            last_seen_at: None,
            waiting: 2,
            unanswered: 1,
            created_at: 5,
            updated_at: 7,
        }
    }

    #[test]
    fn a_connection_ends_once_by_a_fresh_word_of_its_present_did() {
        let moved = |connection: StoredConnection| StoredConnection {
            connection: Connection { their_did: "did:web:next".into(), ..connection.connection },
            ..connection
        };
        let (live, ended) = (stored("1", THEIRS, false), stored("1", THEIRS, true));
        let fresh = || prior(THEIRS, None, 0);
        let claims = EndOutcome::Refused(Refusal::FromPriorClaims);
        let issuer = EndOutcome::Refused(Refusal::FromPriorIssuer);
        for (case, rows, recipient, prior, expected) in [
            ("a live one", vec![live.clone()], OURS, fresh(), EndOutcome::Ended),
            (
                "the live one of two",
                vec![stored("2", "did:web:x", false), live.clone()],
                OURS,
                fresh(),
                EndOutcome::Ended,
            ),
            ("one that has ended", vec![ended], OURS, fresh(), EndOutcome::EndedBefore),
            ("none", vec![], OURS, fresh(), issuer),
            ("one of another DID of ours", vec![live.clone()], "did:web:z", fresh(), issuer),
            ("one whose peer has moved on", vec![moved(live.clone())], OURS, fresh(), issuer),
            ("a word about another DID", vec![live.clone()], OURS, prior(THEIRS, Some("did:web:y"), 0), claims),
            ("an old word", vec![live.clone()], OURS, prior(THEIRS, None, 601), claims),
        ] {
            let facts = ConnectionEnd { recipient: recipient.to_owned(), prior, now: NOW };
            let changes = facts.start().decide(|query| {
                assert_eq!(query, ConnectionsOf { did: THEIRS.to_owned() }, "{case}");
                rows.clone()
            });
            assert_eq!(changes.outcome, expected, "{case}");
            let is_ended = usize::from(expected == EndOutcome::Ended);
            assert_eq!((changes.rows.len(), changes.events.len()), (is_ended, is_ended), "{case}");
        }
    }

    #[test]
    fn an_end_guards_the_row_that_was_loaded_and_its_event_shows_the_row_afterwards() {
        let facts = ConnectionEnd { recipient: OURS.to_owned(), prior: prior(THEIRS, None, 0), now: NOW };
        let changes = facts.start().decide(|_| vec![stored("1", THEIRS, false)]);
        assert_eq!(changes.rows, [RowChange::EndConnection { id: "1".to_owned(), loaded_at: 7, at: NOW }]);
        let after = StoredConnection { last_seen_at: Some(NOW), updated_at: NOW, ..stored("1", THEIRS, true) };
        assert_eq!(changes.events, [PeerEvent::connection(&after)]);
        assert_eq!(after.to_json()["state"], "abandoned");
    }
}
