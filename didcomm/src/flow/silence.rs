//! A peer that does not answer: the flow would wait for ever without a word. Pure.

use super::{
    progress::Progress,
    record::FlowRecord,
    state::{FlowState, Side},
};

/// The reason of a flow whose peer has not answered for [`PATIENCE_MILLIS`].
pub const PEER_SILENT: &str = "PEER_SILENT";
/// Milliseconds of silence behind which people have to see it.
pub const PATIENCE_MILLIS: i64 = 300_000;

/// The answer that a flow waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AwaitedAnswer {
    /// That to an offer.
    Request,
    /// That to a credential.
    Acknowledgement,
}

impl FlowRecord {
    /// The answer that a validator waits for, of which an applicant that cannot read the message before says nothing.
    pub fn awaited_answer(&self) -> Option<AwaitedAnswer> {
        let exchange = self.exchange.as_ref()?;
        if (self.side, self.state) != (Side::Validator, FlowState::CredOffered) {
            return None;
        }
        match (exchange.is_requested, exchange.is_delivered) {
            (false, false) => Some(AwaitedAnswer::Request),
            (_, true) => Some(AwaitedAnswer::Acknowledgement),
            (true, false) => None,
        }
    }

    /// The time from which on the silence of the peer is a reason to wait; none where it is one already, or where no answer is awaited.
    pub fn silent_from(&self) -> Option<i64> {
        self.awaited_answer().filter(|_| self.blocked.is_none())?;
        Some(self.updated_at.saturating_add(PATIENCE_MILLIS))
    }

    /// Whether the flow waits for nothing but its peer.
    pub fn is_blocked_by_silence(&self) -> bool {
        self.blocked.as_ref().is_some_and(|blocked| blocked.code == PEER_SILENT)
    }
}

impl Progress {
    /// The peer has owed an answer for long: people have to see it. False before that time, and where they see a reason already.
    pub fn note_silence(&mut self, text: &str, now: i64) -> bool {
        let is_due = self.record.silent_from().is_some_and(|from| from <= now);
        if is_due {
            self.block(PEER_SILENT, text, now);
        }
        is_due
    }

    /// The peer has answered.
    pub fn end_silence(&mut self) {
        if self.record.is_blocked_by_silence() {
            self.record.blocked = None;
        }
    }
}
