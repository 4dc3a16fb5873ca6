//! Errors of a question to an actor.

use std::{sync::Arc, time::Duration};

use super::status::ActorStatus;

/// The error of a question that the actor may answer with a refusal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError<E> {
    /// There is no answer.
    #[error(transparent)]
    Unanswered(#[from] AskError),
    /// The actor refuses.
    #[error("{0}")]
    Refused(E),
}

/// The error of a question without an answer. Each variant leaves another decision to the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The actor was not running. The message had no effect.
    #[error("{actor} is {status}; the message was not delivered")]
    NotDelivered {
        /// Name of the actor.
        actor: Arc<str>,
        /// Status of the actor when the message was sent.
        status: ActorStatus,
    },
    /// The actor took the message and died before it answered. The effect is not known.
    #[error("{actor} died before it answered")]
    ActorDied {
        /// Name of the actor.
        actor: Arc<str>,
    },
    /// The mailbox is full. The message had no effect.
    #[error("{actor} has {limit} messages waiting, its limit")]
    MailboxFull {
        /// Name of the actor.
        actor: Arc<str>,
        /// Its admission limit.
        limit: usize,
    },
    /// The actor did not answer in time. The effect is not known.
    #[error("{actor} did not answer within {waited:?}")]
    TimedOut {
        /// Name of the actor.
        actor: Arc<str>,
        /// Time that the caller waited.
        waited: Duration,
    },
}
