//! Restarts: causes, delays, groups and escalation.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use crate::{
    AskError, Handle,
    actor::ActorStatus,
    backoff::Backoff,
    supervision::{
        ChildSpec, Supervisor, SupervisorSpec,
        core::{RestartIntensity, RestartStrategy},
    },
};
use serde_json::json;

use super::fixture::{Args, FAST_BACKOFF, FaultyActor, Msg, TEST_TIMEOUT, start_tree, wait_for_restart};

#[tokio::test]
async fn an_error_and_a_panic_restart_the_actor_behind_the_same_handle() {
    let tree = start_tree(8, |child| child).await;
    for message in [Msg::Fail, Msg::Panic] {
        assert!(tree.probe.ask(Msg::Count).await.expect("answers") >= 1);
        let before = tree.starts.load(Ordering::SeqCst);
        tree.probe.tell(message).expect("delivered");
        wait_for_restart(&tree, before).await;
        assert_eq!(tree.probe.ask(Msg::Count).await, Ok(1), "a new incarnation has new state");
    }
    let report = tree.root.report().await;
    assert_eq!((report[0].restarts, report[0].status), (2, ActorStatus::Up));
    assert_eq!(report[0].state, Some(json!({"handled": 1})));
}

/// An actor that waits for the result of a task would wait forever.
#[tokio::test]
async fn a_panic_in_a_task_fails_the_actor_that_started_it() {
    let tree = start_tree(8, |child| child).await;
    assert!(tree.root.is_up());
    let answer = tree.probe.ask(Msg::PanicInTask).await;
    assert!(matches!(answer, Err(AskError::ActorDied { .. })), "{answer:?}");
    wait_for_restart(&tree, 1).await;
    assert_eq!(tree.probe.ask(Msg::Count).await, Ok(1), "a new incarnation has new state");
    let report = tree.root.report().await;
    assert_eq!((report[0].restarts, report[0].status), (1, ActorStatus::Up));
}

