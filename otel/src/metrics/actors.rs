//! Metrics of actors: mailboxes, messages and restarts.

use std::time::Duration;

use super::instrument::instrument;

/// Records that a message entered (+1) or left (-1) a mailbox.
pub fn record_mailbox_depth(actor: &str, change: i64) {
    instrument!(UpDownCounter, "svc_actor_mailbox_depth", "Messages waiting in mailboxes, by actor.")
        .add(change, [("actor", actor)]);
}

/// Records the time that a message waited in the mailbox.
pub fn record_message_wait(actor: &str, waited: Duration) {
    instrument!(
        DurationHistogram,
        "svc_actor_message_wait_seconds",
        "Seconds a message waited in the mailbox, by actor."
    )
    .record(waited, [("actor", actor)]);
}

/// Records the time that the handler of a message took, and its outcome.
pub fn record_message_duration(actor: &str, message: &str, outcome: &str, took: Duration) {
    instrument!(
        DurationHistogram,
        "svc_actor_message_duration_seconds",
        "Seconds a message was handled, by actor, message and outcome."
    )
    .record(took, [("actor", actor), ("message", message), ("outcome", outcome)]);
}

/// Counts the restart of an actor.
pub fn record_actor_restart(actor: &str, reason: &str) {
    instrument!(Counter, "svc_actor_restarts_total", "Restarts, by actor and reason.")
        .increment([("actor", actor), ("reason", reason)]);
}

/// Counts a message that an actor's mailbox limit refused.
pub fn record_message_rejected(actor: &str) {
    instrument!(Counter, "svc_actor_rejected_total", "Messages refused by an admission limit, by actor.")
        .increment([("actor", actor)]);
}
