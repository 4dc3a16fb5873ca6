//! Messages of peers about flows on both databases.

use svc_agent_core::flows::{FlowBefore, FlowQuery, FlowRows, Heard, HeardFacts, HeardMessage, RequestedFlow};
use svc_didcomm::{
    flow::{ConnectionState, RequestFault},
    protocol::{
        Content,
        credential_format::CredentialFormat,
        issue_credential::IssueCredential,
        problem_report::ProblemReport,
        vt_flow::{FlowRequest, VtFlow},
    },
};

use uuid::Uuid;

use super::{
    super::writes::{WrittenFlow, write_flows},
    *,
};
use crate::{AgentStore, AgentStoreError, decision::decide_in};

/// An agent that hears messages of a peer.
struct Ear<'a> {
    store: &'a AgentStore,
    key: ContentKey,
    connection: String,
    max_per_peer: u64,
    /// Whether the node shows the participants of a request.
    is_shown: bool,
}

impl<'a> Ear<'a> {
    async fn new(store: &'a AgentStore) -> Self {
        let key = store.content_key("did:web:ours").await.expect("a key");
        Self { store, key, connection: connect(store, PEER).await, max_per_peer: 2, is_shown: true }
    }

    fn facts(&self, message: &Message, peer_did: &str) -> HeardMessage {
        let requested = RequestedFlow { schema_id: 4, validator_participant_id: 3, is_holder: true };
        HeardMessage {
            message: message.clone(),
            content: Content::read(message).expect("a message of a protocol"),
            peer_did: peer_did.to_owned(),
            connection_id: self.connection.clone(),
            heard: HeardFacts {
                facts: BTreeSet::from([Guard::GateOrExempt, Guard::GatePassed, Guard::RequestFits, Guard::SessionFree]),
                read: Some(read()),
                requested: self.is_shown.then_some(requested),
            },
            max_per_peer: self.max_per_peer,
            traceparent: None,
            flow_id: Uuid::now_v7().to_string(),
            new_id: || "made".to_owned(),
            now: NOW,
        }
    }

    /// Decides about a message, by rows in memory too.
    async fn hear_of(&self, message: &Message, peer_did: &str) -> (Heard, Vec<WrittenFlow>) {
        let (facts, flows) = (self.facts(message, peer_did), all(self.store).await);
        let mut transaction = self.store.begin().await.expect("begins");
        let heard = decide_in(&mut transaction, facts.clone().start(), &self.key).await.expect("works");
        assert_eq!(heard, facts.start().decide(|query| in_memory(&flows, query)), "{message:?}");
        let Heard::Changed(changes) = &heard else { return (heard, Vec::new()) };
        let written = write_flows(&mut transaction, &self.key, changes, &LIMITS).await.expect("there is room");
        transaction.commit().await.expect("durable");
        (heard, written)
    }

    async fn hear(&self, message: &Message) -> Heard {
        self.hear_of(message, PEER).await.0
    }

    /// The states of the flows that have changed.
    async fn states_behind(&self, message: &Message) -> Vec<FlowState> {
        let (heard, written) = self.hear_of(message, PEER).await;
        assert!(!written.is_empty(), "{heard:?}");
        written.iter().map(|one| one.record.state).collect()
    }
}

async fn all(store: &AgentStore) -> Vec<FlowRecord> {
    store.flows(&FlowFilter::default(), None, 100).await.expect("read")
}

