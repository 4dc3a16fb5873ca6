//! Grants as rows, on both databases: one for one request, bounded, taken back with their notice, and none behind a void.

use svc_agent_core::{
    access::{AccessOutcome, AccessPart, GrantDetails, GrantState, OfferedGrant, StoredGrant},
    peers::{AccessDecision, GrantQuery, GrantRows, PeerLimits, RowChange, grant_of_message},
};
use svc_didcomm::{
    Message,
    access::{Denied, GrantLimits, GrantTerms},
    protocol::{
        Content,
        endpoint_access::{AccessFrame, AccessRequest, DenyCode},
    },
};
use svc_wire::endpoint_access::Material;

use super::AccessGrantFilter;
use crate::{
    AgentStore, AgentStoreError, ArrivedMessage, TakenMessage,
    decision::{decide_in, write_rows},
    peer_rows::testing::{LIMITS, NOW, OURS, SECONDS, THEIRS, no_flows, on_both, text},
};

const WIDE: PeerLimits = PeerLimits { outbox_per_peer: 100, outbox_max: 100, ..LIMITS };

fn request(number: u32, endpoint: &str) -> AccessRequest {
    let id = format!("018f4c5e-7a2b-4c3d-8e9f-{number:012x}");
    AccessRequest { id, endpoint: format!("{OURS}#{endpoint}"), scopes: None, accept: None }
}

fn offered(per_peer: u64, all: u64) -> Result<OfferedGrant, Denied> {
    Ok(OfferedGrant {
        terms: GrantTerms {
            url: "https://ours/mcp".into(),
            scopes: vec!["mcp:read".into()],
            material: Material::Bearer,
            seconds: 600,
        },
        details: GrantDetails { key_id: Some("did:web:ours#k".into()), ..GrantDetails::default() },
        limits: GrantLimits { per_peer, all },
    })
}

/// Takes the message of a request; returns the outcome of access.
async fn ask(
    store: &AgentStore,
    message_id: &str,
    request: AccessRequest,
    decision: Result<OfferedGrant, Denied>,
    at: i64,
) -> Option<AccessOutcome> {
    let message = text(message_id, THEIRS);
    let part = AccessPart::of(request.clone(), decision);
    let content = Ok(Content::EndpointAccess(AccessFrame::Request(request)));
    let arrived = ArrivedMessage {
        message: &message,
        content: &content,
        sender: THEIRS,
        recipient: OURS,
        invitation: None,
        prior: None,
        verdict: None,
        flows: no_flows(),
        access: Some(&part),
        now: NOW + at * 1000,
    };
    match store.take_message(&arrived, &WIDE).await.expect("taken") {
        TakenMessage::New { access, has_record: false, .. } => access,
        other => panic!("{other:?}"),
    }
}

async fn outbox(store: &AgentStore, at: i64) -> Vec<Message> {
    let mut messages = Vec::new();
    let connection = store.connection_with_peer(THEIRS).await.expect("read").expect("a connection").connection.id;
    while let Some(queued) = store.take_next_message(&connection, None, SECONDS + at).await.expect("read") {
        messages.push(queued.message);
    }
    messages
}

