//! Delivery and repetition of messages. DIDComm has no acknowledgement.
//!
//! A message is *done* when the receiver says that it has it, *not sent* when none of it can have arrived, and else *unknown*.
//! A message that was not sent is tried again until its time is over. One of unknown result is repeated only where a second one
//! does no harm.

use serde_json::Value;

use crate::{message::Message, protocol};

/// Result of sending a message once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// 2xx to the POST, or the pong to the ping behind the message.
    Done,
    /// No byte can have arrived, or the receiver said so.
    NotSent,
    /// Not sent, and no later attempt would be: the message is too large, or of a type that the receiver does not take.
    Rejected,
    /// Bytes went out, and no answer says whether they arrived.
    Unknown,
}

impl Attempt {
    /// The name for telemetry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "delivered",
            Self::NotSent => "not_sent",
            Self::Rejected => "rejected",
            Self::Unknown => "unknown",
        }
    }
}

/// The meaning of an HTTP status for the message that was posted.
pub fn attempt_of_status(status: u16) -> Attempt {
    match status {
        200..=299 => Attempt::Done,
        404 | 408 | 425 | 429 | 502 | 503 | 504 => Attempt::NotSent,
        413 | 415 => Attempt::Rejected,
        _ => Attempt::Unknown,
    }
}

/// Whether and when a message is repeated whose arrival is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repetition {
    /// Never: it stays unanswered.
    Never,
    /// The first message of a flow, until its thread goes on.
    Opening,
    /// The acknowledgement of a credential.
    Acknowledgement,
    /// A change of a credential's state, and a problem report that ends a flow.
    Ending,
}

impl Repetition {
    /// By the type of the message.
    pub fn of(message: &Message) -> Self {
        match message.kind.as_str() {
            protocol::vt_flow::ONBOARDING_REQUEST | protocol::vt_flow::ISSUANCE_REQUEST => Self::Opening,
            protocol::issue_credential::ACK => Self::Acknowledgement,
            protocol::vt_flow::CREDENTIAL_STATE_CHANGE => Self::Ending,
            protocol::PROBLEM_REPORT if protocol::vt_flow::ends_a_flow(message) => Self::Ending,
            _ => Self::Never,
        }
    }

    /// Seconds between the first sending and each repetition.
    fn offsets(self) -> &'static [i64] {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 60 * MINUTE;
        match self {
            Self::Never => &[],
            Self::Opening => &[
                MINUTE,
                5 * MINUTE,
                30 * MINUTE,
                6 * HOUR + 30 * MINUTE,
                12 * HOUR + 30 * MINUTE,
                18 * HOUR + 30 * MINUTE,
            ],
            Self::Acknowledgement | Self::Ending => &[MINUTE, 10 * MINUTE, HOUR],
        }
    }

    /// Whether each sending has an id of its own. A receiver handles an id once, so a question that is repeated to be answered
    /// needs a new one.
    pub fn has_new_ids(self) -> bool {
        self == Self::Opening
    }
}

/// State of a message in the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Repetition of its type.
    pub repetition: Repetition,
    /// When it was stored, in seconds since the epoch.
    pub stored_at: i64,
    /// When it was first sent without an answer.
    pub unknown_since: Option<i64>,
    /// Attempts that sent nothing since the last that sent something.
    pub failures: u32,
    /// Attempts whose result was unknown.
    pub unknowns: u32,
}

/// The step after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It is delivered.
    Delivered,
    /// It is sent again.
    Again {
        /// Seconds since the epoch.
        at: i64,
        /// State at that time.
        waiting: Waiting,
    },
    /// It was sent, and nothing will say whether it arrived. It holds up nothing.
    Unanswered,
    /// It cannot be sent.
    Undeliverable,
}

/// Seconds between two attempts that send nothing: from one second, doubled up to an hour.
const MAX_BACKOFF: i64 = 3600;

/// Decides after an attempt. `max_age` is the time in seconds after which a message that was never sent is given up; `jitter` is
/// between -1 and 1.
pub fn after_attempt(waiting: Waiting, attempt: Attempt, now: i64, max_age: i64, jitter: f64) -> Next {
    match attempt {
        Attempt::Done => Next::Delivered,
        Attempt::Rejected => not_arrived(waiting),
        Attempt::NotSent if now - waiting.stored_at >= max_age => not_arrived(waiting),
        Attempt::NotSent => {
            let backoff = MAX_BACKOFF.min(1 << waiting.failures.min(12));
            let spread = (backoff as f64 * 0.2 * jitter.clamp(-1.0, 1.0)) as i64;
            let end = waiting.stored_at + max_age;
            let at = (now + (backoff + spread).max(1)).min(end.max(now + 1));
            Next::Again { at, waiting: Waiting { failures: waiting.failures.saturating_add(1), ..waiting } }
        }
        Attempt::Unknown => {
            let since = waiting.unknown_since.unwrap_or(now);
            let offset = waiting.repetition.offsets().get(waiting.unknowns as usize);
            let Some(offset) = offset else { return Next::Unanswered };
            let unknown_since = Some(since);
            let unknowns = waiting.unknowns + 1;
            // A pause of the process makes several repetitions due at once. One of them is enough.
            let at = (since + offset).max(now + 1);
            Next::Again { at, waiting: Waiting { unknown_since, unknowns, failures: 0, ..waiting } }
        }
    }
}

