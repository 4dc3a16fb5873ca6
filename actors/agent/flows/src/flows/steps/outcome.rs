//! The ends of a step: its effect, and the reasons for which it was not taken.

use std::time::Duration;

use prost_types::Timestamp;
use svc_agent_core::{error::Refusal, grant::BlockedReason};
use svc_agent_identity::{
    account_write::{Block, WriteStop},
    credentials::IssueStop,
};
use svc_agent_store::{AgentStoreError, FlowRefusal, FlowWriteError, QueueRefusal};
use svc_net::upstream::NodeClientError;

/// Pause behind a step that a node or a server has not answered.
pub(super) const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The end of a step that went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// The flow has changed.
    Changed,
    /// The step waits for something that is about to come.
    Later(Duration),
}

/// A step that was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::flows) enum StepStop {
    /// People have to act: a code of the contract, and a text. At a time of the chain that is known the reason may pass by itself.
    Blocked(String, String, Option<Timestamp>),
    /// The flow has changed meanwhile.
    Outdated,
    /// A later attempt may succeed.
    Failed(String),
}

impl StepStop {
    pub fn blocked(code: &str, text: impl Into<String>) -> Self {
        Self::Blocked(code.to_owned(), text.into(), None)
    }

    /// The code and the text of a flow that waits for this reason.
    pub fn into_notice(self) -> (String, String) {
        match self {
            Self::Blocked(code, text, _) => (code, text),
            Self::Outdated => ("VERDICT_UNKNOWN".to_owned(), "the flow has changed meanwhile".to_owned()),
            Self::Failed(reason) => ("VERDICT_UNKNOWN".to_owned(), reason),
        }
    }
}

impl From<NodeClientError> for StepStop {
    fn from(error: NodeClientError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<AgentStoreError> for StepStop {
    fn from(error: AgentStoreError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<WriteStop> for StepStop {
    fn from(stop: WriteStop) -> Self {
        match stop {
            WriteStop::Failed(reason) | WriteStop::Unanswered(reason) => Self::Failed(reason),
            WriteStop::Blocked(Block { reason, refills_at }) => {
                let (code, text) = blocked_by(&reason);
                Self::Blocked(code.to_owned(), text.to_owned(), refills_at)
            }
        }
    }
}

impl From<IssueStop> for StepStop {
    fn from(stop: IssueStop) -> Self {
        match stop {
            IssueStop::Stopped(stop) => stop.into(),
            IssueStop::Refused(refusal) => Self::blocked("CLAIMS_UNREADABLE", refusal.message),
        }
    }
}

impl From<FlowWriteError> for StepStop {
    fn from(error: FlowWriteError) -> Self {
        match error {
            FlowWriteError::Refused(FlowRefusal::NotConnected | FlowRefusal::Queue(QueueRefusal::Ended)) => {
                peer_has_gone()
            }
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<Refusal> for StepStop {
    fn from(refusal: Refusal) -> Self {
        Self::Failed(refusal.message)
    }
}

/// The peer has ended the connection.
pub(super) fn peer_has_gone() -> StepStop {
    StepStop::blocked("PEER_UNRESOLVABLE", "the connection with the peer has ended: its applicant has to begin again")
}

/// The code of the contract for the reason of a block, and the reason in words.
pub(super) fn blocked_by(reason: &BlockedReason) -> (&'static str, &str) {
    match reason {
        BlockedReason::NoParticipant => (
            "ISSUER_NOT_ACTIVE",
            "no active participant of this DID and account may do it: svc agent init shows the step",
        ),
        BlockedReason::NoGrant => ("NO_GRANT", "the participant has no record that lets this account send the message"),
        BlockedReason::GrantExpired => ("GRANT_EXPIRED", "the record of the participant has expired"),
        BlockedReason::NoFees => ("NO_FEES", "neither the corporation's allowance nor the account pays the fee"),
        BlockedReason::FeeAboveCeiling => ("FEE_ABOVE_CEILING", "gas or fee would be above its ceiling"),
        BlockedReason::NoFunds => {
            ("NO_FUNDS", "the rest of the record's limit, or the coins of the corporation, do not cover the message")
        }
        BlockedReason::SignedFieldDiffers(text) | BlockedReason::ChainChanged(text) => (reason.as_str(), text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_whose_message_the_node_reads_otherwise_is_blocked_with_the_field() {
        let text = "pp.v1.MsgSetParticipantOPToValidated.id is missing";
        let stop = StepStop::from(WriteStop::from(BlockedReason::SignedFieldDiffers(text.to_owned())));
        assert_eq!(stop, StepStop::blocked("SIGNED_FIELD_DIFFERS", text));
    }
}
