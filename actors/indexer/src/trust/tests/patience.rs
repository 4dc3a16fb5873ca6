//! Tests of the patience with web servers: the evaluator as an actor, a scripted web server, and a clock that the test moves.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use serde_json::{Value, json};
use svc_net::host_policy::HostPolicy;
use svc_wire::trust_stream::{MeasureFlags, TrustChannels};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::watch,
};

use super::actor::{EvaluatorFixture, start_evaluator_with};
use crate::{
    hub::{ControlMessage, HubConnection, SubscriptionFilter},
    read::test_reader::unanswered_digests,
    store::{BlockWrite, EntityChange, EntityKind, IndexStore, TrustWrite, VerdictWrite},
    trust::{DidEvaluator, Msg, TrustConfig, patience::open_evaluation::OpenEvaluation},
};

/// Start of the test's clock, milliseconds since the epoch.
const START: i64 = 1_800_000_000_000;
const DAY: i64 = 86_400_000;

/// A web server that answers all requests with one status and one body.
struct ScriptedServer {
    port: u16,
    answer: watch::Sender<(u16, String)>,
    requests: watch::Sender<usize>,
}

impl ScriptedServer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (answer, requests) = (watch::Sender::new((503, String::new())), watch::Sender::new(0));
        let (answers, counted) = (answer.clone(), requests.clone());
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(stream.read_u8().await.expect("a request"));
                }
                let (status, body) = answers.borrow().clone();
                let length = body.len();
                let text =
                    format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
                stream.write_all(text.as_bytes()).await.expect("written");
                counted.send_modify(|count| *count += 1);
            }
        });
        Self { port, answer, requests }
    }

    fn did(&self, path: &str) -> String {
        format!("did:web:localhost%3A{}{path}", self.port)
    }

    fn answer_with(&self, status: u16, body: &Value) {
        self.answer.send_replace((status, body.to_string()));
    }

    async fn await_requests(&self, count: usize) {
        self.requests.subscribe().wait_for(|requests| *requests >= count).await.expect("asked");
    }
}

/// An evaluator, its web server, its clock and a subscriber.
struct PatienceFixture {
    evaluator: EvaluatorFixture,
    server: ScriptedServer,
    clock: Arc<AtomicI64>,
    subscriber: HubConnection,
    height: u64,
}

fn participant(id: u64, did: &str) -> EntityChange {
    let body = json!({"id": id, "did": did, "corporation_id": 7, "schema_id": 1, "role": "ISSUER"});
    EntityChange { did: Some(did.to_owned()), ..EntityChange::new(EntityKind::Participant, Some(id), Some(body)) }
}

impl PatienceFixture {
    /// Starts an evaluator whose store has verdicts on these DIDs of the server, which trust them.
    async fn start(trusted: &[&str]) -> Self {
        let server = ScriptedServer::start().await;
        let store = IndexStore::open("sqlite::memory:", "c").await.expect("opens");
        store
            .write_block(&BlockWrite { height: 1, time: 1_000_000_000, ..BlockWrite::default() })
            .await
            .expect("writes");
        let verdict = |path: &&str| {
            let did = server.did(path);
            let body = json!({"did": did, "trusted": true, "evaluatedAtBlock": 1, "corporationId": 7, "parents": []});
            let (evidence_keys, fetched_keys) = (Vec::new(), Vec::new());
            VerdictWrite { did, corporation_id: 7, body: Some(body), evidence_keys, fetched_keys }
        };
        let verdicts = trusted.iter().map(verdict).collect();
        store.write_trust(&TrustWrite { height: 1, verdicts, ..TrustWrite::default() }).await.expect("writes");
        let clock = Arc::new(AtomicI64::new(START));
        let shown = Arc::clone(&clock);
        let config = TrustConfig { hosts: HostPolicy::AllowPrivate, ..TrustConfig::default() };
        let did_evaluator = DidEvaluator::new(&config, "vpr:svc:c:cs:".to_owned(), unanswered_digests(store.clone()));
        let did_evaluator = did_evaluator.expect("a client").with_clock(Arc::new(move || shown.load(Ordering::SeqCst)));
        let evaluator = start_evaluator_with(store, did_evaluator).await;
        let subscriber = evaluator.hub.join().await.expect("joins");
        let view = TrustChannels::all(MeasureFlags::default());
        let control = ControlMessage::Subscribe(SubscriptionFilter { view, ..SubscriptionFilter::default() });
        evaluator.hub.send_control(subscriber.id, control).await.expect("subscribes");
        Self { evaluator, server, clock, subscriber, height: 1 }
    }

