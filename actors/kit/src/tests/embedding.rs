//! Trees inside a platform of other ractor actors.

use std::time::Duration;

use crate::{
    AskError, Handle,
    actor::ActorStatus,
    supervision::{
        ChildSpec, Supervisor, SupervisorSpec,
        core::{RestartIntensity, RestartStrategy},
    },
};

use super::fixture::{Args, FaultyActor, Msg, TEST_TIMEOUT};

#[tokio::test]
async fn a_foreign_actor_that_embeds_a_tree_is_notified_when_the_tree_gives_up() {
    struct EmbeddingPlatform;
    impl ractor::Actor for EmbeddingPlatform {
        type Msg = ();
        type State = tokio::sync::mpsc::UnboundedSender<String>;
        type Arguments = Self::State;
        async fn pre_start(
            &self,
            _: ractor::ActorRef<()>,
            failures: Self::State,
        ) -> Result<Self::State, ractor::ActorProcessingErr> {
            Ok(failures)
        }
        async fn handle_supervisor_evt(
            &self,
            _: ractor::ActorRef<()>,
            event: ractor::SupervisionEvent,
            failures: &mut Self::State,
        ) -> Result<(), ractor::ActorProcessingErr> {
            if let ractor::SupervisionEvent::ActorFailed(_, error) = event {
                failures.send(error.to_string())?;
            }
            Ok(())
        }
    }
    let (failures, mut reported) = tokio::sync::mpsc::unbounded_channel();
    let (platform, _) = ractor::Actor::spawn(None, EmbeddingPlatform, failures).await.expect("the platform starts");
    let probe = Handle::new("probe", "probe", 8);
    let spec = SupervisorSpec {
        strategy: RestartStrategy::OneForOne,
        intensity: RestartIntensity { max_restarts: 0, period: Duration::from_secs(1) },
        children: vec![ChildSpec::worker::<FaultyActor>(&probe, Args::default())],
    };
    Supervisor::new("embedded").start_linked(spec, platform.get_cell()).await.expect("embeds");
    probe.tell(Msg::Fail).expect("delivered");
    assert!(reported.recv().await.expect("a failure").contains("asked to fail"));
}

#[tokio::test]
async fn a_tree_ends_with_the_foreign_actor_that_embeds_it() {
    struct Platform;
    impl ractor::Actor for Platform {
        type Msg = ();
        type State = ();
        type Arguments = ();
        async fn pre_start(&self, _: ractor::ActorRef<()>, (): ()) -> Result<(), ractor::ActorProcessingErr> {
            Ok(())
        }
    }
    let (platform, _) = ractor::Actor::spawn(None, Platform, ()).await.expect("the platform starts");
    let (tree, subtree) = (Supervisor::new("embedded"), Supervisor::new("subtree"));
    let (probe, nested) = (Handle::new("probe", "probe", 8), Handle::new("probe", "nested", 8));
    let describe = {
        let nested = nested.clone();
        move || SupervisorSpec::one_for_one(vec![ChildSpec::worker::<FaultyActor>(&nested, Args::default())])
    };
    let children =
        vec![ChildSpec::worker::<FaultyActor>(&probe, Args::default()), ChildSpec::supervisor(&subtree, describe)];
    tree.start_linked(SupervisorSpec::one_for_one(children), platform.get_cell()).await.expect("embeds");
    assert_eq!(nested.ask(Msg::Count).await, Ok(1));
    platform.stop(None);
    let end_reason = tokio::time::timeout(TEST_TIMEOUT, tree.wait_until_ended()).await.expect("the tree ends");
    assert_eq!(end_reason, "killed");
    for handle in [probe, nested] {
        let refused = tokio::time::timeout(TEST_TIMEOUT, async {
            while handle.status() != ActorStatus::Stopped {
                tokio::task::yield_now().await;
            }
            handle.ask(Msg::Count).await
        });
        assert!(matches!(
            refused.await.expect("the handle shows the end"),
            Err(AskError::NotDelivered { status: ActorStatus::Stopped, .. })
        ));
    }
}
