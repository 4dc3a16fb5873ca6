//! The rows of flows on both databases.

mod hearing;

use std::collections::BTreeSet;

use serde_json::json;
use svc_agent_core::{
    flows::{ContentKind, FlowContent, FlowWrite},
    peers::PeerLimits,
};
use svc_didcomm::{
    Message,
    flow::{
        Cause, FlowRecord, FlowState, Guard, MessageParts, NewFlow, OnboardingState, Outgoing, ParticipantRead,
        Progress, Side, Trigger, Variant, begin, message_of,
    },
};

use super::{
    records::FlowFilter,
    writes::{FlowRefusal, FlowWriteError},
};
use crate::{
    OutboxEvent,
    peer_rows::{
        QueueRefusal,
        testing::{LIMITS, NOW, connect, on_both},
    },
    sealing::ContentKey,
};

const PEER: &str = "did:web:theirs";

fn read() -> ParticipantRead {
    ParticipantRead {
        height: 9,
        state: OnboardingState::Pending,
        changed_at: Some(5),
        expires_at: None,
        is_revoked: false,
        is_slashed: false,
    }
}

/// A flow of an applicant that begins.
/// The flow of a participant of the same number.
fn begun(id: &str, session: &str, connection_id: Option<&str>) -> FlowWrite {
    let new = NewFlow {
        id: id.to_owned(),
        side: Side::Applicant,
        variant: Variant::Onboarding,
        peer_did: PEER.to_owned(),
        connection_id: connection_id.map(str::to_owned),
        schema_id: 4,
        applicant_participant_id: id.parse().ok(),
        validator_participant_id: Some(3),
        is_holder: true,
        session_id: session.to_owned(),
        claims: None,
        proofs: None,
    };
    let facts = [Guard::OwnParticipant, Guard::NoFlowForRound];
    let cause = Cause { read: Some(read()), ..Cause::new(Trigger::ChainPending, NOW) }.with_facts(facts);
    let progress = begin(new, &cause).expect("it begins");
    FlowWrite { progress, messages: Vec::new(), due_at: Some(NOW), contents: Vec::new() }
}

/// The opening message.
fn opened(record: FlowRecord, thread: &str) -> Option<FlowWrite> {
    let mut progress = Progress::of(record);
    let cause = Cause { new_id: thread.to_owned(), ..Cause::new(Trigger::RequestReady, NOW + 1) };
    assert!(progress.take(&cause.with_facts([Guard::GatePassed, Guard::EcosystemAllowed])));
    let message = message_of(&progress.record, Outgoing::OnboardingRequest, thread, MessageParts::default());
    Some(FlowWrite { progress, messages: vec![message?], due_at: None, contents: Vec::new() })
}

async fn states(store: &crate::AgentStore) -> Vec<String> {
    let events: Vec<OutboxEvent> = store.next_events(0, 100).await.expect("read");
    let of_flows = events.iter().filter(|event| event.kind == "vt.flows.state-updated");
    of_flows
        .map(|event| {
            let body: serde_json::Value = serde_json::from_str(&event.body).expect("JSON");
            body["data"]["flowState"].as_str().expect("a state").to_owned()
        })
        .collect()
}

