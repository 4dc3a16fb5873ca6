//! Errors of questions, and answers during a shutdown.

use std::time::Duration;

use crate::{AskError, Handle, actor::ActorStatus, supervision::core::RestartMode};

use super::fixture::{Msg, start_tree};

#[tokio::test]
async fn each_of_the_four_errors_is_reported_without_a_hang() {
    let unstarted: Handle<Msg> = Handle::new("probe", "unstarted", 8);
    assert!(matches!(unstarted.ask(Msg::Count).await, Err(AskError::NotDelivered { status: ActorStatus::New, .. })));

    let tree = start_tree(2, |child| child.restart_mode(RestartMode::Temporary)).await;
    assert!(matches!(tree.probe.ask(Msg::Forget).await, Err(AskError::ActorDied { .. })));

    let wait_limit = Duration::from_millis(20);
    tree.probe.tell(Msg::Hang).expect("delivered");
    assert!(matches!(tree.probe.ask_within(wait_limit, Msg::Count).await, Err(AskError::TimedOut { .. })));
    assert!(matches!(tree.probe.ask_within(wait_limit, Msg::Count).await, Err(AskError::TimedOut { .. })));
    assert!(matches!(tree.probe.ask(Msg::Count).await, Err(AskError::MailboxFull { limit: 2, .. })));

    let (probe, root) = (tree.probe.clone(), tree.root.clone());
    assert!(root.kill("probe").await);
    while !matches!(probe.ask(Msg::Count).await, Err(AskError::NotDelivered { status: ActorStatus::Stopped, .. })) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_waiting_caller_has_its_error_as_soon_as_the_actor_dies() {
    let tree = start_tree(8, |child| child).await;
    tree.probe.tell(Msg::Hang).expect("delivered");
    let asked = tokio::spawn({
        let probe = tree.probe.clone();
        async move { probe.ask_within(Duration::from_secs(3600), Msg::Count).await }
    });
    while tree.root.report().await[0].mailbox == 0 {
        tokio::task::yield_now().await;
    }
    tree.root.kill("probe").await;
    assert!(matches!(asked.await.expect("joins"), Err(AskError::ActorDied { .. })));
}

#[tokio::test]
async fn a_shutdown_handles_the_accepted_messages_and_refuses_later_ones() {
    let tree = start_tree(64, |child| child).await;
    let asked: Vec<_> = (0..32)
        .map(|_| {
            let probe = tree.probe.clone();
            tokio::spawn(async move { probe.ask(Msg::Count).await })
        })
        .collect();
    while tree.probe.ask(Msg::Count).await.is_ok_and(|count| count < 32) {}
    tree.root.shutdown(Duration::from_secs(5)).await;
    for answer in asked {
        assert!(answer.await.expect("joins").is_ok());
    }
    assert!(matches!(
        tree.probe.ask(Msg::Count).await,
        Err(AskError::NotDelivered { status: ActorStatus::Stopped, .. })
    ));
}
