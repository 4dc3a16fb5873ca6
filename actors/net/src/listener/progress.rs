//! How far a connection is, and until when its client must go on. Pure.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    admission::ConnectionUse,
    refusal::Refusal,
    settings::{ListenerSettings, MIN_BODY_BYTES_A_SECOND},
};

/// The progress of one connection.
#[derive(Debug)]
pub(super) struct Progress {
    phase: Phase,
    /// Since when the client has taken nothing of its answer.
    unread_since: Option<Instant>,
    /// Whether a refusal waits before it is answered.
    is_held: bool,
}

/// Outcome of a write or flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    /// The client takes none now.
    Blocked,
    /// The client, or the kernel for it, has taken some.
    Taken,
    /// None are left.
    Flushed,
}

#[derive(Debug)]
enum Phase {
    /// A head is expected or has begun.
    Head { since: Instant },
    /// An answer has ended, and no byte of a next head is there.
    Rest { since: Instant },
    /// A request is being answered.
    Request { since: Instant, body_bytes: u64, last_body: Instant, waits_for_body: bool },
}

impl Progress {
    /// A connection that was just accepted: its client has something to send.
    pub fn new(now: Instant) -> Self {
        Self { phase: Phase::Head { since: now }, unread_since: None, is_held: false }
    }

    /// Bytes came from the client.
    pub fn record_read(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Rest { .. }) && self.unread_since.is_none() {
            self.phase = Phase::Head { since: now };
        }
    }

    /// A head is complete.
    pub fn begin_request(&mut self, now: Instant) {
        self.phase = Phase::Request { since: now, body_bytes: 0, last_body: now, waits_for_body: false };
    }

    /// The body is read on: bytes came, or more are waited for.
    pub fn record_body(&mut self, bytes: u64, is_waiting: bool, now: Instant) {
        if let Phase::Request { body_bytes, last_body, waits_for_body, .. } = &mut self.phase {
            *body_bytes += bytes;
            if bytes > 0 || !*waits_for_body {
                *last_body = now;
            }
            *waits_for_body = is_waiting;
        }
    }

    /// The answer was written, or given up.
    pub fn end_request(&mut self, now: Instant) {
        self.phase = Phase::Rest { since: now };
    }

    /// Bytes were to be written.
    pub fn record_write(&mut self, outcome: WriteOutcome, now: Instant) {
        let was_blocked = self.unread_since.is_some();
        match outcome {
            WriteOutcome::Blocked => {
                self.unread_since.get_or_insert(now);
            }
            WriteOutcome::Taken | WriteOutcome::Flushed => self.unread_since = None,
        }
        // The library ends an exchange when it has the last bytes of the answer, and the client may still be taking them. It also
        // flushes when there is nothing to flush.
        if let Phase::Rest { since } = &mut self.phase
            && (outcome == WriteOutcome::Taken || (outcome == WriteOutcome::Flushed && was_blocked))
        {
            *since = now;
        }
    }

    /// A refusal waits, or is answered now.
    pub fn record_hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// Whether the connection waits for its client.
    pub fn current_use(&self) -> ConnectionUse {
        let waits = match self.phase {
            Phase::Head { .. } | Phase::Rest { .. } => true,
            Phase::Request { waits_for_body, .. } => waits_for_body || self.unread_since.is_some() || self.is_held,
        };
        if waits { ConnectionUse::Waiting } else { ConnectionUse::InUse }
    }

    /// The instant at which the connection is given up, and the reason. `None` while the server has to go on.
    pub fn deadline(&self, settings: &ListenerSettings) -> Option<(Instant, Refusal)> {
        let of_phase = match self.phase {
            Phase::Head { since } => Some((since + settings.header_timeout, Refusal::HeadTimeout)),
            Phase::Rest { since } => Some((since + settings.idle_timeout, Refusal::Idle)),
            Phase::Request { since, body_bytes, last_body, waits_for_body: true } => {
                let earned = Duration::from_secs(body_bytes / MIN_BODY_BYTES_A_SECOND);
                let end = (since + earned).min(last_body) + settings.header_timeout;
                Some((end, Refusal::BodyTimeout))
            }
            Phase::Request { .. } => None,
        };
        let of_answer = self.unread_since.map(|since| (since + settings.idle_timeout, Refusal::ReadTimeout));
        match (of_phase, of_answer) {
            (Some(phase), Some(answer)) => Some(if answer.0 < phase.0 { answer } else { phase }),
            (phase, answer) => phase.or(answer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_a_deadline_whenever_it_is_waited_for() {
        let settings = ListenerSettings {
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(100),
            ..ListenerSettings::default()
        };
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut one = Progress::new(begun);
        let deadline = |one: &Progress| one.deadline(&settings);
        assert_eq!(deadline(&one), Some((at(10), Refusal::HeadTimeout)), "a silent socket");
        one.record_read(at(9));
        assert_eq!(deadline(&one), Some((at(10), Refusal::HeadTimeout)), "a byte earns no time");
        one.begin_request(at(9));
        assert_eq!((deadline(&one), one.current_use()), (None, ConnectionUse::InUse), "the server's turn");
        one.record_body(0, true, at(9));
        assert_eq!(deadline(&one), Some((at(19), Refusal::BodyTimeout)));
        assert_eq!(one.current_use(), ConnectionUse::Waiting);
        one.record_body(5_000, true, at(18));
        assert_eq!(deadline(&one), Some((at(23), Refusal::BodyTimeout)), "bytes earn time");
        one.record_body(1 << 20, true, at(18));
        one.record_body(0, true, at(20));
        assert_eq!(deadline(&one), Some((at(28), Refusal::BodyTimeout)), "and a pause ends it");
        one.record_body(0, false, at(21));
        assert_eq!(deadline(&one), None);
        one.record_write(WriteOutcome::Blocked, at(12));
        one.record_write(WriteOutcome::Blocked, at(50));
        assert_eq!(deadline(&one), Some((at(112), Refusal::ReadTimeout)));
        one.record_write(WriteOutcome::Taken, at(60));
        assert_eq!(deadline(&one), None);
        one.end_request(at(65));
        one.record_write(WriteOutcome::Blocked, at(66));
        one.record_write(WriteOutcome::Flushed, at(70));
        one.record_write(WriteOutcome::Flushed, at(75));
        let rest = (Some((at(170), Refusal::Idle)), ConnectionUse::Waiting);
        assert_eq!((deadline(&one), one.current_use()), rest, "after the last byte was taken");
        one.record_read(at(80));
        assert_eq!(deadline(&one), Some((at(90), Refusal::HeadTimeout)), "half a head");
    }
}
