//! Tests of the start and the end of an indexer, against a fake node.

use std::time::Duration;

use tokio::{sync::oneshot, time::timeout};

use super::{Indexer, IndexerConfig};
use crate::fake_node::FakeNode;

const LIMIT: Duration = Duration::from_secs(30);

/// An actor of a platform that knows nothing of this crate. It reports the failure of a child.
struct Platform;

impl ractor::Actor for Platform {
    type Msg = ();
    type State = Option<oneshot::Sender<String>>;
    type Arguments = oneshot::Sender<String>;

    async fn pre_start(
        &self,
        _: ractor::ActorRef<()>,
        report: oneshot::Sender<String>,
    ) -> Result<Self::State, ractor::ActorProcessingErr> {
        Ok(Some(report))
    }

    async fn handle_supervisor_evt(
        &self,
        _: ractor::ActorRef<()>,
        event: ractor::SupervisionEvent,
        report: &mut Self::State,
    ) -> Result<(), ractor::ActorProcessingErr> {
        if let ractor::SupervisionEvent::ActorFailed(_, error) = event
            && let Some(report) = report.take()
        {
            let _ = report.send(error.to_string());
        }
        Ok(())
    }
}

async fn wait_for_height(indexer: &Indexer, height: u64) {
    let reached = async {
        while indexer.reader.checkpoint().await.expect("a checkpoint").height < height {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LIMIT, reached).await.expect("in time");
}

#[tokio::test]
async fn an_indexer_runs_below_an_actor_of_a_platform_and_stops_with_it() {
    let node = FakeNode::start(3).await;
    let (report, _) = oneshot::channel();
    let (platform, platform_task) = ractor::Actor::spawn(None, Platform, report).await.expect("the platform starts");
    let config = IndexerConfig::new(&node.origin, "sqlite::memory:");
    let indexer = Indexer::start_linked(config, platform.get_cell()).await.expect("starts");
    wait_for_height(&indexer, 3).await;
    platform.stop(None);
    timeout(LIMIT, platform_task).await.expect("in time").expect("ends");
    let stopped = async {
        while indexer.hub.join().await.is_ok() || indexer.reader.follower_state().await.is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LIMIT, stopped).await.expect("the tree stops with its parent");
}

#[tokio::test]
async fn the_platform_receives_the_failure_of_an_indexer_that_gives_up() {
    let node = FakeNode::start(1).await;
    let (report, failure) = oneshot::channel();
    let (platform, _) = ractor::Actor::spawn(None, Platform, report).await.expect("the platform starts");
    let config = IndexerConfig::new(&node.origin, "sqlite::memory:");
    let indexer = Indexer::start_linked(config, platform.get_cell()).await.expect("starts");
    let supervisor = indexer.supervisor.clone();
    let kills = tokio::spawn(async move {
        loop {
            for actor in ["hub", "trust_hub", "trust_evaluator", "follower"] {
                supervisor.kill(actor).await;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let failure = timeout(LIMIT, failure).await.expect("in time").expect("a failure");
    kills.abort();
    assert!(!failure.is_empty());
}

#[tokio::test]
async fn the_drop_of_the_last_handle_stops_the_actors() {
    let node = FakeNode::start(2).await;
    let indexer = Indexer::launch(IndexerConfig::new(&node.origin, "sqlite::memory:")).await.expect("starts");
    wait_for_height(&indexer, 2).await;
    let (supervisor, hub, reader) = (indexer.supervisor.clone(), indexer.hub.clone(), indexer.reader.clone());
    drop(indexer);
    tokio::task::yield_now().await;
    assert!(hub.join().await.is_ok(), "a reader keeps the actors alive");
    assert!(reader.follower_state().await.is_some());
    drop(reader);
    timeout(LIMIT, supervisor.wait_until_ended()).await.expect("the actors stop");
    assert!(hub.join().await.is_err());
}

#[test]
fn the_drop_of_an_indexer_outside_a_runtime_is_not_an_error() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let indexer = runtime.block_on(async {
        let node = FakeNode::start(1).await;
        Indexer::launch(IndexerConfig::new(&node.origin, "sqlite::memory:")).await.expect("starts")
    });
    drop(runtime);
    drop(indexer);
}
