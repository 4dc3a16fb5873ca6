//! Messages of peers on both databases: one whose process ends between two writes, and some of one millisecond.

use std::collections::BTreeSet;

use sqlx::{AssertSqlSafe, Row};
use svc_agent_core::{
    access::{AccessPart, GrantDetails, OfferedGrant},
    flows::{HeardFacts, RequestedFlow},
    peers::BasicMessageFilter,
};
use svc_didcomm::{
    access::{GrantLimits, GrantTerms},
    flow::{Guard, OnboardingState, ParticipantRead},
    from_prior::make_from_prior,
    protocol::{
        endpoint_access::{AccessFrame, AccessRequest},
        vt_flow::{FlowRequest, VtFlow},
    },
};
use svc_wire::endpoint_access::Material;

use super::*;
use crate::peer_rows::testing::{
    LIMITS, NOW, OURS, SECONDS, THEIRS, connect, no_flows, on_both, take, take_with, text,
};

/// Tables that change by messages alone.
const TABLES: [&str; 14] = [
    "access_grant",
    "basic_message",
    "credential_exchange",
    "event_cursor",
    "flow",
    "flow_content",
    "flow_session",
    "outbox",
    "peer_connection",
    "peer_did",
    "peer_message",
    "peer_total",
    "seen_message",
    "seen_sender",
];

async fn run(store: &AgentStore, sql: String) {
    let mut transaction = store.begin().await.expect("begins");
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *transaction).await.expect("runs");
    transaction.commit().await.expect("durable");
}

/// Has the database end a transaction at the write that brings the number of a table to zero.
async fn install_faults(store: &AgentStore) {
    let is_postgres = store.begin().await.expect("begins").backend_name() == "PostgreSQL";
    run(store, "CREATE TABLE fault (writes_left BIGINT); INSERT INTO fault VALUES (0)".to_owned()).await;
    let count = "UPDATE fault SET writes_left = writes_left - 1;";
    if is_postgres {
        let body = format!("{count} IF (SELECT writes_left FROM fault) = 0 THEN RAISE EXCEPTION 'killed'; END IF;");
        let sql = format!(
            "CREATE FUNCTION count_write() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN {} RETURN NULL; END'",
            body.replace('\'', "''")
        );
        run(store, sql).await;
    }
    for table in TABLES {
        for change in ["INSERT", "UPDATE", "DELETE"] {
            let head = format!("CREATE TRIGGER fault_{table}_{change} AFTER {change} ON {table}");
            let body = match is_postgres {
                true => "FOR EACH ROW EXECUTE FUNCTION count_write()".to_owned(),
                false => format!("BEGIN {count} SELECT RAISE(ABORT, 'killed') FROM fault WHERE writes_left = 0; END"),
            };
            run(store, format!("{head} {body}")).await;
        }
    }
}

/// Every row of the tables.
async fn rows(store: &AgentStore) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for table in TABLES {
        let sql = format!("SELECT * FROM {table}");
        for row in sqlx::query(AssertSqlSafe(sql)).fetch_all(store.reader()).await.expect("read") {
            let value = |column: usize| match row.try_get::<Option<i64>, _>(column) {
                Ok(number) => format!("{number:?}"),
                Err(_) => format!("{:?}", row.get::<Option<String>, _>(column)),
            };
            all.insert(format!("{table}: {:?}", (0..row.len()).map(value).collect::<Vec<_>>()));
        }
    }
    all
}

/// Repeats a decision whose write fails: the first, the second, and so on to the last. A repetition after success changes nothing.
async fn decide_behind_failures<T: std::fmt::Debug, E>(
    store: &AgentStore,
    least_writes: usize,
    decide: impl AsyncFn() -> Result<T, E>,
) {
    let before = rows(store).await;
    let mut failures = 0;
    let decided = loop {
        run(store, format!("UPDATE fault SET writes_left = {}", failures + 1)).await;
        match decide().await {
            Ok(decided) => break decided,
            Err(_) => assert_eq!(rows(store).await, before, "after write {}", failures + 1),
        }
        failures += 1;
    };
    let after = rows(store).await;
    assert!(failures >= least_writes && after != before, "{failures} writes: {decided:?}");
    run(store, "UPDATE fault SET writes_left = 0".to_owned()).await;
    assert!(decide().await.is_ok(), "{decided:?}");
    assert_eq!(rows(store).await, after, "{decided:?}");
}

async fn arrive(
    store: &AgentStore,
    message: &Message,
    flows: FlowPart<'_>,
    access: Option<&AccessPart>,
) -> Result<TakenMessage, ArrivalError> {
    let content = match access {
        Some(AccessPart::Offered { request, .. }) => Ok(Content::EndpointAccess(AccessFrame::Request(request.clone()))),
        _ => Content::read(message),
    };
    let arrived = ArrivedMessage {
        message,
        content: &content,
        sender: THEIRS,
        recipient: OURS,
        invitation: None,
        prior: None,
        verdict: None,
        flows,
        access,
        now: NOW,
    };
    store.take_message(&arrived, &LIMITS).await
}