    /// Adds a block, and returns the trust block of it.
    async fn next_block(&mut self, changes: Vec<EntityChange>) -> Value {
        self.height += 1;
        self.evaluator.add_block(self.height, changes).await;
        loop {
            let block = self.subscriber.next_block().await;
            if block["block"] == self.height {
                return block;
            }
        }
    }

    /// Adds blocks until one has a new verdict, and returns its change. No block before it has one.
    async fn next_verdict(&mut self) -> Value {
        loop {
            let block = self.next_block(Vec::new()).await;
            if let Some(change) = block["changes"].as_array().and_then(|changes| changes.first()) {
                return change.clone();
            }
        }
    }

    /// Adds blocks until the open evaluation of a DID has this number of tries. None of them has a change.
    async fn await_tries(&mut self, did: &str, tries: u32) -> OpenEvaluation {
        loop {
            let open = self.open_evaluation(did).await.expect("open");
            if open.tries >= tries {
                return open;
            }
            let block = self.next_block(Vec::new()).await;
            assert_eq!(block["changes"], json!([]), "a try is no change");
        }
    }

    async fn open_evaluation(&self, did: &str) -> Option<OpenEvaluation> {
        let row = self.evaluator.store.find_open_evaluation(did).await.expect("reads")?;
        OpenEvaluation::from_row(&row)
    }

    async fn verdict(&self, did: &str) -> Value {
        self.evaluator.store.verdict(did, self.height).await.expect("reads").expect("a verdict")
    }

    /// Moves the clock, and begins the tries that are due then.
    fn pass(&self, millis: i64) {
        self.clock.fetch_add(millis, Ordering::SeqCst);
        self.evaluator.evaluator.0.notify(Msg::TriesDue);
    }
}

fn trust_of(block: &Value) -> Vec<&Value> {
    block["changes"].as_array().expect("changes").iter().map(|change| &change["trust"]).collect()
}

#[tokio::test]
async fn a_verdict_stays_while_its_server_may_answer_again() {
    let mut fixture = PatienceFixture::start(&[""]).await;
    let did = fixture.server.did("");
    let block = fixture.next_block(vec![participant(1, &did)]).await;
    assert_eq!(trust_of(&block), [&Value::Null], "the registry changed, and no verdict");
    assert_eq!(fixture.verdict(&did).await["evaluatedAtBlock"], 1);
    let open = fixture.open_evaluation(&did).await.expect("open");
    assert_eq!((open.tries, open.height, open.since), (1, 2, START));
    let pending = open.pending_json();
    assert_eq!((&pending["reason"], &pending["status"]), (&json!("did_unresolvable"), &json!(503)));
    assert!((START + 1_600..=START + 2_400).contains(&open.next_try_at), "{open:?}");

    fixture.pass(1_000);
    fixture.pass(1_400);
    fixture.server.await_requests(2).await;
    let open = fixture.await_tries(&did, 2).await;
    let delay = open.next_try_at - START - 2_400;
    assert!((8_000..=12_000).contains(&delay) && open.since == START, "{open:?}");
    assert_eq!(*fixture.server.requests.borrow(), 2, "asked once for each try");

    fixture.server.answer_with(200, &json!({"id": did}));
    fixture.pass(12_000);
    let change = fixture.next_verdict().await;
    assert_eq!((&change["trust"]["trusted"], &change["trust"]["evaluatedAtBlock"]), (&json!(false), &json!(2)));
    assert_eq!(fixture.verdict(&did).await["reasons"][0]["code"], "no_presentation");
    assert_eq!(fixture.open_evaluation(&did).await, None);
}

