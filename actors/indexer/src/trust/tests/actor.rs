//! Tests of the trust evaluator as an actor, with a store in memory and no web server.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_kit::supervision::{Supervisor, SupervisorSpec};
use svc_wire::trust_stream::{MeasureFlags, TrustChannels};

use crate::{
    derive::stats::{StatsDeltas, StatsMetric, StatsScope},
    hub::{ControlMessage, HubHandle, HubSettings, SubscriptionFilter, TrustTopic},
    read::test_reader::unanswered_digests,
    store::{BlockWrite, EntityChange, EntityKind, IndexStore},
    trust::{Args, DidEvaluator, TrustConfig, TrustEvaluatorHandle},
};

/// A DID of a method without a web server: its evaluation needs no network.
const DID: &str = "did:example:a";

pub(super) struct EvaluatorFixture {
    pub evaluator: TrustEvaluatorHandle,
    pub hub: HubHandle<TrustTopic>,
    pub store: IndexStore,
    pub supervisor: Supervisor,
}

async fn start_evaluator() -> EvaluatorFixture {
    let store = IndexStore::open("sqlite::memory:", "c").await.expect("opens");
    let did_evaluator =
        DidEvaluator::new(&TrustConfig::default(), "vpr:svc:c:cs:".to_owned(), unanswered_digests(store.clone()));
    start_evaluator_with(store, did_evaluator.expect("an HTTP client")).await
}

pub(super) async fn start_evaluator_with(store: IndexStore, did_evaluator: DidEvaluator) -> EvaluatorFixture {
    let settings = HubSettings {
        block_interval: Duration::from_millis(100).into(),
        first_height: 1.into(),
        max_buffered_bytes: 1 << 20,
    };
    let (hub, hub_child) = HubHandle::child_spec(TrustTopic::new(store.clone()), settings);
    let evaluator = TrustEvaluatorHandle::new();
    let args = Args {
        did_evaluator: Arc::new(did_evaluator),
        write_store: store.clone(),
        hub: hub.clone(),
        wait_limit: Some(Duration::from_secs(10)),
        block_interval: Duration::from_millis(100).into(),
        live_height: 0,
        start_height: 1.into(),
    };
    let supervisor = Supervisor::new("test");
    let spec = SupervisorSpec::one_for_one(vec![hub_child, evaluator.child_spec(args)]);
    supervisor.start(spec).await.expect("starts");
    EvaluatorFixture { evaluator, hub, store, supervisor }
}

impl EvaluatorFixture {
    /// Writes a block and announces it.
    pub async fn add_block(&self, height: u64, changes: Vec<EntityChange>) {
        self.add_block_with_measures(height, changes, StatsDeltas::default()).await;
    }

    async fn add_block_with_measures(&self, height: u64, changes: Vec<EntityChange>, deltas: StatsDeltas) {
        let time = i128::from(height) * 1_000_000_000;
        let block = BlockWrite { height, time, changes, deltas, ..BlockWrite::default() };
        self.store.write_block(&block).await.expect("writes");
        self.evaluator.block_stored(height);
    }
}

#[tokio::test]
async fn a_block_triggers_a_verdict_and_a_restart_continues_at_the_checkpoint() {
    let fixture = start_evaluator().await;
    let mut connection = fixture.hub.join().await.expect("joins");
    let view = TrustChannels::all(MeasureFlags::default());
    let control = ControlMessage::Subscribe(SubscriptionFilter { view, ..SubscriptionFilter::default() });
    fixture.hub.send_control(connection.id, control).await.expect("subscribes");

    let body = json!({"id": 1, "did": DID, "corporation_id": 7, "schema_id": 1, "role": "ISSUER"});
    let participant =
        EntityChange { did: Some(DID.to_owned()), ..EntityChange::new(EntityKind::Participant, Some(1), Some(body)) };
    fixture.add_block(1, vec![participant]).await;
    let block = connection.next_block().await;
    let change = &block["changes"][0];
    assert_eq!((&block["block"], &change["did"]), (&json!(1), &json!(DID)));
    assert_eq!((&change["trust"]["trusted"], &change["trust"]["corporationId"]), (&json!(false), &json!(7)));
    let verdict = fixture.store.verdict(DID, 1).await.expect("reads").expect("a verdict");
    assert_eq!(verdict["evaluatedAtBlock"], 1);

    assert!(fixture.supervisor.kill("trust_evaluator").await);
    fixture.add_block(2, Vec::new()).await;
    let block = connection.next_block().await;
    assert_eq!((&block["block"], &block["changes"]), (&json!(2), &json!([])));
    assert_eq!(fixture.store.trust_checkpoint().await.expect("reads").height, 2);
    fixture.supervisor.shutdown(Duration::from_secs(5)).await;
}

