//! A peer that follows the script of a test: its DIDs hold their own documents, and it answers for its endpoint.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU16, Ordering},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    routing::{get, post},
};
use ed25519_dalek::SigningKey;
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use svc_agent::Agent;
use svc_didcomm::{
    Message,
    endpoint::{Transport, endpoints},
    envelope::{Envelope, KeyAgreementKey, seal},
    from_prior::make_from_prior,
    peer_did,
    protocol::basic_message::BasicMessage,
};
use svc_net::{did::DidResolver, host_policy::HostPolicy};
use svc_wire::verification_method::{KeyKind, KeyRelation, did_of_url, method_key, methods_of, multikey};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message as Frame;

use crate::e2e::harness::{TEST_TIMEOUT, TestNetwork};

/// The keys of one of the peer's DIDs.
#[derive(Clone)]
pub struct PeerKeys {
    pub did: String,
    pub agreement: KeyAgreementKey,
    pub signing: SigningKey,
}

/// The keys under which messages arrive, by DID.
type KnownKeys = Arc<Mutex<Vec<PeerKeys>>>;

#[derive(Clone)]
struct Inbox {
    keys: KnownKeys,
    arrived: mpsc::UnboundedSender<Message>,
    status: Arc<AtomicU16>,
    posts: Arc<AtomicU16>,
}

/// A peer.
pub struct ScriptedPeer {
    pub keys: PeerKeys,
    known: KnownKeys,
    pub inbox: mpsc::UnboundedReceiver<Message>,
    /// Status of its answers to POSTs.
    pub status: Arc<AtomicU16>,
    /// POSTs so far.
    pub posts: Arc<AtomicU16>,
    endpoint: String,
    agent: Arc<Value>,
    /// The document at the peer's public DID, which nothing serves while it is null.
    pub document: Arc<Mutex<Value>>,
    /// Seconds before the document is answered.
    pub pause: Arc<AtomicU16>,
}

/// The time in seconds since the epoch.
pub fn now() -> i64 {
    svc_kit::wall_clock::now().seconds
}