/// The refusal of a change; none when it was stored.
fn refusal_of<T>(written: Result<T, FlowWriteError>) -> Option<FlowRefusal> {
    match written {
        Ok(_) => None,
        Err(FlowWriteError::Refused(refusal)) => Some(refusal),
        Err(FlowWriteError::Store(error)) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_flow_its_messages_and_its_events_are_one_write() {
    on_both(async |store| {
        let key: ContentKey = store.content_key("did:web:ours").await.expect("a key");
        let connection = connect(&store, PEER).await;
        let new = begun("1", "s1", Some(&connection));
        let written = store.begin_flow(&key, &new, 2, &LIMITS).await.expect("stored");
        assert_eq!((&written.record, written.has_message, written.has_event), (&new.progress.record, false, true));
        let again = store.begin_flow(&key, &begun("2", "s1", None), 2, &LIMITS).await;
        assert_eq!(refusal_of(again), Some(FlowRefusal::SessionTaken));

        let sent = store.change_flow(&key, "1", &LIMITS, |record| opened(record, "t1")).await;
        let sent = sent.expect("there is room").expect("it changed");
        assert_eq!((sent.record.state, sent.has_message), (FlowState::OrSent, true));
        assert_eq!(states(&store).await, ["AWAITING_OP", "OR_SENT"]);
        assert_eq!(store.queued_messages().await.expect("read"), 1);
        assert_eq!(store.flow_of_session("s1").await.expect("read").as_ref(), Some(&sent.record));

        // A new opening message takes the place of the one that waits.
        let again = |record: FlowRecord| {
            let mut progress = Progress::of(record);
            assert!(progress.open_again("t1b", NOW + 2));
            let message = message_of(&progress.record, Outgoing::OnboardingRequest, "t1b", MessageParts::default());
            Some(FlowWrite { progress, messages: vec![message?], due_at: None, contents: Vec::new() })
        };
        store.change_flow(&key, "1", &LIMITS, again).await.expect("there is room");
        assert_eq!(store.queued_messages().await.expect("read"), 1);

        // The opening message of a flow that ends is not sent any more.
        let end = |record: FlowRecord| {
            let mut progress = Progress::of(record);
            assert!(progress.take(&Cause::new(Trigger::FlowsEnd, NOW + 2)));
            Some(FlowWrite { progress, messages: Vec::new(), due_at: None, contents: Vec::new() })
        };
        store.change_flow(&key, "1", &LIMITS, end).await.expect("there is room");
        assert_eq!(store.queued_messages().await.expect("read"), 0);
        store.queue_message(&connection, &Message::new("m", "x", json!({})), NOW / 1000, &LIMITS).await.expect("room");

        // Where a message has no place, nothing of the change is there.
        let full = PeerLimits { outbox_max: 1, ..LIMITS };
        store.begin_flow(&key, &begun("2", "s2", Some(&connection)), 2, &full).await.expect("stored");
        let refused = store.change_flow(&key, "2", &full, |record| opened(record, "t2")).await;
        assert_eq!(refusal_of(refused), Some(FlowRefusal::Queue(QueueRefusal::Full)));
        let kept = store.flow_of_session("s2").await.expect("read").expect("there");
        assert_eq!((kept.state, states(&store).await.len()), (FlowState::AwaitingOp, 4));
        let unchanged = store.change_flow(&key, "2", &full, |_| None).await.expect("works");
        assert_eq!(unchanged, None);
        assert_eq!(store.change_flow(&key, "9", &full, |_| None).await.expect("works"), None, "it is unknown");

        // The third is one too many, and after the end of another it is none.
        store.begin_flow(&key, &begun("5", "s5", None), 9, &LIMITS).await.expect("stored");
        let third = begun("3", "s3", None);
        let one_too_many = store.begin_flow(&key, &third, 2, &LIMITS).await;
        assert_eq!(refusal_of(one_too_many), Some(FlowRefusal::PeerFull));
        store.change_flow(&key, &kept.id, &LIMITS, end).await.expect("it ends");
        store.begin_flow(&key, &third, 2, &LIMITS).await.expect("stored");
        let alone = begun("4", "s4", None);
        let not_connected = FlowWrite { messages: vec![Message::new("m", "x", json!({}))], ..alone };
        let refused = store.begin_flow(&key, &not_connected, 9, &LIMITS).await;
        assert_eq!(refusal_of(refused), Some(FlowRefusal::NotConnected));
    })
    .await;
}

#[tokio::test]
async fn flows_are_found_by_all_that_names_them() {
    on_both(async |store| {
        let key = store.content_key("did:web:ours").await.expect("a key");
        let connection = connect(&store, PEER).await;
        for (id, session) in [("1", "s1"), ("2", "s2"), ("3", "s3")] {
            let new = begun(id, session, Some(&connection));
            store.begin_flow(&key, &new, 9, &LIMITS).await.expect("stored");
        }
        store.change_flow(&key, "2", &LIMITS, |record| opened(record, "t2")).await.expect("room");
        let ids = async |filter: FlowFilter, after: Option<&str>, limit: usize| {
            let found = store.flows(&filter, after, limit).await.expect("read");
            found.into_iter().map(|record| record.id).collect::<Vec<_>>()
        };
        let all = FlowFilter::default;
        for (filter, expected) in [
            (all(), vec!["1", "2", "3"]),
            (FlowFilter { side: Some(Side::Applicant), ..all() }, vec!["1", "2", "3"]),
            (FlowFilter { side: Some(Side::Validator), ..all() }, vec![]),
            (FlowFilter { state: Some(FlowState::OrSent), ..all() }, vec!["2"]),
            (FlowFilter { session_id: Some("s3".into()), ..all() }, vec!["3"]),
            (FlowFilter { peer_did: Some("did:web:other".into()), ..all() }, vec![]),
            (FlowFilter { applicant_participant_id: Some(2), schema_id: Some(4), ..all() }, vec!["2"]),
            (FlowFilter { validator_participant_id: Some(7), ..all() }, vec![]),
            (FlowFilter { is_live: Some(false), ..all() }, vec![]),
        ] {
            assert_eq!(ids(filter.clone(), None, 10).await, expected, "{filter:?}");
        }
        assert_eq!(
            (ids(all(), None, 2).await, ids(all(), Some("2"), 2).await),
            (vec!["1".into(), "2".into()], vec!["3".into()])
        );
        let due = store.due_flows(NOW, 10).await.expect("read");
        assert_eq!(due, ["1", "3"]);
        assert_eq!(store.next_flow_due().await.expect("read"), Some(NOW));
        assert!(store.due_flows(NOW - 1, 10).await.expect("read").is_empty());

        // A flow that was changed or woken since it was read keeps its time.
        let seen = store.flow_with_time("1").await.expect("read").expect("there");
        assert_eq!(seen.due_at, Some(NOW));
        assert!(store.postpone_flow(&seen, Some(NOW + 9)).await.expect("works"));
        assert!(!store.postpone_flow(&seen, None).await.expect("works"), "it has another time");
        let seen = store.flow_with_time("1").await.expect("read").expect("there");
        store.wake_waiting_flows(NOW + 5).await.expect("works");
        assert!(!store.postpone_flow(&seen, None).await.expect("works"), "it was woken");
        let seen = store.flow_with_time("1").await.expect("read").expect("there");
        store.change_flow(&key, "1", &LIMITS, |record| opened(record, "t1")).await.expect("room");
        assert!(!store.postpone_flow(&seen, Some(NOW + 9)).await.expect("works"), "it was changed");
        let time = async || store.flow_with_time("1").await.expect("read").expect("there").due_at;
        assert_eq!(time().await, None);
        for (by, expected) in [(NOW + 9, NOW + 9), (NOW + 20, NOW + 9), (NOW, NOW)] {
            store.look_at_flow_by("1", by).await.expect("works");
            assert_eq!(time().await, Some(expected));
        }

        // A participant has one flow that has not ended; the next one begins after its end.
        let mut next = begun("4", "s4", None);
        next.progress.record.applicant_participant_id = Some(3);
        let refused = store.begin_flow(&key, &next, 9, &LIMITS).await;
        assert_eq!(refusal_of(refused), Some(FlowRefusal::AlreadyLive));
        let end = |record: FlowRecord| {
            let mut progress = Progress::of(record);
            assert!(progress.take(&Cause::new(Trigger::FlowsEnd, NOW + 2)));
            Some(FlowWrite { progress, messages: Vec::new(), due_at: None, contents: Vec::new() })
        };
        store.change_flow(&key, "3", &LIMITS, end).await.expect("it ends");
        store.begin_flow(&key, &next, 9, &LIMITS).await.expect("stored");
        let newest = store.flows_of_applicant(Side::Applicant, 3).await.expect("read");
        assert_eq!(newest.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["4", "3"]);

        // Flows of a connection that goes are kept without one.
        assert!(store.remove_connection(&connection).await.expect("works"));
        let kept = store.flow_of_session("s2").await.expect("read").expect("there");
        assert_eq!((kept.connection_id, kept.connection_state.as_str()), (None, "TERMINATED"));
        assert!(
            store
                .connections(&svc_agent_core::peers::ConnectionFilter::default(), None, 9)
                .await
                .expect("read")
                .is_empty()
        );
    })
    .await;
}

#[tokio::test]
async fn a_content_opens_at_its_own_place_and_survives_a_change_of_the_store_key() {
    on_both(async |store| {
        let key = store.content_key("did:web:ours").await.expect("a key");
        let content = FlowContent {
            kind: ContentKind::Signed,
            round: 1,
            format: "didcomm/w3c-di-vc@v0.1".to_owned(),
            body: json!({"name": "a person"}).to_string(),
        };
        let new = FlowWrite { contents: vec![content.clone()], ..begun("1", "s1", None) };
        store.begin_flow(&key, &new, 9, &LIMITS).await.expect("stored");
        let sealed: String =
            sqlx::query_scalar("SELECT sealed FROM flow_content").fetch_one(store.reader()).await.expect("read");
        assert!(!sealed.contains("person"));
        store.reseal_keys("did:web:ours").await.expect("resealed");
        let key = store.content_key("did:web:ours").await.expect("the same key");
        let found = async |flow: &str, kind, round| store.flow_content(&key, flow, kind, round).await.expect("read");
        assert_eq!(found("1", ContentKind::Signed, 1).await, Some(content));
        assert_eq!(found("1", ContentKind::Received, 1).await, None);
        assert_eq!(found("2", ContentKind::Signed, 1).await, None);
        // A row that is moved does not open.
        let mut transaction = store.begin().await.expect("begins");
        sqlx::query("UPDATE flow_content SET round = 2").execute(&mut *transaction).await.expect("moved");
        transaction.commit().await.expect("durable");
        assert!(store.flow_content(&key, "1", ContentKind::Signed, 2).await.is_err());
    })
    .await;
}
