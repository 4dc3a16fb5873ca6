//! The answer to a request for access. Pure.

use serde_json::json;
use svc_didcomm::{
    Message,
    access::{Denied, GrantCounts, GrantTerms, KnownGrant, judge_row},
    protocol::{
        basic_message,
        endpoint_access::{AccessDenial, AccessRequest, frame_message},
    },
};

use super::{Changes, PeerEvent, RowChange};
use crate::{
    access::{AccessOutcome, AccessPart, OfferedGrant, StoredGrant},
    decision::{Decision, First, Step},
};

/// A queued message has this member in the place of a grant's frame, which is made when the message is sent: no store has a token.
const GRANT_MEMBER: &str = "access_grant";
/// Seconds for which a denial is worth sending.
const DENIAL_SECONDS: i64 = 60;

/// The facts of a request for access.
#[derive(Debug, Clone)]
pub struct AccessDecision {
    /// The request, with the decision by the facts of the moment.
    pub part: AccessPart,
    /// DID by which the peer is known.
    pub peer: String,
    /// The connection of the request.
    pub connection_id: String,
    /// The thread of the answer.
    pub thread: String,
    /// Id of the answer.
    pub answer_id: String,
    /// Id of a new grant.
    pub grant_id: String,
    /// Seconds since the epoch.
    pub now: i64,
}

/// A question for the grants that decide about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantQuery {
    /// DID of the peer.
    pub peer: String,
    /// Id of the request.
    pub request_id: String,
    /// DID URL of the service entry.
    pub endpoint: String,
    /// Seconds since the epoch.
    pub now: i64,
    /// Most valid grants that are counted.
    pub max_counted: u64,
}

/// The rows that decide about a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrantRows {
    /// The grant of an earlier request of the peer with the same id.
    pub known: Option<StoredGrant>,
    /// Valid grants of the peer for the endpoint.
    pub of_peer: u64,
    /// The first end of these, in seconds since the epoch.
    pub first_end: Option<i64>,
    /// All valid grants, as far as they are counted.
    pub all: u64,
    /// The time from which tokens are valid, in seconds since the epoch.
    pub valid_from: i64,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessAnswer {
    /// Its message, whose frame may still be to be made.
    pub message: Message,
    /// The decision.
    pub outcome: AccessOutcome,
}

impl Decision for AccessDecision {
    type Query = GrantQuery;
    type Rows = GrantRows;
    type Changes = Changes<AccessAnswer>;
}

impl AccessDecision {
    /// Starts the decision. Its changes count only with the message in the outbox: a grant without one is none.
    pub fn start(self) -> Step<Self, First> {
        match self.part.clone() {
            AccessPart::Denied { request_id, endpoint, denied } => {
                Step::Done(self.denial(request_id, endpoint, denied))
            }
            AccessPart::Offered { request, offered } => {
                let query = GrantQuery {
                    peer: self.peer.clone(),
                    request_id: request.id.clone(),
                    endpoint: request.endpoint.clone(),
                    now: self.now,
                    max_counted: offered.limits.all,
                };
                Step::load(query, move |rows| Step::Done(self.judge(&request, &offered, rows)))
            }
        }
    }

    fn judge(&self, request: &AccessRequest, offered: &OfferedGrant, rows: GrantRows) -> Changes<AccessAnswer> {
        let GrantRows { known, of_peer, first_end, all, valid_from } = rows;
        let shown = known.as_ref().map(|known| KnownGrant {
            endpoint: known.endpoint.clone(),
            is_active: known.revoked_at.is_none() && known.expires_at > self.now && known.issued_at >= valid_from,
        });
        let first_end = first_end.and_then(|end| u64::try_from(end - self.now).ok()).unwrap_or_default();
        let counts = GrantCounts { of_peer, first_end, all };
        match (judge_row(request, shown.as_ref(), counts, offered.limits), known) {
            (Err(denied), _) => self.denial(request.id.clone(), Some(request.endpoint.clone()), denied),
            (Ok(true), Some(known)) => Changes::none(self.granted(&known)),
            (Ok(_), _) => {
                let grant = self.new_grant(request, offered, valid_from);
                let (outcome, event) = (self.granted(&grant), PeerEvent::access_grant(&grant, self.now));
                let row = RowChange::InsertGrant {
                    grant: Box::new(grant),
                    counted_at: self.now,
                    of_peer,
                    all,
                    max_counted: offered.limits.all,
                };
                Changes { rows: vec![row], events: vec![event], outcome }
            }
        }
    }