/// The answer to a question by flows in the order of their ids.
fn in_memory(flows: &[FlowRecord], query: FlowQuery) -> FlowRows {
    let newest = |is_meant: &dyn Fn(&FlowRecord) -> bool| -> Vec<FlowRecord> {
        flows.iter().rev().filter(|flow| is_meant(flow)).cloned().collect()
    };
    let (flows, live) = match query {
        FlowQuery::OfSession(session) => {
            (newest(&|flow| flow.session_id == session || flow.previous_session_ids.contains(&session)), 0)
        }
        FlowQuery::OfThreads { peer_did, threads } => {
            let has = |flow: &FlowRecord, thread: &String| {
                let of_exchange = flow.exchange.as_ref().is_some_and(|exchange| exchange.thread == *thread);
                flow.peer_did == peer_did && (flow.thread_id.as_ref() == Some(thread) || of_exchange)
            };
            (threads.iter().flat_map(|thread| newest(&|flow| has(flow, thread)).into_iter().next()).collect(), 0)
        }
        FlowQuery::OfParticipant { participant_id, peer_did } => {
            let live = newest(&|flow| flow.peer_did == peer_did && !flow.state.is_terminal()).len() as u64;
            let is_of = |flow: &FlowRecord| {
                flow.side == Side::Validator
                    && participant_id.is_some()
                    && flow.applicant_participant_id == participant_id
            };
            (newest(&is_of), live)
        }
        FlowQuery::Offer { .. } => panic!("no flow of this test has an offer"),
    };
    FlowRows { flows, live, offer: None }
}

fn request(thread: &str, session: &str) -> Message {
    let request = FlowRequest { participant_session_id: session.to_owned(), claims: None, proofs: None };
    VtFlow::OnboardingRequest { participant_id: "7".to_owned(), request }.to_message(thread, Some(thread))
}

#[tokio::test]
async fn a_request_begins_a_flow_repeats_it_or_takes_its_place() {
    on_both(async |store| {
        let ear = Ear::new(&store).await;
        assert_eq!(ear.states_behind(&request("t1", "s1")).await, [FlowState::Validating]);
        assert_eq!(states(&store).await, ["AWAITING_OR", "VALIDATING"], "each change of the state is an event");
        let known = store.flow_of_session("s1").await.expect("read").expect("there");
        assert_eq!((known.side, known.peer_did.as_str(), known.schema_id), (Side::Validator, PEER, 4));
        assert_eq!(known.connection_state, ConnectionState::Established);
        assert_eq!(store.queued_messages().await.expect("read"), 1, "validating");

        // The same session on another thread is the same flow; of another peer it is refused.
        assert_eq!(ear.states_behind(&request("t2", "s1")).await, [FlowState::Validating]);
        assert_eq!(store.flow_of_session("s1").await.expect("read").expect("there").thread_id.as_deref(), Some("t2"));
        let (foreign, _) = ear.hear_of(&request("t3", "s1"), "did:web:other").await;
        assert!(matches!(foreign, Heard::Refused(RequestFault::Session, _)), "{foreign:?}");

        // A fresh session takes the place of an unfinished flow.
        let replaced = ear.states_behind(&request("t4", "s2")).await;
        assert_eq!((replaced.len(), replaced[1]), (2, FlowState::Validating));
        assert!(replaced[0].is_terminal(), "{replaced:?}");
        let old = ear.hear(&request("t5", "s1")).await;
        assert!(matches!(old, Heard::Refused(RequestFault::Session, _)), "it has ended: {old:?}");

        // A request that the node does not confirm begins nothing, and one flow too many neither.
        let mut strange = request("t6", "s3");
        strange.body["participant_id"] = json!("8");
        let unsure = Ear { is_shown: false, ..ear };
        let refused = unsure.hear(&strange).await;
        assert!(matches!(refused, Heard::Refused(RequestFault::Participant, _)), "{refused:?}");
        let full = Ear { max_per_peer: 1, is_shown: true, ..unsure };
        assert_eq!(full.hear(&strange).await, Heard::PeerFull);
        assert_eq!(store.flow_of_session("s3").await.expect("read"), None);
    })
    .await;
}