async fn grants(store: &AgentStore, state: Option<GrantState>, at: i64) -> Vec<StoredGrant> {
    let filter = AccessGrantFilter { state, ..AccessGrantFilter::default() };
    store.access_grants(&filter, None, 100, SECONDS + at).await.expect("read")
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_is_one_grant_and_the_outbox_has_no_token() {
    on_both(|store| async move {
        assert_eq!(ask(&store, "m1", request(1, "mcp"), offered(2, 10), 0).await, Some(AccessOutcome::Granted));
        assert_eq!(
            ask(&store, "m2", request(1, "mcp"), offered(2, 10), 1).await,
            Some(AccessOutcome::Granted),
            "once more"
        );
        let stored = grants(&store, Some(GrantState::Active), 1).await;
        let [grant] = stored.as_slice() else { panic!("{stored:?}") };
        assert_eq!((grant.peer.as_str(), grant.issued_at, grant.expires_at), (THEIRS, SECONDS, SECONDS + 600));
        let messages = outbox(&store, 1).await;
        let named: Vec<_> = messages.iter().map(|message| (grant_of_message(message), message.expires_time)).collect();
        assert_eq!(named, [(Some(grant.id.as_str()), Some(SECONDS + 600)); 2], "both stand for the same frame");
        assert_eq!(messages[1].thread(), "m2", "in the thread of the request");
        // The same id for another endpoint, and after the end.
        assert_eq!(
            ask(&store, "m3", request(1, "other"), offered(2, 10), 2).await,
            Some(AccessOutcome::Denied(DenyCode::InvalidRequest))
        );
        assert_eq!(
            ask(&store, "m4", request(1, "mcp"), offered(2, 10), 600).await,
            Some(AccessOutcome::Denied(DenyCode::InvalidRequest))
        );
        assert_eq!(grants(&store, None, 600).await.len(), 1);
        assert_eq!(grants(&store, Some(GrantState::Expired), 600).await.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn valid_grants_are_bounded_for_a_peer_and_for_all() {
    on_both(|store| async move {
        for (number, endpoint, expected) in [
            (1, "mcp", AccessOutcome::Granted),
            (2, "mcp", AccessOutcome::Granted),
            (3, "mcp", AccessOutcome::Denied(DenyCode::RateLimited)),
            (4, "site", AccessOutcome::Granted),
            (5, "api", AccessOutcome::Denied(DenyCode::Unavailable)),
        ] {
            let outcome = ask(&store, &number.to_string(), request(number, endpoint), offered(2, 3), 0).await;
            assert_eq!(outcome, Some(expected), "request {number}");
        }
        let denied: Vec<_> = outbox(&store, 0)
            .await
            .iter()
            .filter_map(|message| AccessFrame::read(message.body_text("content")?))
            .collect();
        let [AccessFrame::Denial(first), AccessFrame::Denial(second)] = denied.as_slice() else { panic!("{denied:?}") };
        assert_eq!((first.code, first.retry_after), (DenyCode::RateLimited, Some(600)), "when the first one ends");
        assert_eq!((second.code, second.retry_after), (DenyCode::Unavailable, Some(60)));
        assert_eq!(
            ask(&store, "6", request(6, "mcp"), offered(2, 3), 600).await,
            Some(AccessOutcome::Granted),
            "they have ended"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_is_in_the_list_with_its_notice_and_happens_once() {
    on_both(|store| async move {
        for number in [1, 2] {
            ask(&store, &number.to_string(), request(number, "mcp"), offered(5, 10), 0).await;
        }
        outbox(&store, 0).await;
        let ids: Vec<String> = grants(&store, None, 0).await.into_iter().map(|grant| grant.id).collect();
        let revoke = async |ids: &[String], at: i64| {
            store.revoke_grants(ids, "a reason", SECONDS + at, &WIDE).await.expect("stored").grants
        };
        let revoked = revoke(&ids[..1], 5).await;
        assert_eq!(revoked.iter().map(|grant| grant.state(SECONDS + 5)).collect::<Vec<_>>(), [GrantState::Revoked]);
        assert!(revoke(&ids[..1], 6).await.is_empty(), "once");
        let list = store.revocation_list(OURS, SECONDS + 6).await.expect("read");
        assert!(list.has(&ids[0]) && !list.has(&ids[1]) && list.valid_from == 0);
        let notices = outbox(&store, 6).await;
        let [notice] = notices.as_slice() else { panic!("{notices:?}") };
        let frame = notice.body_text("content").and_then(AccessFrame::read);
        assert!(matches!(frame, Some(AccessFrame::Revocation(notice)) if notice.id == request(1, "mcp").id));
        assert!(revoke(&ids[1..], 600).await.is_empty(), "one that has ended is not revoked");
        let late = store.revocation_list(OURS, SECONDS + 660).await.expect("read");
        assert!(!late.has(&ids[0]), "a minute after its end it leaves the list");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_void_ends_every_token_of_before_and_none_behind_it() {
    on_both(|store| async move {
        ask(&store, "1", request(1, "mcp"), offered(5, 10), 0).await;
        let valid_from = store.void_access_tokens(SECONDS).await.expect("stored");
        assert_eq!(
            ask(&store, "1 again", request(1, "mcp"), offered(5, 10), 0).await,
            Some(AccessOutcome::Denied(DenyCode::InvalidRequest))
        );
        ask(&store, "2", request(2, "mcp"), offered(5, 10), 0).await;
        let list = store.revocation_list(OURS, SECONDS).await.expect("read");
        let stored = grants(&store, None, 0).await;
        let [before, behind] = stored.as_slice() else { panic!("{stored:?}") };
        assert!(before.issued_at < list.valid_from && list.valid_from == valid_from);
        assert!(behind.issued_at >= list.valid_from && behind.state(SECONDS) == GrantState::Active);
        assert_eq!(
            ask(&store, "3", request(1, "mcp"), offered(5, 10), 1).await,
            Some(AccessOutcome::Denied(DenyCode::InvalidRequest))
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_without_room_for_its_message_is_none() {
    on_both(|store| async move {
        ask(&store, "1", request(1, "mcp"), offered(500, 500), 0).await;
        let connection = store.connection_with_peer(THEIRS).await.expect("read").expect("a connection").connection.id;
        let filler = |number: i64| Message { expires_time: None, ..text(&format!("f{number}"), OURS) };
        for number in 0..99 {
            store.queue_message(&connection, &filler(number), SECONDS, &WIDE).await.expect("room");
        }
        ask(&store, "2", request(2, "mcp"), offered(500, 500), 0).await;
        assert_eq!(grants(&store, None, 0).await.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovered_store_has_no_valid_token() {
    on_both(|store| async move {
        let long_ago = -40_000_000;
        ask(&store, "1", request(1, "mcp"), offered(5, 10), long_ago).await;
        store.replace_versions(&[]).await.expect("recovered");
        let list = store.revocation_list(OURS, SECONDS).await.expect("read");
        assert!(list.valid_from > SECONDS + long_ago);
    })
    .await;
}

/// The facts of a request.
fn facts(request: AccessRequest, decision: Result<OfferedGrant, Denied>, at: i64) -> AccessDecision {
    AccessDecision {
        part: AccessPart::of(request.clone(), decision),
        peer: THEIRS.to_owned(),
        connection_id: "c".to_owned(),
        thread: "m".to_owned(),
        answer_id: "a".to_owned(),
        grant_id: format!("of {}", request.id),
        now: SECONDS + at,
    }
}

/// The rows in memory that answer a question.
fn rows_of(grants: &[StoredGrant], query: &GrantQuery) -> GrantRows {
    let valid = || grants.iter().filter(|one| one.state(query.now) == GrantState::Active);
    let of_peer = || valid().filter(|one| one.peer == query.peer && one.endpoint == query.endpoint);
    let known = grants.iter().find(|one| one.peer == query.peer && one.request_id == query.request_id);
    GrantRows {
        known: known.cloned(),
        of_peer: of_peer().count() as u64,
        first_end: of_peer().map(|one| one.expires_at).min(),
        all: (valid().count() as u64).min(query.max_counted),
        valid_from: 0,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_grants_as_the_decision_does_on_rows_in_memory() {
    on_both(|store| async move {
        let mut memory: Vec<StoredGrant> = Vec::new();
        // Requests of the same second, and of times at which earlier grants have ended; a bound is reached by one.
        for (number, endpoint, per_peer, all, at) in [
            (1, "mcp", 2, 3, 0),
            (2, "mcp", 2, 3, 0),
            (3, "mcp", 2, 3, 0),
            (1, "mcp", 2, 3, 1),
            (1, "site", 2, 3, 1),
            (4, "site", 2, 3, 1),
            (5, "api", 2, 3, 1),
            (5, "api", 2, 4, 1),
            (3, "mcp", 2, 4, 599),
            (3, "mcp", 2, 4, 600),
            (2, "mcp", 2, 4, 601),
            (6, "mcp", 1, 9, 601),
            (7, "mcp", 2, 3, 601),
        ] {
            let request = request(number, endpoint);
            let decided =
                facts(request.clone(), offered(per_peer, all), at).start().decide(|query| rows_of(&memory, &query));
            let (message, case) = (format!("{number} {endpoint} {all} {at}"), decided.outcome.outcome);
            assert_eq!(ask(&store, &message, request, offered(per_peer, all), at).await, Some(case), "{message}");
            for row in decided.rows {
                let RowChange::InsertGrant { grant, .. } = row else { panic!("{row:?}") };
                memory.push(*grant);
            }
            let shown = |grants: &[StoredGrant]| -> Vec<(String, String, i64, i64)> {
                let mut shown: Vec<_> = grants
                    .iter()
                    .map(|one| (one.request_id.clone(), one.endpoint.clone(), one.issued_at, one.expires_at))
                    .collect();
                shown.sort();
                shown
            };
            assert_eq!(shown(&grants(&store, None, at).await), shown(&memory), "{message}");
        }
        assert_eq!(memory.len(), 6, "the requests reach each outcome");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_of_a_grant_by_a_wrong_counter() {
    on_both(|store| async move {
        ask(&store, "m1", request(1, "mcp"), offered(5, 10), 0).await;
        let (right, stored) = (GrantRows { of_peer: 1, all: 1, ..GrantRows::default() }, grants(&store, None, 0).await);
        let change_by = |number: u32, rows: GrantRows| {
            facts(request(number, "mcp"), offered(5, 10), 0).start().decide(|_| rows.clone()).rows
        };
        for (case, number, rows) in [
            ("one of the peer too few", 2, GrantRows { of_peer: 0, ..right.clone() }),
            ("one of the peer too many", 2, GrantRows { of_peer: 2, ..right.clone() }),
            ("one of all too few", 2, GrantRows { all: 0, ..right.clone() }),
            ("one of all too many", 2, GrantRows { all: 2, ..right.clone() }),
            ("a request that has a grant", 1, right.clone()),
        ] {
            let mut transaction = store.begin().await.expect("begins");
            let refused = write_rows(&mut transaction, &change_by(number, rows)).await;
            assert!(matches!(refused, Err(AgentStoreError::WrongFacts)), "{case}: {refused:?}");
            drop(transaction);
            assert_eq!(grants(&store, None, 0).await, stored, "{case}");
        }
        let mut transaction = store.begin().await.expect("begins");
        let facts = facts(request(2, "mcp"), offered(5, 10), 0);
        let changes = decide_in(&mut transaction, facts.start(), &()).await.expect("decided");
        assert_eq!(changes.rows, change_by(2, right), "the store counts what is there");
        write_rows(&mut transaction, &changes.rows).await.expect("written");
        transaction.commit().await.expect("durable");
        assert_eq!(grants(&store, None, 0).await.len(), 2);
    })
    .await;
}
