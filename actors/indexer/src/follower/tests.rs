//! Tests of the follower's decisions, then of the actor with a fake node.

use std::time::Duration;

use serde_json::json;
use svc_kit::{
    RetainedState,
    supervision::{Supervisor, SupervisorSpec},
};
use svc_net::{
    upstream::NodeClient,
    websocket::{Reading, StreamProtocol},
};
use svc_wire::proto_registry::Namespace;
use tokio::time::timeout;

use super::{
    Args, FollowerHandle, FollowerState, NodeHistories, NodeMessages,
    core::{
        FollowerCore, FollowerEffect, HeaderStream, MAX_BATCH, MAX_FETCH_AHEAD, MAX_IN_FETCH, STATUS_POLL_INTERVAL,
        StatusPolls,
    },
    node_messages,
};
use crate::{
    block::KnownMessages,
    fake_node::FakeNode,
    hub::{BlockTopic, ControlMessage, HubHandle, HubSettings, SubscriptionFilter},
    store::IndexStore,
    trust::TrustEvaluatorHandle,
};

#[test]
fn an_upgrade_at_any_moment_is_looked_for_within_a_minute() {
    let mut polls = StatusPolls::default();
    let looks: Vec<u32> = (1..=300).filter(|_| polls.next_asks_version(false)).collect();
    let gaps = [0].iter().chain(&looks).zip(&looks).map(|(before, look)| STATUS_POLL_INTERVAL * (look - before));
    let longest = gaps.max().expect("a look");
    assert!(node_messages::UNSURE_TIME + longest <= Duration::from_secs(60), "{looks:?}");
    assert!((1..=20).all(|_| polls.next_asks_version(true)), "a node that was restarted is asked at once");
}

#[test]
fn heights_are_read_and_other_texts_are_ignored() {
    let header = json!({"height": "7", "time": "2026-01-01T00:00:00Z", "chain_id": "c", "app_hash": ""});
    let data = json!({"type": "tendermint/event/NewBlockHeader", "value": {"header": header}});
    let confirmed = |frame| Reading { frame, is_confirmed: true, ..Reading::default() };
    for (text, expected) in [
        (json!({"jsonrpc": "2.0", "id": 1, "result": {}}), confirmed(None)),
        (json!({"jsonrpc": "2.0", "id": 1, "result": {"query": "q", "data": data}}), confirmed(Some(7))),
        (json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "m", "data": ""}}), Reading::default()),
        (json!("no response"), Reading::default()),
    ] {
        assert_eq!(HeaderStream.read(&text.to_string()), Ok(expected), "{text}");
    }
    assert_eq!(HeaderStream.requests().len(), 1);
}

#[test]
fn a_gap_is_fetched_and_blocks_are_written_in_order() {
    let mut core: FollowerCore<u64> = FollowerCore::new(4);
    assert_eq!(core.tip_seen(8), [5, 6, 7, 8].map(FollowerEffect::Fetch));
    assert_eq!(core.block_fetched(7, 7), []);
    assert_eq!(core.block_fetched(5, 5), [FollowerEffect::Write(vec![5])]);
    assert_eq!(core.block_fetched(6, 6), []);
    assert_eq!(core.tip_seen(6), [], "an old tip has no effect");
    core.blocks_written(1);
    assert_eq!(core.advance(), [FollowerEffect::Write(vec![6, 7])], "all that are there go into one transaction");
    core.blocks_written(2);
    assert_eq!((core.advance(), core.committed()), (Vec::new(), 7));
}

#[test]
fn failed_steps_are_retried_and_one_transaction_is_written_at_a_time() {
    let mut core: FollowerCore<u64> = FollowerCore::new(0);
    assert_eq!(core.tip_seen(2), [1, 2].map(FollowerEffect::Fetch));
    core.fetch_failed(1, false);
    assert_eq!(core.block_fetched(2, 2), [FollowerEffect::Fetch(1)]);
    assert_eq!(core.block_fetched(1, 1), [FollowerEffect::Write(vec![1, 2])]);
    assert_eq!(core.advance(), []);
    core.blocks_written(0);
    assert_eq!(core.advance(), [FollowerEffect::Write(vec![1, 2])]);
    core.blocks_written(1);
    assert_eq!(core.advance(), [FollowerEffect::Write(vec![2])], "the second one has failed");
}

#[test]
fn after_a_height_that_no_node_has_only_a_retry_fetches_again() {
    let mut core: FollowerCore<u64> = FollowerCore::new(0);
    assert_eq!(core.tip_seen(3).len(), 3);
    core.fetch_failed(1, true);
    assert_eq!((core.block_fetched(2, 2), core.tip_seen(4)), (Vec::new(), Vec::new()));
    assert_eq!(core.retry(), [1, 4].map(FollowerEffect::Fetch));
}

