//! Decisions about messages of flows, by rows in memory.

use std::collections::BTreeSet;

use serde_json::json;
use svc_didcomm::{
    flow::{Exchange, FlowState, ParticipantRead},
    protocol::{basic_message::BasicMessage, problem_report::ProblemReport},
};

use super::*;
use crate::flows::{RequestedFlow, testing::direct_validation};

const NOW: i64 = 1_800_000_000_000;
const PEER: &str = "did:web:a";

fn heard(message: Message) -> HeardMessage {
    let read = ParticipantRead {
        height: 9,
        state: OnboardingState::Pending,
        changed_at: Some(5),
        expires_at: None,
        is_revoked: false,
        is_slashed: false,
    };
    HeardMessage {
        content: Content::read(&message).expect("a message of a protocol"),
        message,
        peer_did: PEER.to_owned(),
        connection_id: "moved".to_owned(),
        heard: HeardFacts {
            facts: BTreeSet::from([Guard::GateOrExempt, Guard::RequestFits, Guard::SessionFree]),
            read: Some(read),
            requested: Some(RequestedFlow { schema_id: 4, validator_participant_id: 3, is_holder: true }),
        },
        max_per_peer: 2,
        traceparent: Some("present".to_owned()),
        flow_id: "new".to_owned(),
        new_id: || "made".to_owned(),
        now: NOW,
    }
}

fn request(session: &str) -> Message {
    let request = FlowRequest { participant_session_id: session.to_owned(), claims: None, proofs: None };
    VtFlow::OnboardingRequest { participant_id: "7".to_owned(), request }.to_message("m", Some("t"))
}

fn validating() -> Message {
    VtFlow::Validating { comment: None }.to_message("m", Some("t"))
}

/// The flow of a validator that has begun by a request of the peer.
fn begun() -> FlowRecord {
    let rows = |_| FlowRows::default();
    match heard(request("s1")).start().decide(rows) {
        Heard::Changed(mut changes) => changes.remove(0).0.progress.record,
        other => panic!("{other:?}"),
    }
}

/// A flow whose credential was offered, and the request that is repeated.
fn offered() -> (FlowRecord, Message, FlowContent) {
    let exchange = Some(Exchange { thread: "x".to_owned(), is_requested: true, is_delivered: true });
    let record = FlowRecord { state: FlowState::CredOffered, exchange, ..direct_validation(NOW - 9) };
    let request = FlowRequest { participant_session_id: "s".to_owned(), claims: None, proofs: None };
    let message = VtFlow::IssuanceRequest { schema_id: "4".to_owned(), request }.to_message("m", Some("t2"));
    let content = FlowContent {
        kind: ContentKind::Offered,
        round: record.round.number,
        format: CredentialFormat::DataIntegrity.offer_name().to_owned(),
        body: json!({"id": "c"}).to_string(),
    };
    (record, message, content)
}

#[test]
fn a_message_asks_for_the_flow_that_it_names_and_for_nothing_else() {
    let session = |session: &str| FlowQuery::OfSession(session.to_owned());
    let threads = |threads: &[&str]| FlowQuery::OfThreads {
        peer_did: PEER.to_owned(),
        threads: threads.iter().map(|&thread| thread.to_owned()).collect(),
    };
    let of_participant = FlowQuery::OfParticipant { participant_id: Some(7), peer_did: PEER.to_owned() };
    let report = |thread: &str| ProblemReport::new("e.p.x", "no").to_message("r", thread);
    let in_parent = Message { pthid: Some("p".to_owned()), ..report("t") };
    let ((offered, again, content), begun) = (offered(), begun());
    let offer = FlowQuery::Offer { flow_id: "f".to_owned(), round: content.round };
    let found = |record: &FlowRecord| FlowRows { flows: vec![record.clone()], ..FlowRows::default() };
    let (none, kept) = (FlowRows::default, FlowRows { offer: Some(content), ..FlowRows::default() });
    for (case, message, rows, asked, end) in [
        ("of another protocol", BasicMessage { content: String::new() }.to_message("b", 1), vec![], vec![], "other"),
        ("of no flow", validating(), vec![none()], vec![threads(&["t"])], "unknown"),
        ("a report about no flow", in_parent, vec![none()], vec![threads(&["p", "t"])], "other"),
        ("a report", report("t"), vec![found(&begun)], vec![threads(&["t"])], "changed"),
        ("for the other side", validating(), vec![found(&begun)], vec![threads(&["t"])], "ignored"),
        (
            "a first request",
            request("s1"),
            vec![none(), none()],
            vec![session("s1"), of_participant.clone()],
            "changed",
        ),
        ("the same request", request("s1"), vec![found(&begun)], vec![session("s1")], "changed"),
        ("an offer again", again.clone(), vec![found(&offered), kept], vec![session("s"), offer.clone()], "changed"),
        ("an offer that is lost", again, vec![found(&offered), none()], vec![session("s"), offer], "lost"),
    ] {
        let (mut rows, mut queries) = (rows.into_iter(), Vec::new());
        let end_of = heard(message).start().decide(|query| {
            queries.push(query);
            rows.next().expect("an answer")
        });
        let name = match &end_of {
            Heard::OtherMessage => "other",
            Heard::UnknownThread => "unknown",
            Heard::Ignored => "ignored",
            Heard::Changed(_) => "changed",
            Heard::Refused(..) => "refused",
            Heard::PeerFull => "full",
            Heard::OfferMissing => "lost",
        };
        assert_eq!((queries, name), (asked, end), "{case}: {end_of:?}");
    }
}

