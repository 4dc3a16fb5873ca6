//! The outcome of a message of a peer: its receipt, and its name for telemetry.

use svc_net::didcomm::Receipt;
use svc_otel::metrics;

use super::service::RETRY_SECONDS;

/// Seconds after which a peer may come back whose messages have filled a memory.
const FULL_SECONDS: u64 = 60;

/// The outcome of a message that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArrivalOutcome {
    /// It was handled, with everything that follows from it.
    Stored,
    /// It was handled before.
    Repeated,
    /// The memory against repetition is full, mostly of this peer.
    MemoryFull,
    /// Too many flows of the peer have not ended, or too many messages wait for it.
    FlowsFull,
    /// It fails a check.
    Refused,
    /// Its peer sends too much, or too many strangers begin to talk.
    Busy {
        /// Seconds after which it may come back.
        retry_after: u64,
    },
    /// Its peer is no verifiable service.
    Untrusted,
    /// Nothing can be decided about its peer now.
    UnknownVerdict,
    /// The facts of its flow cannot be read now.
    UnknownFlow,
    /// The store cannot be used now.
    StoreFailed,
    /// Another part that it needs does not answer now.
    Unavailable,
}

impl ArrivalOutcome {
    /// The name for telemetry.
    pub fn label(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Repeated => "repeated",
            Self::MemoryFull => "memory_full",
            Self::FlowsFull => "flows_full",
            Self::Refused => "refused",
            Self::Busy { .. } => "busy",
            Self::Untrusted => "untrusted",
            Self::UnknownVerdict => "unknown_verdict",
            Self::UnknownFlow => "unknown_flow",
            Self::StoreFailed => "store_failed",
            Self::Unavailable => "unavailable",
        }
    }

    /// Counts a message of a protocol.
    pub fn record(self, protocol: &'static str) {
        metrics::record_peer_message("in", protocol, self.label());
    }

    /// The receipt for the transport.
    pub fn receipt(self) -> Receipt {
        match self {
            // A peer that is not trusted gets the receipt of a stored message: it must not come again.
            Self::Stored | Self::Repeated | Self::Untrusted => Receipt::Taken,
            Self::Refused => Receipt::Refused,
            Self::MemoryFull | Self::FlowsFull => Receipt::Busy { retry_after: FULL_SECONDS },
            Self::Busy { retry_after } => Receipt::Busy { retry_after },
            Self::UnknownVerdict | Self::UnknownFlow | Self::StoreFailed | Self::Unavailable => {
                Receipt::Unavailable { retry_after: RETRY_SECONDS }
            }
        }
    }
}

/// A message that was judged, and stored where it may be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JudgedMessage {
    /// The receipt for the transport.
    pub receipt: Receipt,
    /// The connection that has a message for the peer now.
    pub queued_for: Option<String>,
    /// The outcome.
    pub outcome: ArrivalOutcome,
}

impl From<ArrivalOutcome> for JudgedMessage {
    fn from(outcome: ArrivalOutcome) -> Self {
        Self { receipt: outcome.receipt(), queued_for: None, outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_has_its_name_and_its_receipt() {
        let later = Receipt::Unavailable { retry_after: 5 };
        let full = Receipt::Busy { retry_after: 60 };
        for (outcome, label, receipt) in [
            (ArrivalOutcome::Stored, "stored", Receipt::Taken),
            (ArrivalOutcome::Repeated, "repeated", Receipt::Taken),
            (ArrivalOutcome::MemoryFull, "memory_full", full),
            (ArrivalOutcome::FlowsFull, "flows_full", full),
            (ArrivalOutcome::Refused, "refused", Receipt::Refused),
            (ArrivalOutcome::Busy { retry_after: 7 }, "busy", Receipt::Busy { retry_after: 7 }),
            (ArrivalOutcome::Untrusted, "untrusted", Receipt::Taken),
            (ArrivalOutcome::UnknownVerdict, "unknown_verdict", later),
            (ArrivalOutcome::UnknownFlow, "unknown_flow", later),
            (ArrivalOutcome::StoreFailed, "store_failed", later),
            (ArrivalOutcome::Unavailable, "unavailable", later),
        ] {
            assert_eq!((outcome.label(), outcome.receipt()), (label, receipt));
            assert_eq!(JudgedMessage::from(outcome), JudgedMessage { receipt, queued_for: None, outcome });
        }
    }
}