impl ScriptedPeer {
    /// Starts a peer of an agent.
    pub async fn start(agent_did: &str) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}/", listener.local_addr().expect("an address"));
        let resolver = DidResolver::new(HostPolicy::AllowPrivate).expect("a resolver");
        let agent = resolver.resolve(agent_did).await.expect("the agent's document");
        let keys = Self::make_keys(&endpoint);
        let known: KnownKeys = Arc::new(Mutex::new(vec![keys.clone()]));
        let (arrived, inbox) = mpsc::unbounded_channel();
        let (status, posts) = (Arc::new(AtomicU16::new(202)), Arc::new(AtomicU16::new(0)));
        let state = Inbox { keys: Arc::clone(&known), arrived, status: Arc::clone(&status), posts: Arc::clone(&posts) };
        let document = Arc::clone(&agent);
        let (served, pause) = (Arc::new(Mutex::new(Value::Null)), Arc::new(AtomicU16::new(0)));
        let shown = (Arc::clone(&served), Arc::clone(&pause));
        let routes = Router::new()
            .route("/", post(move |state, body| take(state, document, body)))
            .route("/.well-known/did.json", get(move || show(shown)))
            .with_state(state);
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { keys, known, inbox, status, posts, endpoint, agent, document: served, pause }
    }

    /// A peer of one agent that goes on with the connection of another, as one that has its keys may; also the proof of it, which its messages
    /// bring along.
    pub async fn take_over(world: &TestNetwork, taken: usize, other: usize) -> (Self, String) {
        let agent = world.agent(taken);
        let peer = Self::start(&world.agent_did(other)).await;
        let published = agent.keeper().published();
        let method = published.document.as_json()["authentication"][0].as_str().expect("a method").to_owned();
        let did = world.agent_did(taken);
        let prior = make_from_prior(&signing_key(agent).await, &method, &did, Some(&peer.keys.did), now());
        let hello = Message { from_prior: Some(prior.clone()), ..peer.text("hello", "another key") };
        assert_eq!(peer.post(peer.seal(&hello)).await, 202);
        (peer, prior)
    }

    /// The next message of a kind that arrives; others before it are dropped.
    pub async fn next(&mut self, kind: &str) -> Message {
        let found = async {
            loop {
                let message = self.inbox.recv().await.expect("a message");
                if message.kind == kind {
                    return message;
                }
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, found).await.unwrap_or_else(|_| panic!("no {kind}"))
    }

    fn make_keys(endpoint: &str) -> PeerKeys {
        let agreement = KeyAgreementKey::generate();
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).expect("random bytes");
        let signing = SigningKey::from_bytes(&secret);
        let signs = multikey(KeyKind::Ed25519, signing.verifying_key().as_bytes());
        let document = json!({
            "verificationMethod": [
                {"id": "#key-1", "type": "Multikey", "publicKeyMultibase": signs},
                {"id": "#key-2", "type": "Multikey", "publicKeyMultibase": multikey(KeyKind::X25519, &agreement.public_key())},
            ],
            "authentication": ["#key-1"], "keyAgreement": ["#key-2"],
            "service": [{"id": "#a", "type": "DIDCommMessaging", "serviceEndpoint": {"uri": endpoint, "accept": ["didcomm/v2"]}}],
        });
        PeerKeys { did: peer_did::encode(&document).long, agreement, signing }
    }

    /// Other keys, under which messages arrive too.
    pub fn new_keys(&self) -> PeerKeys {
        let keys = Self::make_keys(&self.endpoint);
        self.known.lock().expect("a lock").push(keys.clone());
        keys
    }

    /// Takes a public DID, whose document names an endpoint, and other keys each time.
    pub fn go_public(&mut self, endpoint: &str) {
        let port = self.endpoint.trim_end_matches('/').rsplit(':').next().expect("a port").to_owned();
        let did = format!("did:web:localhost%3A{port}");
        let PeerKeys { agreement, signing, .. } = Self::make_keys(endpoint);
        let signs = multikey(KeyKind::Ed25519, signing.verifying_key().as_bytes());
        *self.document.lock().expect("a lock") = json!({
            "id": did,
            "verificationMethod": [
                {"id": "#key-1", "type": "Multikey", "publicKeyMultibase": signs},
                {"id": "#key-2", "type": "Multikey", "publicKeyMultibase": multikey(KeyKind::X25519, &agreement.public_key())},
            ],
            "authentication": ["#key-1"], "keyAgreement": ["#key-2"],
            "service": [{"id": "#a", "type": "DIDCommMessaging", "serviceEndpoint": {"uri": endpoint, "accept": ["didcomm/v2"]}}],
        });
        self.keys = PeerKeys { did, agreement, signing };
        self.known.lock().expect("a lock").insert(0, self.keys.clone());
    }

    /// Opens messages for keys of another peer too.
    pub fn know(&self, keys: &PeerKeys) {
        self.known.lock().expect("a lock").push(keys.clone());
    }

    /// Where its messages arrive.
    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    /// A `from_prior` from one DID to another.
    pub fn from_prior(from: &PeerKeys, to: Option<&str>) -> String {
        make_from_prior(&from.signing, &format!("{}#key-1", from.did), &from.did, to, now())
    }

    pub fn agent_did(&self) -> String {
        self.agent["id"].as_str().expect("a DID").to_owned()
    }

    /// The key for messages of the agent, with its id.
    pub fn agent_key(&self) -> (String, [u8; 32]) {
        let id = methods_of(&self.agent, KeyRelation::KeyAgreement).into_iter().next().expect("a key");
        let key = method_key(&self.agent, &id, KeyRelation::KeyAgreement, KeyKind::X25519, 0).expect("a key");
        (id, key)
    }

    /// A text for the agent.
    pub fn text(&self, id: &str, content: &str) -> Message {
        let message = BasicMessage { content: content.to_owned() }.to_message(id, now());
        Message { from: Some(self.keys.did.clone()), to: vec![self.agent_did()], ..message }
    }

    /// The envelope of a message, from a DID of the peer.
    pub fn seal_as(&self, keys: &PeerKeys, message: &Message) -> String {
        let (id, key) = self.agent_key();
        seal(message, (&format!("{}#key-2", keys.did), &keys.agreement), (&id, &key)).expect("an envelope")
    }

    pub fn seal(&self, message: &Message) -> String {
        self.seal_as(&self.keys, message)
    }

    fn uri(&self, transport: Transport) -> String {
        let found = endpoints(&self.agent, true).into_iter().find(|one| one.transport == transport);
        found.expect("an endpoint").uri
    }

    /// Posts bytes; returns the status.
    pub async fn post(&self, envelope: impl Into<reqwest::Body>) -> u16 {
        let url = self.uri(Transport::Http);
        let request =
            crate::e2e::agent::request("POST", &url).header("content-type", "application/didcomm-encrypted+json");
        request.body(envelope).send().await.expect("answered").status().as_u16()
    }

    /// Opens a WebSocket to the agent.
    pub async fn connect(
        &self,
    ) -> tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>> {
        let url = self.uri(Transport::WebSocket);
        tokio_tungstenite::connect_async(url).await.expect("connected").0
    }

    /// Sends frames on a socket with a ping behind each; returns the frames that come before the last pong or the end.
    pub async fn send_frames(&self, frames: Vec<Frame>) -> Vec<Frame> {
        let mut socket = self.connect().await;
        let mut answers = Vec::new();
        for frame in frames {
            if socket.send(frame).await.is_err() || socket.send(Frame::Ping(Bytes::from_static(b"p"))).await.is_err() {
                break;
            }
            let answer = socket.next().await;
            match answer {
                Some(Ok(frame)) => answers.push(frame),
                _ => break,
            }
        }
        answers
    }
}