/// One that was sent before may have arrived then.
fn not_arrived(waiting: Waiting) -> Next {
    if waiting.unknown_since.is_some() { Next::Unanswered } else { Next::Undeliverable }
}

/// Whether the first handling of a message led to an answer that is sent once more when the message comes again.
pub fn is_answer(kind: &str) -> bool {
    matches!(kind, protocol::issue_credential::ACK | protocol::PROBLEM_REPORT)
}

/// The words for a message's state on its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeliveryState {
    /// Not sent yet, or sent and due again.
    Waiting,
    /// The receiver has it.
    Delivered,
    /// Sent, and nothing says whether it arrived.
    Unanswered,
    /// It cannot be sent.
    Undeliverable,
}

impl DeliveryState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Waiting, Self::Delivered, Self::Unanswered, Self::Undeliverable];

    /// Word on records and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Delivered => "delivered",
            Self::Unanswered => "unanswered",
            Self::Undeliverable => "undeliverable",
        }
    }

    /// The state with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

impl From<DeliveryState> for Value {
    fn from(state: DeliveryState) -> Self {
        Self::String(state.as_str().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3600;

    fn waiting(repetition: Repetition) -> Waiting {
        Waiting { repetition, stored_at: 0, unknown_since: None, failures: 0, unknowns: 0 }
    }

    /// Runs attempts with one result from the time 0 on, and returns the times of all after the first, and the end.
    fn run(repetition: Repetition, attempt: Attempt) -> (Vec<i64>, Next) {
        let (mut now, mut state, mut times) = (0, waiting(repetition), Vec::new());
        loop {
            match after_attempt(state, attempt, now, DAY, 0.0) {
                Next::Again { at, waiting } => {
                    times.push(at);
                    (now, state) = (at, waiting);
                }
                end => return (times, end),
            }
        }
    }

    #[test]
    fn what_was_not_sent_is_tried_with_growing_pauses_for_a_day() {
        let (times, end) = run(Repetition::Never, Attempt::NotSent);
        assert_eq!(&times[..4], [1, 3, 7, 15]);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= MAX_BACKOFF));
        assert_eq!((times.last(), end), (Some(&DAY), Next::Undeliverable));
    }

    #[test]
    fn what_is_unknown_is_repeated_where_it_does_no_harm() {
        let hours = |hours: f64| (hours * 3600.0) as i64;
        for (repetition, expected) in [
            (Repetition::Never, vec![]),
            (Repetition::Opening, vec![60, 300, 1800, hours(6.5), hours(12.5), hours(18.5)]),
            (Repetition::Acknowledgement, vec![60, 600, 3600]),
            (Repetition::Ending, vec![60, 600, 3600]),
        ] {
            assert_eq!(run(repetition, Attempt::Unknown), (expected, Next::Unanswered), "{repetition:?}");
        }
    }

    #[test]
    fn what_may_have_arrived_is_never_called_undeliverable() {
        let Next::Again { waiting, .. } = after_attempt(waiting(Repetition::Ending), Attempt::Unknown, 0, DAY, 0.0)
        else {
            panic!("it is repeated");
        };
        for (attempt, now) in [(Attempt::Rejected, 60), (Attempt::NotSent, DAY)] {
            assert_eq!(after_attempt(waiting, attempt, now, DAY, 0.0), Next::Unanswered);
        }
        let Next::Again { at, .. } = after_attempt(waiting, Attempt::Unknown, DAY, DAY, 0.0) else {
            panic!("once more")
        };
        assert_eq!(at, DAY + 1, "after a pause one repetition is enough");
        assert_eq!(after_attempt(waiting, Attempt::Done, 60, DAY, 0.0), Next::Delivered);
    }

    #[test]
    fn pauses_differ_by_a_fifth() {
        let pause = |jitter| match after_attempt(
            Waiting { failures: 10, ..waiting(Repetition::Never) },
            Attempt::NotSent,
            0,
            DAY,
            jitter,
        ) {
            Next::Again { at, .. } => at,
            other => panic!("{other:?}"),
        };
        assert_eq!([pause(-1.0), pause(0.0), pause(1.0)], [820, 1024, 1228]);
    }

    #[test]
    fn every_status_has_one_meaning() {
        for status in 100..600 {
            let expected = match status {
                200..=299 => Attempt::Done,
                404 | 408 | 425 | 429 | 502 | 503 | 504 => Attempt::NotSent,
                413 | 415 => Attempt::Rejected,
                _ => Attempt::Unknown,
            };
            assert_eq!(attempt_of_status(status), expected);
        }
    }
}