/// Messages that an actor has accepted are handled before a shutdown ends, also after its supervisor gave up once.
#[tokio::test]
async fn a_subtree_that_gave_up_and_was_restarted_can_be_shut_down() {
    let leaf = Handle::new("probe", "leaf", 8);
    let (inner, root) = (Supervisor::new("inner"), Supervisor::new("root"));
    let starts = Arc::new(AtomicU32::new(0));
    let describe = {
        let (leaf, starts) = (leaf.clone(), Arc::clone(&starts));
        move || SupervisorSpec {
            strategy: RestartStrategy::OneForOne,
            intensity: RestartIntensity { max_restarts: 0, period: Duration::from_secs(60) },
            children: vec![ChildSpec::worker::<FaultyActor>(
                &leaf,
                Args { starts: Arc::clone(&starts), ..Args::default() },
            )],
        }
    };
    let child = ChildSpec::supervisor(&inner, describe).backoff(FAST_BACKOFF);
    root.start(SupervisorSpec::one_for_one(vec![child])).await.expect("the tree starts");
    for round in 1..=3 {
        leaf.tell(Msg::Fail).expect("delivered");
        tokio::time::timeout(TEST_TIMEOUT, async {
            while starts.load(Ordering::SeqCst) <= round || !root.is_up() {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("the subtree is started again");
    }
    leaf.tell(Msg::Sleep(Duration::from_millis(20))).expect("delivered");
    let (accepted, ()) = tokio::join!(leaf.ask(Msg::Count), async {
        tokio::task::yield_now().await;
        let ended = tokio::time::timeout(TEST_TIMEOUT, root.shutdown(Duration::from_secs(5)));
        ended.await.expect("the shutdown ends");
    });
    assert_eq!(accepted, Ok(2), "an accepted message is handled");
    assert!(!root.is_up() && leaf.status() == ActorStatus::Stopped);
    assert_eq!(starts.load(Ordering::SeqCst), 4, "no start after the shutdown");
}

#[tokio::test]
async fn a_handler_that_never_ends_is_killed() {
    let tree = start_tree(8, |child| child.stuck_after(Duration::from_millis(300))).await;
    tree.probe.tell(Msg::Hang).expect("delivered");
    wait_for_restart(&tree, 1).await;
    assert_eq!(tree.probe.ask(Msg::Count).await, Ok(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_its_thread_is_abandoned() {
    let tree = start_tree(8, |child| child.stuck_after(Duration::from_millis(200))).await;
    // The task that a thread runs next stays with it while it blocks. Once in a long while that is the supervisor, and the handler ends
    // before it is noticed.
    for _ in 0..5 {
        tree.probe.tell(Msg::Block(Duration::from_secs(3))).expect("delivered");
        if tokio::time::timeout(Duration::from_secs(6), wait_for_restart(&tree, 1)).await.is_ok() {
            break;
        }
    }
    assert_eq!(tree.probe.ask(Msg::Count).await, Ok(1), "the successor answers while the old thread still blocks");
}

#[tokio::test]
async fn a_kill_restarts_and_a_failing_start_is_tried_again() {
    let tree = start_tree(8, |child| child).await;
    *tree.fails_to_start.lock().expect("not poisoned") = 2;
    assert!(tree.root.kill("probe").await);
    assert!(!tree.root.kill("absent").await);
    wait_for_restart(&tree, 1).await;
    assert_eq!(tree.probe.ask(Msg::Count).await, Ok(1));
}

#[tokio::test]
async fn too_many_restarts_escalate_to_the_root_which_ends_with_a_reason() {
    let leaf = Handle::new("probe", "leaf", 8);
    let (inner, root) = (Supervisor::new("inner"), Supervisor::new("root"));
    let strict = || RestartIntensity { max_restarts: 1, period: Duration::from_secs(60) };
    let describe = {
        let leaf = leaf.clone();
        move || SupervisorSpec {
            strategy: RestartStrategy::OneForOne,
            intensity: strict(),
            children: vec![ChildSpec::worker::<FaultyActor>(&leaf, Args::default()).backoff(FAST_BACKOFF)],
        }
    };
    let child = ChildSpec::supervisor(&inner, describe).backoff(FAST_BACKOFF);
    root.start(SupervisorSpec { strategy: RestartStrategy::OneForOne, intensity: strict(), children: vec![child] })
        .await
        .expect("the tree starts");
    let ended = tokio::spawn({
        let root = root.clone();
        async move { root.wait_until_ended().await }
    });
    while !ended.is_finished() {
        let _ = leaf.tell(Msg::Fail);
        tokio::task::yield_now().await;
    }
    assert!(ended.await.expect("joins").contains("inner kept failing"));
    assert!(root.report().await.is_empty());
}

#[tokio::test]
async fn rest_for_one_restarts_the_later_children_too() {
    let handles: Vec<Handle<Msg>> =
        ["first", "second", "third"].into_iter().map(|name| Handle::new("probe", name, 8)).collect();
    let starts: Vec<_> = (0..3).map(|_| Arc::new(AtomicU32::new(0))).collect();
    let children = handles.iter().zip(&starts).map(|(handle, starts)| {
        let args = Args { starts: Arc::clone(starts), ..Args::default() };
        ChildSpec::worker::<FaultyActor>(handle, args).backoff(FAST_BACKOFF)
    });
    let spec = SupervisorSpec {
        strategy: RestartStrategy::RestForOne,
        intensity: RestartIntensity { max_restarts: 5, period: Duration::from_secs(5) },
        children: children.collect(),
    };
    let root = Supervisor::new("root");
    root.start(spec).await.expect("the tree starts");
    handles[1].tell(Msg::Fail).expect("delivered");
    while starts[2].load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    let counts: Vec<_> = starts.iter().map(|count| count.load(Ordering::SeqCst)).collect();
    assert_eq!(counts, [1, 2, 2]);
    assert_eq!(handles[2].ask(Msg::Count).await, Ok(1));
}

/// The delays between restarts, on a paused clock.
#[tokio::test(start_paused = true)]
async fn restarts_follow_the_backoff_curve() {
    let tree = start_tree(8, |child| {
        let seconds = Duration::from_secs;
        child.backoff(Backoff { initial: seconds(1), max: seconds(8), factor: 2.0, jitter: 0.2 })
    })
    .await;
    for expected in [1.0, 2.0, 4.0, 8.0, 8.0] {
        let (before, begun) = (tree.starts.load(Ordering::SeqCst), tokio::time::Instant::now());
        tree.probe.tell(Msg::Fail).expect("delivered");
        while tree.starts.load(Ordering::SeqCst) == before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let waited = begun.elapsed().as_secs_f64();
        assert!((expected * 0.8..=expected * 1.2 + 0.02).contains(&waited), "waited {waited} s for {expected} s");
    }
}