/// The next message that arrives.
pub async fn next_message(inbox: &mut mpsc::UnboundedReceiver<Message>, expected: &str) -> Message {
    let received = tokio::time::timeout(TEST_TIMEOUT, inbox.recv()).await;
    received.ok().flatten().unwrap_or_else(|| panic!("{expected}: nothing within {TEST_TIMEOUT:?}"))
}

/// The key with which an agent signs.
pub async fn signing_key(agent: &Agent) -> SigningKey {
    let keys = agent.store().private_keys(agent.keeper().published().document.did()).await.expect("keys");
    let signing = keys.iter().filter(|key| key.name == "signing").max_by_key(|key| key.version).expect("a key");
    SigningKey::from_bytes(&signing.secret)
}

/// The document, which caches may keep.
async fn show((document, pause): (Arc<Mutex<Value>>, Arc<AtomicU16>)) -> (HeaderMap, String) {
    tokio::time::sleep(std::time::Duration::from_secs(pause.load(Ordering::SeqCst).into())).await;
    let headers = [(header::CONTENT_TYPE, "application/did+json"), (header::CACHE_CONTROL, "max-age=300")];
    let headers = headers.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value)));
    let text = document.lock().expect("a lock").to_string();
    (headers.collect(), text)
}

async fn take(State(inbox): State<Inbox>, agent: Arc<Value>, body: Bytes) -> StatusCode {
    inbox.posts.fetch_add(1, Ordering::SeqCst);
    let status = StatusCode::from_u16(inbox.status.load(Ordering::SeqCst)).expect("a status");
    if !status.is_success() {
        return status;
    }
    let envelope = Envelope::read(&body).expect("an envelope");
    let kid = envelope.recipients()[0].clone();
    let keys = inbox.keys.lock().expect("a lock").clone();
    let keys = keys.into_iter().find(|keys| keys.did == did_of_url(&kid)).expect("a DID of the peer");
    let sender = did_of_url(envelope.sender_key_id().expect("a sender")).to_owned();
    let document =
        if peer_did::is_peer_did(&sender) { peer_did::resolve(&sender).expect("a document") } else { (*agent).clone() };
    let opened = envelope.open(&kid, &keys.agreement, &keys.did, Some(&document), now()).expect("it opens");
    let _ = inbox.arrived.send(opened.message);
    status
}

/// Has another corporation apply for a DID as a holder at an issuer; returns the participant, once the index has it.
pub async fn apply(world: &TestNetwork, issuer: &Value, did: &str) -> u64 {
    let scenario: svc_devnet::scenario::Scenario = serde_json::from_value(json!({
        "description": "an application",
        "step": [{"name": "apply", "signer": "verifier_operator", "granter": "verifier", "messages": [{
            "type": "pp.MsgStartParticipantOP",
            "value": {"corporation": "$verifier", "operator": "$verifier_operator", "role": "HOLDER",
                "validator_participant_id": issuer, "did": did},
        }]}],
    }))
    .expect("a scenario");
    world.network.devnet.run_steps(&scenario).await.expect("applied");
    let applicants = json!({"did": did, "role": "HOLDER"});
    let mut heights = world.network.devnet.node.watch_heights();
    loop {
        let listed = world.call_ok("svc.idx.pp.listParticipants", applicants.clone()).await;
        if let Some(id) = listed["participants"][0]["id"].as_u64() {
            return id;
        }
        heights.changed().await.expect("blocks");
    }
}
