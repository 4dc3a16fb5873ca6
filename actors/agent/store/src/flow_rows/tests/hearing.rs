//! Messages of peers about flows on both databases.

use svc_agent_core::flows::RequestedFlow;
use svc_didcomm::{
    flow::{ConnectionState, FlowArrival, RequestFault},
    protocol::{
        Content,
        credential_format::CredentialFormat,
        issue_credential::IssueCredential,
        problem_report::ProblemReport,
        vt_flow::{FlowRequest, VtFlow},
    },
};

use super::{
    super::hearing::{Heard, HeardMessage, hear},
    *,
};
use crate::AgentStore;

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

    async fn hear_of(&self, message: &Message, peer_did: &str, read: ParticipantRead) -> Result<Heard, FlowWriteError> {
        let content = Content::read(message).expect("a message of a protocol");
        let arrival = FlowArrival {
            message,
            content: &content,
            peer_did,
            now: NOW,
            new_id: "new",
            facts: BTreeSet::from([Guard::GateOrExempt, Guard::GatePassed, Guard::RequestFits, Guard::SessionFree]),
            read: Some(read),
        };
        let requested = RequestedFlow { schema_id: 4, validator_participant_id: 3, is_holder: true };
        let requested = self.is_shown.then_some(requested);
        let heard =
            HeardMessage { arrival, connection_id: &self.connection, requested, max_per_peer: self.max_per_peer };
        let mut transaction = self.store.begin().await.expect("begins");
        let heard = hear(&mut transaction, &self.key, heard, &LIMITS).await;
        if heard.is_ok() {
            transaction.commit().await.expect("durable");
        }
        heard
    }

    async fn hear(&self, message: &Message) -> Heard {
        self.hear_of(message, PEER, read()).await.expect("there is room")
    }

    /// The states of the flows that have changed.
    async fn states_behind(&self, message: &Message) -> Vec<FlowState> {
        match self.hear(message).await {
            Heard::Changed(written) => written.iter().map(|one| one.record.state).collect(),
            other => panic!("{other:?}"),
        }
    }
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
        let foreign = ear.hear_of(&request("t3", "s1"), "did:web:other", read()).await.expect("room");
        assert!(matches!(foreign, Heard::Refused(RequestFault::Session, _)), "{foreign:?}");

        // A fresh session takes the place of an unfinished flow.
        let replaced = ear.states_behind(&request("t4", "s2")).await;
        assert_eq!((replaced.len(), replaced[0]), (2, FlowState::Validating));
        assert!(replaced[1].is_terminal(), "{replaced:?}");
        let old = ear.hear(&request("t5", "s1")).await;
        assert!(matches!(old, Heard::Refused(RequestFault::Session, _)), "it has ended: {old:?}");

        // A request that the node does not confirm begins nothing, and one flow too many neither.
        let mut strange = request("t6", "s3");
        strange.body["participant_id"] = json!("8");
        let unsure = Ear { is_shown: false, ..ear };
        let refused = unsure.hear(&strange).await;
        assert!(matches!(refused, Heard::Refused(RequestFault::Participant, _)), "{refused:?}");
        let full = Ear { max_per_peer: 1, is_shown: true, ..unsure };
        assert_eq!(refusal_of(full.hear_of(&strange, PEER, read()).await), Some(FlowRefusal::PeerFull));
        assert_eq!(store.flow_of_session("s3").await.expect("read"), None);
    })
    .await;
}

#[tokio::test]
async fn a_message_finds_its_flow_by_the_thread_and_its_peer() {
    on_both(async |store| {
        let ear = Ear::new(&store).await;
        let new = begun("1", "s1", Some(&ear.connection));
        store.begin_flow(&ear.key, &new, None, 9, &LIMITS).await.expect("stored");
        store.change_flow(&ear.key, "1", &LIMITS, |record| opened(record, "t1")).await.expect("room");
        let validating = |thread: &str| VtFlow::Validating { comment: None }.to_message("m", Some(thread));
        assert_eq!(ear.hear(&validating("t9")).await, Heard::UnknownThread);
        let foreign = ear.hear_of(&validating("t1"), "did:web:other", read()).await;
        assert_eq!(foreign.expect("works"), Heard::UnknownThread, "the thread is another peer's");
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