    fn new_grant(&self, request: &AccessRequest, offered: &OfferedGrant, valid_from: i64) -> StoredGrant {
        // A token of the second in which all others became void is none of them.
        let issued_at = self.now.max(valid_from);
        let GrantTerms { url, scopes, material, seconds } = offered.terms.clone();
        StoredGrant {
            id: self.grant_id.clone(),
            peer: self.peer.clone(),
            request_id: request.id.clone(),
            connection_id: self.connection_id.clone(),
            endpoint: request.endpoint.clone(),
            url,
            material,
            details: offered.details.clone(),
            scopes,
            issued_at,
            expires_at: issued_at + seconds,
            revoked_at: None,
            reason: None,
        }
    }

    /// The answer that stands for the frame of a grant.
    fn granted(&self, grant: &StoredGrant) -> AccessAnswer {
        let message = Message::new(self.answer_id.clone(), basic_message::MESSAGE, json!({GRANT_MEMBER: grant.id}));
        let message = Message {
            created_time: Some(self.now),
            expires_time: Some(grant.expires_at),
            ..message.in_thread(&self.thread)
        };
        AccessAnswer { message, outcome: AccessOutcome::Granted }
    }

    fn denial(&self, request_id: String, endpoint: Option<String>, denied: Denied) -> Changes<AccessAnswer> {
        let Denied { code, message, retry_after } = denied;
        let content = AccessDenial { id: request_id, endpoint, code, message, retry_after }.to_content();
        let end = Some(self.now + DENIAL_SECONDS);
        let message = frame_message(&self.answer_id, &content, Some(&self.thread), self.now, end);
        Changes::none(AccessAnswer { message, outcome: AccessOutcome::Denied(code) })
    }
}

/// The id of the grant whose frame a queued message is to carry.
pub fn grant_of_message(message: &Message) -> Option<&str> {
    message.body.get(GRANT_MEMBER)?.as_str()
}

#[cfg(test)]
mod tests {
    use svc_didcomm::{access::GrantLimits, protocol::endpoint_access::DenyCode};
    use svc_wire::endpoint_access::Material;

    use super::*;
    use crate::access::GrantDetails;

    const NOW: i64 = 1_800_000_000;
    const PEER: &str = "did:web:theirs";
    const ENDPOINT: &str = "did:web:ours#mcp";

    fn facts() -> AccessDecision {
        let request = AccessRequest { id: "r".to_owned(), endpoint: ENDPOINT.to_owned(), scopes: None, accept: None };
        let offered = OfferedGrant {
            terms: GrantTerms {
                url: "https://ours/mcp".to_owned(),
                scopes: vec!["mcp:read".to_owned()],
                material: Material::Bearer,
                seconds: 600,
            },
            details: GrantDetails::default(),
            limits: GrantLimits { per_peer: 2, all: 10 },
        };
        AccessDecision {
            part: AccessPart::of(request, Ok(offered)),
            peer: PEER.to_owned(),
            connection_id: "c".to_owned(),
            thread: "m".to_owned(),
            answer_id: "a".to_owned(),
            grant_id: "g".to_owned(),
            now: NOW,
        }
    }

    fn answered(rows: &GrantRows) -> Changes<AccessAnswer> {
        facts().start().decide(|query| {
            let expected = GrantQuery {
                peer: PEER.to_owned(),
                request_id: "r".to_owned(),
                endpoint: ENDPOINT.to_owned(),
                now: NOW,
                max_counted: 10,
            };
            assert_eq!(query, expected);
            rows.clone()
        })
    }