#[test]
fn a_stopped_follower_forgets_the_blocks_and_heights_of_other_nodes() {
    let mut core: FollowerCore<u64> = FollowerCore::new(4);
    assert_eq!(core.tip_seen(9).len(), 5);
    let before = core.generation();
    core.stop();
    assert!(core.is_stopped() && core.generation() > before, "fetches of before do not count");
    assert_eq!((core.block_fetched(5, 5), core.tip_seen(12), core.retry()), (Vec::new(), Vec::new(), Vec::new()));
    core.resume();
    assert_eq!((core.tip(), core.advance()), (4, Vec::new()), "no node is known to have more");
    assert_eq!(core.tip_seen(6), [5, 6].map(FollowerEffect::Fetch));
}

#[test]
fn far_behind_a_transaction_is_full_unless_a_block_does_not_come() {
    let mut core: FollowerCore<u64> = FollowerCore::new(0);
    core.tip_seen(1_000);
    let is_write = |effect: &FollowerEffect<u64>| matches!(effect, FollowerEffect::Write(_));
    for height in 1..MAX_BATCH as u64 {
        assert!(!core.block_fetched(height, height).iter().any(is_write), "the block after {height} is about to come");
    }
    let full: Vec<u64> = (1..=MAX_BATCH as u64).collect();
    assert_eq!(core.block_fetched(MAX_BATCH as u64, MAX_BATCH as u64)[0], FollowerEffect::Write(full));
    // A failed fetch holds up no block before it.
    let mut core: FollowerCore<u64> = FollowerCore::new(0);
    core.tip_seen(1_000);
    core.block_fetched(1, 1);
    core.fetch_failed(2, false);
    assert_eq!(core.advance()[0], FollowerEffect::Write(vec![1]));
    // Near the tip each block is written as soon as it is there.
    let mut core: FollowerCore<u64> = FollowerCore::new(0);
    core.tip_seen(3);
    assert_eq!(core.block_fetched(1, 1), [FollowerEffect::Write(vec![1])]);
}

#[test]
fn a_transaction_has_a_bound() {
    let mut core: FollowerCore<u64> = FollowerCore::new(0);
    core.tip_seen(1_000);
    for height in (1..=MAX_FETCH_AHEAD).rev() {
        core.block_fetched(height, height);
    }
    core.blocks_written(0);
    let effects = core.advance();
    let [FollowerEffect::Write(batch), ..] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(batch.len(), MAX_BATCH);
}

#[test]
fn after_a_failure_one_block_at_a_time_is_fetched_until_one_arrives() {
    let mut core: FollowerCore<u64> = FollowerCore::new(0);
    assert_eq!(core.tip_seen(3).len(), 3);
    for height in [1, 2, 3] {
        core.fetch_failed(height, false);
    }
    assert_eq!(core.advance(), [FollowerEffect::Fetch(1)]);
    assert_eq!(core.tip_seen(4), []);
    assert_eq!(
        core.block_fetched(1, 1),
        [FollowerEffect::Write(vec![1]), FollowerEffect::Fetch(2), FollowerEffect::Fetch(3), FollowerEffect::Fetch(4)]
    );
}

#[test]
fn the_number_of_blocks_in_fetch_is_bounded() {
    let mut core: FollowerCore<u64> = FollowerCore::new(0);
    assert_eq!(core.tip_seen(1000).len(), MAX_IN_FETCH);
    assert_eq!(core.advance(), []);
    assert_eq!(core.block_fetched(2, 2), [FollowerEffect::Fetch(MAX_IN_FETCH as u64 + 1)]);
}

#[test]
fn the_number_of_blocks_ahead_of_the_written_ones_is_bounded() {
    let mut core: FollowerCore<u64> = FollowerCore::new(0);
    let mut requested = core.tip_seen(1000);
    // The first block does not arrive, so that nothing can be written.
    for height in 2..=MAX_FETCH_AHEAD {
        assert!(requested.contains(&FollowerEffect::Fetch(height)));
        requested.extend(core.block_fetched(height, height));
    }
    assert_eq!(requested, (1..=MAX_FETCH_AHEAD).map(FollowerEffect::Fetch).collect::<Vec<_>>());
}

#[test]
fn a_height_that_is_stated_no_more_is_not_fetched() {
    let mut core: FollowerCore<u64> = FollowerCore::new(4);
    assert_eq!(core.tip_stated(1_000).len(), MAX_IN_FETCH);
    for height in 5..5 + MAX_IN_FETCH as u64 {
        core.fetch_failed(height, false);
    }
    assert_eq!((core.tip_stated(4), core.tip(), core.retry()), (Vec::new(), 4, Vec::new()));
    assert_eq!(core.tip_stated(3), []);
    assert_eq!(core.tip(), 4, "a node that is behind takes back no block");
    assert_eq!(core.tip_stated(6), [FollowerEffect::Fetch(5)]);
}

/// Longest silence of the node in these tests.
const AWAY_AFTER: Duration = Duration::from_millis(1_500);

struct FollowerFixture {
    follower: FollowerHandle,
    hub: HubHandle,
    store: IndexStore,
    supervisor: Supervisor,
}