#[test]
fn the_change_of_a_flow_guards_the_row_that_was_loaded_and_repeats_the_stored_offer() {
    let (loaded, message, content) = offered();
    let heard = heard(message).start().decide(|query| match query {
        FlowQuery::Offer { .. } => FlowRows { offer: Some(content.clone()), ..FlowRows::default() },
        _ => FlowRows { flows: vec![loaded.clone()], ..FlowRows::default() },
    });
    let Heard::Changed(changes) = heard else { panic!("{heard:?}") };
    let [(write, before)] = changes.as_slice() else { panic!("{changes:?}") };
    assert_eq!(*before, FlowBefore::Loaded { thread_id: Some("t".to_owned()), updated_at: NOW - 9 });
    let record = &write.progress.record;
    assert_eq!((record.connection_id.as_deref(), record.thread_id.as_deref()), (Some("moved"), Some("t2")));
    assert_eq!((record.updated_at, record.traceparent.as_deref()), (NOW, Some("present")));
    let [message] = write.messages.as_slice() else { panic!("{:?}", write.messages) };
    let Ok(Content::IssueCredential(IssueCredential::Offer { attachments, .. })) = Content::read(message) else {
        panic!("{message:?}")
    };
    assert_eq!(attachments, [CredentialFormat::DataIntegrity.offer("made", &json!({"id": "c"}))]);
    // A later message of the same millisecond goes out from the row of the first one, and a trace stays.
    let again = super::tests::heard(validating());
    let later = HeardMessage { traceparent: Some("later".to_owned()), ..again }
        .go_on::<crate::decision::First>(record, Progress::of(record.clone()));
    let Step::Done(Heard::Changed(changes)) = later else { panic!("it needs no rows") };
    assert_eq!(changes[0].1, FlowBefore::Loaded { thread_id: Some("t2".to_owned()), updated_at: NOW });
    assert_eq!(changes[0].0.progress.record.traceparent.as_deref(), Some("present"));
}

#[test]
fn a_peer_begins_flows_up_to_its_limit_and_one_in_the_place_of_another_is_none_more() {
    let claims = json!({"name": "a"}).as_object().cloned();
    let own = FlowRecord { claims: claims.clone(), ..begun() };
    let foreign = FlowRecord { peer_did: "did:web:b".to_owned(), ..own.clone() };
    let completed = FlowRecord { state: FlowState::Completed, ..own.clone() };
    for (case, flows, live, counted) in [
        ("the first", vec![], 0, Some(0)),
        ("the last one", vec![], 1, Some(1)),
        ("one too many", vec![], 2, None),
        ("in the place of its own", vec![own.clone()], 2, Some(1)),
        ("in the place of its own, above the limit", vec![own.clone()], 3, None),
        ("in the place of another peer's", vec![foreign], 2, None),
        ("beside one that is complete", vec![completed], 2, None),
    ] {
        let replaces = flows.first().is_some_and(is_replaced);
        let heard = heard(request("s2")).start().decide(|query| match query {
            FlowQuery::OfParticipant { .. } => FlowRows { flows: flows.clone(), live, offer: None },
            _ => FlowRows::default(),
        });
        let Some(counted) = counted else {
            assert_eq!(heard, Heard::PeerFull, "{case}");
            continue;
        };
        let Heard::Changed(mut changes) = heard else { panic!("{case}: {heard:?}") };
        let (new, before) = changes.pop().expect("a new flow");
        assert_eq!(before, FlowBefore::New { live: counted }, "{case}");
        let record = &new.progress.record;
        assert_eq!((record.id.as_str(), record.session_id.as_str()), ("new", "s2"), "{case}");
        assert_eq!(record.claims, claims.clone().filter(|_| replaces), "{case}: a renewal proposes them again");
        assert_eq!(changes.len(), usize::from(replaces), "{case}");
        for (ended, before) in changes {
            assert_eq!(before, FlowBefore::of(&own), "{case}");
            assert!(ended.progress.record.state.is_terminal() && ended.progress.record.claims.is_none(), "{case}");
        }
    }
}

#[test]
fn a_request_that_does_not_fit_is_refused_in_its_thread() {
    let refused = |heard: HeardMessage| match heard.start().decide(|_| FlowRows::default()) {
        Heard::Refused(fault, answer) => (fault, answer.thread().to_owned(), answer.id),
        other => panic!("{other:?}"),
    };
    let (thread, id) = ("t".to_owned(), "made".to_owned());
    let change = |change: fn(&mut HeardFacts)| {
        let mut one = heard(request("s1"));
        change(&mut one.heard);
        one
    };
    for (heard, fault) in [
        (change(|heard| heard.requested = None), RequestFault::Participant),
        (change(|heard| heard.facts.retain(|guard| *guard != Guard::SessionFree)), RequestFault::Session),
        (change(|heard| heard.facts.retain(|guard| *guard != Guard::RequestFits)), RequestFault::Participant),
        (change(|heard| heard.facts.retain(|guard| *guard != Guard::GateOrExempt)), RequestFault::Peer),
    ] {
        assert_eq!(refused(heard), (fault, thread.clone(), id.clone()));
    }
    let direct = HeardMessage { heard: HeardFacts::default(), ..heard(offered().1) };
    assert_eq!(refused(direct), (RequestFault::Schema, "t2".to_owned(), id));
}
