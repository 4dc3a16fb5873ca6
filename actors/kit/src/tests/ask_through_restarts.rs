//! Questions that continue after a restart, on a paused clock.

use std::{sync::atomic::Ordering, time::Duration};

use crate::{AskError, actor::ActorStatus, backoff::Backoff, supervision::core::RestartMode};
use tokio::time::Instant;

use super::fixture::{Msg, SupervisionFixture, start_tree};

fn backoff_of(delay: Duration) -> Backoff {
    Backoff { initial: delay, max: delay, factor: 1.0, jitter: 0.0 }
}

/// Asks for a count until `limit` is over; returns the outcome, the number of attempts and the time that passed.
async fn count_within(tree: &SupervisionFixture, limit: Duration) -> (Result<u64, AskError>, u32, Duration) {
    let (start, mut attempts) = (Instant::now(), 0);
    let outcome = tree
        .probe
        .ask_through_restarts(start + limit, |left| {
            attempts += 1;
            tree.probe.ask_within(left, Msg::Count)
        })
        .await;
    (outcome, attempts, start.elapsed())
}

/// Kills the actor and waits until its supervisor has seen the death.
async fn kill_and_wait(tree: &SupervisionFixture) {
    tree.probe.kill();
    while tree.probe.status() == ActorStatus::Up {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_actor_between_two_incarnations_is_asked_when_it_is_up_again() {
    let tree = start_tree(8, |child| child.backoff(backoff_of(Duration::from_secs(5)))).await;
    kill_and_wait(&tree).await;
    assert_eq!(tree.probe.status(), ActorStatus::Restarting);
    let (outcome, attempts, elapsed) = count_within(&tree, Duration::from_secs(10)).await;
    assert_eq!((outcome, attempts), (Ok(1), 2));
    assert_eq!(elapsed.as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_dies_before_it_answers_is_asked_again() {
    let tree = start_tree(8, |child| child.backoff(backoff_of(Duration::from_secs(1)))).await;
    tree.probe.tell(Msg::Fail).expect("delivered");
    let (outcome, attempts, elapsed) = count_within(&tree, Duration::from_secs(10)).await;
    assert_eq!((outcome, attempts), (Ok(1), 2));
    assert_eq!((elapsed.as_secs(), tree.starts.load(Ordering::SeqCst)), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_kills_every_incarnation_fails_at_the_deadline() {
    let tree = start_tree(8, |child| child.backoff(backoff_of(Duration::from_secs(4)))).await;
    let deadline = Instant::now() + Duration::from_secs(10);
    let outcome = tree
        .probe
        .ask_through_restarts(deadline, |left| {
            tree.probe.tell(Msg::Fail).expect("delivered");
            tree.probe.ask_within(left, Msg::Count)
        })
        .await;
    assert!(matches!(outcome, Err(AskError::ActorDied { .. })), "{outcome:?}");
    assert_eq!((Instant::now() - deadline).as_secs(), 0);
    assert_eq!(tree.starts.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn a_restart_after_the_deadline_comes_too_late() {
    let tree = start_tree(8, |child| child.backoff(backoff_of(Duration::from_secs(60)))).await;
    kill_and_wait(&tree).await;
    let (outcome, attempts, elapsed) = count_within(&tree, Duration::from_secs(10)).await;
    assert!(matches!(outcome, Err(AskError::NotDelivered { status: ActorStatus::Restarting, .. })), "{outcome:?}");
    assert_eq!((attempts, elapsed.as_secs()), (1, 10));
}

#[tokio::test(start_paused = true)]
async fn the_stop_of_an_actor_ends_the_wait_at_once() {
    let tree = start_tree(8, |child| child.restart_mode(RestartMode::Temporary)).await;
    kill_and_wait(&tree).await;
    let (outcome, attempts, elapsed) = count_within(&tree, Duration::from_secs(10)).await;
    assert!(matches!(outcome, Err(AskError::NotDelivered { status: ActorStatus::Stopped, .. })), "{outcome:?}");
    assert_eq!((attempts, elapsed.as_secs()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_full_mailbox_is_asked_again_until_it_has_room() {
    let tree = start_tree(1, |child| child).await;
    fill_mailbox(&tree, Duration::from_secs(1)).await;
    let (outcome, attempts, elapsed) = count_within(&tree, Duration::from_secs(10)).await;
    assert_eq!(outcome, Ok(3), "after the message that slept and the one behind it");
    assert!((10..=12).contains(&attempts), "{attempts} attempts");
    assert_eq!(elapsed.as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_mailbox_that_stays_full_is_the_error_at_the_deadline() {
    let tree = start_tree(1, |child| child).await;
    fill_mailbox(&tree, Duration::from_secs(15)).await;
    let (outcome, _, elapsed) = count_within(&tree, Duration::from_millis(250)).await;
    assert!(matches!(outcome, Err(AskError::MailboxFull { limit: 1, .. })), "{outcome:?}");
    assert_eq!(elapsed.as_millis(), 250);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_times_out_is_not_repeated() {
    let tree = start_tree(8, |child| child).await;
    tree.probe.tell(Msg::Sleep(Duration::from_secs(15))).expect("delivered");
    let (outcome, attempts, elapsed) = count_within(&tree, Duration::from_secs(5)).await;
    assert!(matches!(outcome, Err(AskError::TimedOut { .. })), "{outcome:?}");
    assert_eq!((attempts, elapsed.as_secs()), (1, 5));
}

/// Keeps the actor busy for `span` with one more message behind, which fills a mailbox with a limit of one.
async fn fill_mailbox(tree: &SupervisionFixture, span: Duration) {
    tree.probe.tell(Msg::Sleep(span)).expect("delivered");
    while tree.probe.tell(Msg::Stream).is_err() {
        tokio::task::yield_now().await;
    }
}