/// Starts a follower of a fake node with a block hub. There is no trust evaluator.
async fn start_follower(node: &FakeNode) -> FollowerFixture {
    let store = IndexStore::open("sqlite::memory:", "c").await.expect("opens");
    let block_interval = Duration::from_millis(100);
    let settings =
        HubSettings { block_interval: block_interval.into(), first_height: 1.into(), max_buffered_bytes: 1 << 20 };
    let (hub, hub_child) = HubHandle::child_spec(BlockTopic(store.clone()), settings);
    let follower = FollowerHandle::new();
    let namespace = Namespace::compiled();
    let node = NodeClient::new(&node.origin).expect("an origin");
    let args = Args {
        messages: NodeMessages::read(&node).await.expect("its messages"),
        node,
        histories: NodeHistories::default(),
        known_messages: KnownMessages::compiled(&namespace).expect("the compiled schema"),
        store: store.clone(),
        hub: hub.clone(),
        trust_evaluator: TrustEvaluatorHandle::new(),
        block_interval: block_interval.into(),
        least_patience: AWAY_AFTER,
        start_height: 1.into(),
        is_start_configured: false,
        last_error: RetainedState::new(None),
    };
    let supervisor = Supervisor::new("test");
    let spec = SupervisorSpec::one_for_one(vec![hub_child, follower.child_spec(args)]);
    supervisor.start(spec).await.expect("starts");
    FollowerFixture { follower, hub, store, supervisor }
}

impl FollowerFixture {
    /// Waits until a state holds. Returns it.
    async fn wait_for(&self, expected: &str, holds: fn(&FollowerState) -> bool) -> FollowerState {
        let reached = async {
            loop {
                if let Some(state) = self.follower.state().await.filter(holds) {
                    return state;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(60), reached).await.unwrap_or_else(|_| panic!("{expected}"))
    }
}

#[tokio::test]
async fn a_node_that_answers_nothing_stops_the_follower_and_a_quiet_chain_does_not() {
    let node = FakeNode::start(3).await;
    let fixture = start_follower(&node).await;
    let before = fixture.wait_for("it has the blocks", |state| state.committed == 3).await.block_age_seconds;
    // The chain makes no block for longer than the patience with a node, and the age of its newest block grows.
    let quiet = async {
        loop {
            assert_eq!(fixture.follower.state().await.and_then(|state| state.last_error), None);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    assert!(timeout(2 * AWAY_AFTER, quiet).await.is_err(), "it stays healthy");
    let after = fixture.wait_for("it answers", |_| true).await.block_age_seconds;
    assert!(after >= before.map(|age| age + 2), "{before:?} {after:?}");
    node.change(|chain| chain.is_silent = true);
    let is_away = |state: &FollowerState| {
        state.last_error.as_ref().is_some_and(|error| error.message == "no node has answered for 1.5 s")
    };
    let stopped = fixture.wait_for("it has stopped", is_away).await;
    node.change(|chain| (chain.is_silent, chain.height) = (false, 4));
    let goes_on = |state: &FollowerState| state.committed == 4 && state.last_error.is_none();
    assert!(
        fixture.wait_for("it goes on", goes_on).await.block_age_seconds < stopped.block_age_seconds.map(|age| age + 1)
    );
    fixture.supervisor.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_height_that_the_node_takes_back_leaves_no_failure() {
    let node = FakeNode::start(3).await;
    let fixture = start_follower(&node).await;
    fixture.wait_for("it has the blocks", |state| state.committed == 3).await;
    node.change(|chain| chain.lead = 1_000_000);
    fixture.wait_for("blocks are missed", |state| state.tip > 1_000 && state.last_error.is_some()).await;
    node.change(|chain| chain.lead = 0);
    fixture
        .wait_for("nothing is missed", |state| state.tip == 3 && state.last_error.is_none() && !state.is_stuck)
        .await;
    node.change(|chain| chain.height = 5);
    fixture.wait_for("the blocks go on", |state| state.committed == 5).await;
    fixture.supervisor.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn the_follower_publishes_each_block_once_across_failures_and_restarts() {
    let node = FakeNode::start(0).await;
    let fixture = start_follower(&node).await;
    let mut connection = fixture.hub.join().await.expect("joins");
    let control = ControlMessage::Subscribe(SubscriptionFilter::default());
    fixture.hub.send_control(connection.id, control).await.expect("subscribes");

    node.change(|chain| (chain.height, chain.refused_blocks) = (4, vec![3]));
    assert_eq!(
        [connection.next_block().await["block"].clone(), connection.next_block().await["block"].clone()],
        [1, 2]
    );
    let failure = async {
        loop {
            if let Some(error) = fixture.follower.state().await.and_then(|state| state.last_error) {
                return error.message;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let message = timeout(Duration::from_secs(30), failure).await.expect("in time");
    assert!(message.starts_with("block 3: the node refused block"), "{message}");

    assert!(fixture.supervisor.kill("follower").await);
    node.change(|chain| (chain.height, chain.refused_blocks) = (6, Vec::new()));
    for height in 3..=6 {
        assert_eq!(connection.next_block().await["block"], height);
    }
    assert_eq!(fixture.store.checkpoint().await.expect("reads").height, 6);
    fixture.supervisor.shutdown(Duration::from_secs(5)).await;
    assert_eq!(fixture.follower.state().await, None);
}