    /// The grant of the request without others, as it is made at a time.
    fn granted_at(now: i64) -> StoredGrant {
        let changes = AccessDecision { now, ..facts() }.start().decide(|_| GrantRows::default());
        match <[RowChange; 1]>::try_from(changes.rows) {
            Ok([RowChange::InsertGrant { grant, .. }]) => *grant,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_has_one_grant_within_the_bounds_of_valid_ones() {
        let known = |change: fn(&mut StoredGrant)| {
            let mut grant = granted_at(NOW - 60);
            change(&mut grant);
            GrantRows { known: Some(grant), ..GrantRows::default() }
        };
        let counted =
            |of_peer: u64, all: u64| GrantRows { of_peer, all, first_end: Some(NOW + 7), ..GrantRows::default() };
        let denied = AccessOutcome::Denied;
        for (case, rows, outcome, is_new) in [
            ("a first one", GrantRows::default(), AccessOutcome::Granted, true),
            ("the same request again", known(|_| {}), AccessOutcome::Granted, false),
            (
                "its id for another endpoint",
                known(|one| one.endpoint.push('x')),
                denied(DenyCode::InvalidRequest),
                false,
            ),
            ("one that was revoked", known(|one| one.revoked_at = Some(NOW)), denied(DenyCode::InvalidRequest), false),
            ("one that ends now", known(|one| one.expires_at = NOW), denied(DenyCode::InvalidRequest), false),
            (
                "one whose token is void",
                GrantRows { valid_from: NOW - 59, ..known(|_| {}) },
                denied(DenyCode::InvalidRequest),
                false,
            ),
            ("the last one of the peer", counted(1, 9), AccessOutcome::Granted, true),
            ("one too many of the peer", counted(2, 9), denied(DenyCode::RateLimited), false),
            ("one too many of all", counted(1, 10), denied(DenyCode::Unavailable), false),
        ] {
            let changes = answered(&rows);
            assert_eq!((changes.outcome.outcome, changes.rows.len()), (outcome, usize::from(is_new)), "{case}");
            assert_eq!(changes.events.len(), usize::from(is_new), "{case}");
            let has_grant = grant_of_message(&changes.outcome.message).is_some();
            assert_eq!(has_grant, outcome == AccessOutcome::Granted, "{case}");
        }
    }

    #[test]
    fn a_new_grant_is_guarded_by_its_counters_and_its_message_has_no_token() {
        let rows = GrantRows { of_peer: 1, all: 4, first_end: Some(NOW + 7), valid_from: NOW + 1, known: None };
        let changes = answered(&rows);
        let grant = StoredGrant { issued_at: NOW + 1, expires_at: NOW + 601, ..granted_at(NOW) };
        assert_eq!(changes.events, [PeerEvent::access_grant(&grant, NOW)]);
        let row =
            RowChange::InsertGrant { grant: Box::new(grant), counted_at: NOW, of_peer: 1, all: 4, max_counted: 10 };
        assert_eq!(changes.rows, [row]);
        let message = changes.outcome.message;
        assert_eq!((message.id.as_str(), message.thread(), message.expires_time), ("a", "m", Some(NOW + 601)));
        assert_eq!(json!(message.body), json!({"access_grant": "g"}));
    }

    #[test]
    fn a_denial_says_when_to_ask_again_and_needs_no_rows() {
        let limited = answered(&GrantRows { of_peer: 2, first_end: Some(NOW + 7), ..GrantRows::default() });
        let message = limited.outcome.message;
        assert_eq!((message.thread(), message.expires_time), ("m", Some(NOW + DENIAL_SECONDS)));
        let text = message.body["content"].as_str().expect("a frame");
        assert!(text.contains("\"retry_after\":7"), "{text}");
        let denied = Denied::new(DenyCode::NotTrusted, "no");
        let part = AccessPart::Denied { request_id: "r".to_owned(), endpoint: None, denied };
        let changes = AccessDecision { part, ..facts() }.start().decide(|query| panic!("{query:?}"));
        assert_eq!(changes.outcome.outcome, AccessOutcome::Denied(DenyCode::NotTrusted));
        assert_eq!((changes.rows.len(), changes.events.len()), (0, 0));
    }
}