#[tokio::test]
async fn a_definitive_answer_is_a_verdict_at_once() {
    let mut fixture = PatienceFixture::start(&[""]).await;
    let did = fixture.server.did("");
    fixture.server.answer_with(404, &Value::Null);
    let block = fixture.next_block(vec![participant(1, &did)]).await;
    assert_eq!(trust_of(&block)[0]["trusted"], false, "{block}");
    assert_eq!(fixture.open_evaluation(&did).await, None);
}

#[tokio::test]
async fn the_first_verdict_waits_with_its_reason() {
    let mut fixture = PatienceFixture::start(&[]).await;
    let did = fixture.server.did("");
    let block = fixture.next_block(vec![participant(1, &did)]).await;
    assert_eq!(trust_of(&block), [&Value::Null], "it is not finished");
    let verdict = fixture.verdict(&did).await;
    assert_eq!((&verdict["trusted"], &verdict["reasons"][0]["code"]), (&json!(false), &json!("did_unresolvable")));
    assert!(fixture.open_evaluation(&did).await.is_some());
    fixture.server.answer_with(200, &json!({"id": did, "service": [{"id": "#x", "type": "X"}]}));
    fixture.pass(2_400);
    let change = fixture.next_verdict().await;
    assert_eq!((&change["trust"]["trusted"], &change["services"]), (&json!(false), &json!(true)), "{change}");
}

#[tokio::test]
async fn the_patience_ends_with_the_reason_also_after_a_crash() {
    for is_killed in [false, true] {
        let mut fixture = PatienceFixture::start(&[""]).await;
        let did = fixture.server.did("");
        fixture.next_block(vec![participant(1, &did)]).await;
        fixture.clock.fetch_add(2 * DAY, Ordering::SeqCst);
        if is_killed {
            assert!(fixture.evaluator.supervisor.kill("trust_evaluator").await);
        } else {
            fixture.pass(0);
        }
        let change = fixture.next_verdict().await;
        assert_eq!((&change["trust"]["trusted"], &change["trust"]["evaluatedAtBlock"]), (&json!(false), &json!(2)));
        let reason = fixture.verdict(&did).await["reasons"][0].clone();
        assert_eq!(reason["code"], "did_unresolvable");
        assert!(reason["message"].as_str().is_some_and(|text| text.contains("503")), "{reason}");
        assert_eq!((fixture.open_evaluation(&did).await, *fixture.server.requests.borrow()), (None, 2));
        fixture.pass(2 * DAY);
        assert_eq!(fixture.next_block(Vec::new()).await["changes"], json!([]), "only a trigger begins another one");
    }
}

#[tokio::test]
async fn a_new_trigger_replaces_an_open_evaluation() {
    let mut fixture = PatienceFixture::start(&[""]).await;
    let did = fixture.server.did("");
    fixture.next_block(vec![participant(1, &did)]).await;
    fixture.clock.fetch_add(1_000, Ordering::SeqCst);
    fixture.next_block(vec![participant(2, &did)]).await;
    let open = fixture.open_evaluation(&did).await.expect("open");
    assert_eq!((open.tries, open.height, open.since), (1, 3, START + 1_000), "it counts anew");
    assert_eq!(fixture.verdict(&did).await["trusted"], true);
}

#[tokio::test]
async fn a_server_that_several_dids_wait_for_is_asked_once() {
    let mut fixture = PatienceFixture::start(&[":a", ":b"]).await;
    let dids = [":a", ":b"].map(|path| fixture.server.did(path));
    fixture.next_block(vec![participant(1, &dids[0]), participant(2, &dids[1])]).await;
    assert_eq!(*fixture.server.requests.borrow(), 2);
    fixture.pass(2_400);
    for did in &dids {
        fixture.await_tries(did, 2).await;
    }
    assert_eq!(*fixture.server.requests.borrow(), 3, "for both");
}
