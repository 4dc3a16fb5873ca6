//! The grant that a message of the agent's account needs, and the participant that has it. Pure.

mod choice;
mod refill;

use std::borrow::Cow;

use svc_wire::proto::svc::pp::v1::ParticipantRole;

pub use choice::{AgentAccount, ChosenParticipant, RecordRules, choose_participant};
pub use refill::{pause_before_look, time_to_refill};

/// The reason for which no transaction is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockedReason {
    /// No active participant of the corporation with the role names the agent's DID and its account.
    NoParticipant,
    /// No record of its participants has the message type.
    NoGrant,
    /// Every such record has expired.
    GrantExpired,
    /// Neither the corporation's allowance nor the account pays the fee.
    NoFees,
    /// Gas or fee would be above its ceiling.
    FeeAboveCeiling,
    /// The rest of the record's spend limit, or the coins of the corporation, do not cover the message.
    NoFunds,
    /// The node lacks the message, or describes a field of it otherwise: the text names both. It ends when the node runs a release that takes
    /// the message.
    SignedFieldDiffers(String),
    /// The chain has another history than the agent: the text names both. It ends when a person has rebased the agent.
    ChainChanged(String),
}

impl BlockedReason {
    /// Returns the code of the reason.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::NoParticipant => "NO_PARTICIPANT",
            Self::NoGrant => "NO_GRANT",
            Self::GrantExpired => "GRANT_EXPIRED",
            Self::NoFees => "NO_FEES",
            Self::FeeAboveCeiling => "FEE_ABOVE_CEILING",
            Self::NoFunds => "NO_FUNDS",
            Self::SignedFieldDiffers(_) => "SIGNED_FIELD_DIFFERS",
            Self::ChainChanged(_) => "CHAIN_CHANGED",
        }
    }

    /// Returns the facts behind the code, where the code does not name them.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::SignedFieldDiffers(text) | Self::ChainChanged(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the code, followed by the text where there is one.
    pub fn describe(&self) -> Cow<'static, str> {
        match self.text() {
            Some(text) => Cow::Owned(format!("{}: {text}", self.as_str())),
            None => Cow::Borrowed(self.as_str()),
        }
    }
}

const TRIGGER_RESOLVER: &str = "MsgTriggerResolver";
const UPDATE_SESSION: &str = "MsgCreateOrUpdateParticipantSession";
const SET_VALIDATED: &str = "MsgSetParticipantOPToValidated";

/// The messages that the agent's account signs, by their names in the module `pp`.
pub const SIGNED_MESSAGES: [&str; 3] = [TRIGGER_RESOLVER, UPDATE_SESSION, SET_VALIDATED];

/// The grant that a message needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantedGrant {
    /// Role of the participant.
    pub role: ParticipantRole,
    /// Name of the message in its module.
    pub message: &'static str,
    /// Schema of the participant; any when absent.
    pub schema_id: Option<u64>,
    /// The participant itself; any when absent.
    pub participant_id: Option<u64>,
}

impl WantedGrant {
    /// The grant to have the document resolved again.
    pub const TRIGGER: Self =
        Self { role: ParticipantRole::Holder, message: TRIGGER_RESOLVER, schema_id: None, participant_id: None };

    /// The grant to anchor credentials of a schema, by any ISSUER participant or by one.
    pub fn to_issue(schema_id: u64, participant_id: Option<u64>) -> Self {
        Self { role: ParticipantRole::Issuer, message: UPDATE_SESSION, schema_id: Some(schema_id), participant_id }
    }

    /// The grant to validate applicants of a participant.
    pub fn to_validate(schema_id: u64, participant_id: u64, role: ParticipantRole) -> Self {
        Self { role, message: SET_VALIDATED, schema_id: Some(schema_id), participant_id: Some(participant_id) }
    }
}