#[tokio::test]
async fn a_message_finds_its_flow_by_the_thread_and_its_peer() {
    on_both(async |store| {
        let ear = Ear::new(&store).await;
        let new = begun("1", "s1", Some(&ear.connection));
        store.begin_flow(&ear.key, &new, 9, &LIMITS).await.expect("stored");
        store.change_flow(&ear.key, "1", &LIMITS, |record| opened(record, "t1")).await.expect("room");
        let validating = |thread: &str| VtFlow::Validating { comment: None }.to_message("m", Some(thread));
        assert_eq!(ear.hear(&validating("t9")).await, Heard::UnknownThread);
        let (foreign, _) = ear.hear_of(&validating("t1"), "did:web:other").await;
        assert_eq!(foreign, Heard::UnknownThread, "the thread is another peer's");
        assert_eq!(ear.states_behind(&validating("t1")).await, [FlowState::Validating]);
        let report = ProblemReport::new("e.p.x", "no").to_message("r", "t9");
        assert_eq!(ear.hear(&report).await, Heard::OtherMessage);

        let format = CredentialFormat::DataIntegrity;
        let offer = IssueCredential::Offer { attachments: vec![format.offer("a", &json!({"id": "c"}))], comment: None };
        assert_eq!(ear.states_behind(&offer.to_message("o", "x1", Some("t1"))).await, [FlowState::Validating]);
        let held = store.flow_of_session("s1").await.expect("read").expect("there").held_offer.expect("it waits");
        assert_eq!(
            (held.thread.as_str(), held.format.as_str(), held.content),
            ("x1", format.offer_name(), json!({"id": "c"}))
        );
        assert_eq!(store.due_flows(NOW, 9).await.expect("read").len(), 1, "the offer is to be judged");

        let take_offer = |record: FlowRecord| {
            let mut progress = Progress::of(record);
            let cause = Cause { new_id: "n".to_owned(), ..Cause::new(Trigger::RequestReady, NOW) };
            assert!(progress.take_offer(&cause.with_facts([Guard::OpValidated])));
            Some(FlowWrite { progress, messages: Vec::new(), due_at: None, contents: Vec::new() })
        };
        store.change_flow(&ear.key, "1", &LIMITS, take_offer).await.expect("room");
        // The credential comes without the flow's thread, and once more.
        let issue = |id: &str| {
            IssueCredential::Issue(vec![format.credential("a", &json!({"id": id}))]).to_message(id, "x1", None)
        };
        assert_eq!(ear.states_behind(&issue("c1")).await, [FlowState::CredOffered]);
        assert_eq!(ear.hear(&issue("c2")).await, Heard::Ignored);
        let kept = store.flow_content(&ear.key, "1", ContentKind::Received, 1).await.expect("read").expect("kept");
        assert_eq!((kept.format.as_str(), kept.body), ("didcomm/w3c-di-vc@v0.1", json!({"id": "c1"}).to_string()));
    })
    .await;
}

#[tokio::test]
async fn nothing_is_written_of_flows_that_are_not_as_they_were_loaded() {
    on_both(async |store| {
        let ear = Ear::new(&store).await;
        ear.states_behind(&request("t1", "s1")).await;
        let (flows, events) = (all(&store).await, states(&store).await);
        let decide = async |session: &str| {
            let mut transaction = store.begin().await.expect("begins");
            let facts = ear.facts(&request("t2", session), PEER);
            match decide_in(&mut transaction, facts.start(), &ear.key).await.expect("works") {
                Heard::Changed(changes) => changes,
                other => panic!("{other:?}"),
            }
        };
        let (again, in_place) = (decide("s1").await, decide("s2").await);
        let with = |changes: &[(FlowWrite, FlowBefore)], place: usize, before: FlowBefore| {
            let mut wrong = changes.to_vec();
            wrong[place].1 = before;
            wrong
        };
        let changed = FlowBefore::Loaded { thread_id: Some("t1".to_owned()), updated_at: NOW + 1 };
        let mut gone = again.clone();
        gone[0].0.progress.record.id = "gone".to_owned();
        for wrong in [
            with(&again, 0, changed.clone()),
            gone,
            with(&in_place, 0, changed),
            with(&in_place, 1, FlowBefore::New { live: 1 }),
        ] {
            let mut transaction = store.begin().await.expect("begins");
            let refused = write_flows(&mut transaction, &ear.key, &wrong, &LIMITS).await;
            assert!(matches!(refused, Err(FlowWriteError::Store(AgentStoreError::WrongFacts))), "{refused:?}");
            drop(transaction);
            assert_eq!((all(&store).await, states(&store).await), (flows.clone(), events.clone()));
            assert_eq!(store.queued_messages().await.expect("read"), 1);
        }
        for right in [again, in_place] {
            let mut transaction = store.begin().await.expect("begins");
            write_flows(&mut transaction, &ear.key, &right, &LIMITS).await.expect("written");
        }
    })
    .await;
}
