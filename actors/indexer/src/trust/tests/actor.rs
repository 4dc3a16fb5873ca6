//! Tests of the trust evaluator as an actor, with a store in memory and no web server.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use svc_kit::supervision::{Supervisor, SupervisorSpec};
use svc_wire::trust_stream::{CountFlags, TrustChannels};

use crate::{
    hub::{ControlMessage, HubHandle, HubSettings, SubscriptionFilter, TrustTopic},
    store::{BlockWrite, EntityChange, EntityKind, IndexStore},
    trust::{Args, DidEvaluator, TrustConfig, TrustEvaluatorHandle},
};

/// A DID of a method without a web server: its evaluation needs no network.
const DID: &str = "did:example:a";

struct EvaluatorFixture {
    evaluator: TrustEvaluatorHandle,
    hub: HubHandle<TrustTopic>,
    store: IndexStore,
    supervisor: Supervisor,
}

async fn start_evaluator() -> EvaluatorFixture {
    let store = IndexStore::open("sqlite::memory:", "c").await.expect("opens");
    let settings =
        HubSettings { block_interval: Duration::from_millis(100), first_height: 1, max_buffered_bytes: 1 << 20 };
    let (hub, hub_child) = HubHandle::child_spec(TrustTopic::new(store.clone()), settings);
    let evaluator = TrustEvaluatorHandle::new();
    let did_evaluator = DidEvaluator::new(&TrustConfig::default(), "vpr:svc:c:cs:".to_owned(), store.clone());
    let args = Args {
        did_evaluator: Arc::new(did_evaluator.expect("an HTTP client")),
        write_store: store.clone(),
        hub: hub.clone(),
        wait_limit: Duration::from_secs(10),
        live_height: 0,
        start_height: 1,
    };
    let supervisor = Supervisor::new("test");
    let spec = SupervisorSpec::one_for_one(vec![hub_child, evaluator.child_spec(args)]);
    supervisor.start(spec).await.expect("starts");
    EvaluatorFixture { evaluator, hub, store, supervisor }
}

impl EvaluatorFixture {
    /// Writes a block and announces it.
    async fn add_block(&self, height: u64, changes: Vec<EntityChange>) {
        let time = i128::from(height) * 1_000_000_000;
        let block = BlockWrite { height, time, changes, ..BlockWrite::default() };
        self.store.write_block(&block).await.expect("writes");
        self.evaluator.block_stored(height);
    }
}

#[tokio::test]
async fn a_block_triggers_a_verdict_and_a_restart_continues_at_the_checkpoint() {
    let fixture = start_evaluator().await;
    let mut connection = fixture.hub.join().await.expect("joins");
    let view = TrustChannels::all(CountFlags::default());
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

    assert!(fixture.supervisor.kill("arbiter").await);
    fixture.add_block(2, Vec::new()).await;
    let block = connection.next_block().await;
    assert_eq!((&block["block"], &block["changes"]), (&json!(2), &json!([])));
    assert_eq!(fixture.store.trust_checkpoint().await.expect("reads").height, 2);
    fixture.supervisor.shutdown(Duration::from_secs(5)).await;
}