/// A request for access, with room for one grant of the peer.
fn access(number: u32) -> AccessPart {
    let id = format!("018f4c5e-7a2b-4c3d-8e9f-{number:012x}");
    let request = AccessRequest { id, endpoint: format!("{OURS}#mcp"), scopes: None, accept: None };
    let terms = GrantTerms {
        url: "https://ours/mcp".to_owned(),
        scopes: vec!["mcp:read".to_owned()],
        material: Material::Bearer,
        seconds: 600,
    };
    let limits = GrantLimits { per_peer: 1, all: 10 };
    AccessPart::of(request, Ok(OfferedGrant { terms, details: GrantDetails::default(), limits }))
}

async fn ask(store: &AgentStore, number: u32) -> Result<TakenMessage, ArrivalError> {
    arrive(store, &text(&format!("access {number}"), THEIRS), no_flows(), Some(&access(number))).await
}

async fn open_flow(store: &AgentStore, session: &str) -> Result<TakenMessage, ArrivalError> {
    let read = ParticipantRead {
        height: 9,
        state: OnboardingState::Pending,
        changed_at: Some(5),
        expires_at: None,
        is_revoked: false,
        is_slashed: false,
    };
    let heard = HeardFacts {
        facts: BTreeSet::from([Guard::GateOrExempt, Guard::RequestFits, Guard::SessionFree]),
        read: Some(read),
        requested: Some(RequestedFlow { schema_id: 4, validator_participant_id: 3, is_holder: true }),
    };
    let request = FlowRequest { participant_session_id: session.to_owned(), claims: None, proofs: None };
    let message = VtFlow::OnboardingRequest { participant_id: "7".to_owned(), request }.to_message(session, None);
    arrive(store, &message, FlowPart { heard, max_per_peer: 1, ..no_flows() }, None).await
}

#[tokio::test]
async fn a_decision_whose_process_ends_between_any_two_writes_is_none_and_the_next_attempt_is_one() {
    on_both(async |store: AgentStore| {
        install_faults(&store).await;
        let key = ed25519_dalek::SigningKey::from_bytes(&[3; 32]);
        let prior = |to: Option<&str>| {
            let made = make_from_prior(&key, &format!("{THEIRS}#k"), THEIRS, to, SECONDS);
            svc_didcomm::from_prior::FromPrior::read(&made).expect("a from_prior")
        };
        let first = text("1", THEIRS);
        decide_behind_failures(&store, 8, async || take_with(&store, &first, None, &LIMITS).await).await;
        decide_behind_failures(&store, 8, async || ask(&store, 1).await).await;
        decide_behind_failures(&store, 10, async || open_flow(&store, "s1").await).await;
        decide_behind_failures(&store, 12, async || open_flow(&store, "s2").await).await;
        let other = connect(&store, "did:web:next").await;
        let rotation = prior(Some("did:web:next"));
        let moved = text("2", "did:web:next");
        decide_behind_failures(&store, 12, async || take_with(&store, &moved, Some(&rotation), &LIMITS).await).await;
        assert_eq!(store.connection(&other).await.expect("read"), None, "it was joined with the first one");
        let back = make_from_prior(&key, "did:web:next#k", "did:web:next", None, SECONDS);
        let back = svc_didcomm::from_prior::FromPrior::read(&back).expect("a from_prior");
        decide_behind_failures(&store, 2, async || store.end_connection(OURS, &back, NOW, &LIMITS).await).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_one_peer_in_one_millisecond_are_decided_one_after_the_other() {
    on_both(async |store: AgentStore| {
        // The first message of the peer makes its connection, and a repetition beside it is one.
        let (one, two) = (text("1", THEIRS), text("2", THEIRS));
        let taken = tokio::join!(take(&store, &one), take(&store, &two), take(&store, &one));
        let is_new = |taken: &TakenMessage| matches!(taken, TakenMessage::New { .. });
        assert!(is_new(&taken.1) && is_new(&taken.0) != is_new(&taken.2), "{taken:?}");
        let records = store.basic_messages(&BasicMessageFilter::default(), None, 9).await.expect("read");
        assert_eq!(records.len(), 2);
        let known = store.connection_with_peer(THEIRS).await.expect("read").expect("a connection");
        assert!(records.iter().all(|record| record.connection_id == known.connection.id));

        // The peer has room for one grant.
        let (one, two) = tokio::join!(ask(&store, 1), ask(&store, 2));
        let outcomes: Vec<_> = [one, two].into_iter().map(|taken| taken.expect("taken")).collect();
        let granted =
            |taken: &&TakenMessage| matches!(taken, TakenMessage::New { access: Some(AccessOutcome::Granted), .. });
        assert_eq!(outcomes.iter().filter(granted).count(), 1, "{outcomes:?}");

        // And for one flow: the second request takes the place of the first one.
        let (one, two) = tokio::join!(open_flow(&store, "s1"), open_flow(&store, "s2"));
        let mut changed: Vec<Vec<bool>> = Vec::new();
        for taken in [one, two] {
            let TakenMessage::New { flows, .. } = taken.expect("taken") else { panic!("there is room") };
            changed.push(flows.iter().map(|flow| flow.record.state.is_terminal()).collect());
        }
        changed.sort();
        assert_eq!(changed, [vec![false], vec![false, true]], "the own flow is the first");
    })
    .await;
}