/// The subscription of the graph of the first generation.
const SUBSCRIPTION_OF_THE_GRAPH: &str = r#"{"action":"subscribe","channels":{"trust":true,"ecsCredentials":true,"presentations":true,
    "services":true,"corporation":{"includeDepositChanges":true},"participations":{"includeWeightChanges":true},"ecosystems":true}}"#;
/// The same channels without flags.
const SUBSCRIPTION_WITHOUT_FLAGS: &str = r#"{"action":"subscribe","channels":{"trust":true,"ecsCredentials":true,"presentations":true,
    "services":true,"corporation":true,"participations":true,"ecosystems":true}}"#;

#[tokio::test]
async fn deposits_weights_and_counts_alone_mark_a_change_for_their_flags_only() {
    const CORPORATION: &str = "did:example:corporation";
    const ECOSYSTEM: &str = "did:example:ecosystem";
    let fixture = start_evaluator().await;
    let mut connections = Vec::new();
    for subscription in [SUBSCRIPTION_OF_THE_GRAPH, SUBSCRIPTION_WITHOUT_FLAGS] {
        let connection = fixture.hub.join().await.expect("joins");
        let control = ControlMessage::parse(subscription).expect("a subscription");
        fixture.hub.send_control(connection.id, control).await.expect("subscribes");
        connections.push(connection);
    }
    let entity = |kind, id, did: &str, body: Value| EntityChange {
        did: Some(did.to_owned()),
        corporation_id: Some(7),
        ..EntityChange::new(kind, Some(id), Some(body))
    };
    let corporation = entity(EntityKind::Corporation, 7, CORPORATION, json!({"did": CORPORATION}));
    let ecosystem = entity(EntityKind::Ecosystem, 1, ECOSYSTEM, json!({"did": ECOSYSTEM, "corporation_id": 7}));
    let participant = |deposit: u64, slashed: u64| {
        let body = json!({
            "did": DID, "corporation_id": 7, "ecosystem_id": 1, "schema_id": 1, "role": "ISSUER", "deposit": deposit,
            "slashed_deposit": slashed, "modified": format!("{deposit}"),
        });
        entity(EntityKind::Participant, 1, DID, body)
    };
    let deposit = |deposit: u64, slashes: u64| {
        let body = json!({
            "corporation_id": 7, "share": deposit, "_share": "1", "deposit": deposit, "refunded": 0, "slashed_deposit": slashes,
            "repaid_deposit": 0, "last_slashed": null, "last_repaid": null, "slash_count": slashes,
        });
        EntityChange::new(EntityKind::TrustDeposit, Some(7), Some(body))
    };
    let measured = |scope, metric| {
        let mut deltas = StatsDeltas::default();
        deltas.add(scope, metric, 1);
        deltas
    };
    let none = StatsDeltas::default;
    let weight = || measured(StatsScope::Participant(1), StatsMetric::Weight);
    let blocks = [
        (vec![corporation, ecosystem, participant(0, 0)], none()),
        (vec![deposit(5, 0)], none()),
        (vec![deposit(6, 0), participant(1, 0)], weight()),
        (vec![], measured(StatsScope::Participant(1), StatsMetric::Issued)),
        (vec![], measured(StatsScope::Ecosystem(1), StatsMetric::ParticipantsIssuer)),
        (vec![deposit(5, 1)], none()),
        (vec![participant(0, 1)], weight()),
    ];
    // The marks of each block for the graph, and without flags.
    let marks: [[&[(&str, &str)]; 2]; 6] = [
        [&[(CORPORATION, "corporation")], &[]],
        [&[(DID, "participations"), (CORPORATION, "corporation")], &[]],
        [&[], &[]],
        [&[], &[]],
        [&[(CORPORATION, "corporation")], &[(CORPORATION, "corporation")]],
        [&[(DID, "participations")], &[(DID, "participations")]],
    ];
    // How many blocks a round has decides the height of the verdict that follows a message.
    let without_verdicts = |block: &Value| {
        let changes = block["changes"].as_array().expect("changes").iter().cloned();
        let marks = changes.filter_map(|mut change| {
            let members = change.as_object_mut().expect("an object");
            members.remove("trust");
            (members.len() > 1).then_some(change)
        });
        Value::Array(marks.collect())
    };
    for (height, (changes, deltas)) in (1..).zip(blocks) {
        fixture.add_block_with_measures(height, changes, deltas).await;
    }
    for (connection, place) in connections.iter_mut().zip(0..) {
        let first = connection.next_block().await;
        assert_eq!(first["changes"].as_array().expect("changes").len(), 3, "{first}");
        for (height, expected) in (2..).zip(&marks) {
            let block = connection.next_block().await;
            let expected: Vec<Value> =
                expected[place].iter().map(|(did, mark)| json!({"did": did, *mark: true})).collect();
            let found = (&block["block"], &without_verdicts(&block));
            assert_eq!(found, (&json!(height), &json!(expected)), "subscriber {place}");
        }
    }
    fixture.supervisor.shutdown(Duration::from_secs(5)).await;
}
