//! Parts of the tests of peers and of their flows.

use std::sync::LazyLock;

use svc_agent_core::{
    flows::HeardFacts,
    peers::{PeerLimits, Verdict},
};
use svc_didcomm::{
    Message,
    from_prior::FromPrior,
    protocol::{Content, basic_message::BasicMessage},
};
use svc_test_support::postgres_server::PostgresServer;

use zeroize::Zeroizing;

use crate::{
    AgentStore, ArrivalError, ArrivedMessage, ContentKey, FlowPart, PrivateKey, StoreKey, StoreKeys, StoreSettings,
    TakenMessage,
};

pub const OURS: &str = "did:web:ours";
pub const THEIRS: &str = "did:web:theirs";
pub const NOW: i64 = 1_800_000_000_000;
pub const SECONDS: i64 = NOW / 1000;
pub const DAY: i64 = 86_400;
pub const LIMITS: PeerLimits = PeerLimits {
    outbox_per_peer: 4,
    outbox_max: 6,
    replay_max: 1_000,
    records_per_connection: 3,
    max_events: Some(1_000),
};

pub async fn open(url: &str) -> AgentStore {
    let keys = StoreKeys { current: StoreKey::from_bytes([1; 32]), previous: None };
    AgentStore::open(StoreSettings { url: url.to_owned(), keys }).await.expect("opens")
}

/// Runs a check with an empty store of each database.
pub async fn on_both<F: Future<Output = ()>>(check: impl Fn(AgentStore) -> F) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = PostgresServer::start(None);
    let file = format!("sqlite://{}?mode=rwc", directory.path().join("agent.db").display());
    for url in [Some(file), server.as_ref().map(PostgresServer::url)].into_iter().flatten() {
        let store = open(&url).await;
        check(store.clone()).await;
        assert!(store.has_true_numbers().await.expect("counted"), "a number is not that of its rows: {url}");
        store.close().await;
    }
}

pub fn text(id: &str, sender: &str) -> Message {
    let message = BasicMessage { content: id.to_owned() }.to_message(id, SECONDS);
    Message { from: Some(sender.to_owned()), ..message }
}

/// The part of flows of a message that is about none.
pub fn no_flows() -> FlowPart<'static> {
    static KEY: LazyLock<ContentKey> = LazyLock::new(|| {
        PrivateKey { name: "flow-content".to_owned(), version: 1, secret: Zeroizing::new([3; 32]) }.into()
    });
    FlowPart { key: &KEY, heard: HeardFacts::default(), max_per_peer: 100, answers_unknown: false }
}

pub async fn take_with(
    store: &AgentStore,
    message: &Message,
    prior: Option<&FromPrior>,
    limits: &PeerLimits,
) -> Result<TakenMessage, ArrivalError> {
    let content = Content::read(message);
    let arrived = ArrivedMessage {
        message,
        content: &content,
        sender: message.from.as_deref().expect("a sender"),
        recipient: OURS,
        invitation: None,
        prior,
        verdict: Some(Verdict { is_trusted: true, at: SECONDS }),
        flows: no_flows(),
        access: None,
        now: NOW,
    };
    store.take_message(&arrived, limits).await
}

pub async fn take(store: &AgentStore, message: &Message) -> TakenMessage {
    take_with(store, message, None, &LIMITS).await.expect("taken")
}

pub async fn connect(store: &AgentStore, did: &str) -> String {
    match take(store, &text(&format!("first of {did}"), did)).await {
        TakenMessage::New { connection_id, .. } => connection_id,
        other => panic!("{other:?}"),
    }
}
