//! The values within the record of a flow. Times are milliseconds since the epoch, but those of the chain.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::named::named;

/// The code of a flow that waits because another session was paid for the same validation.
pub const ALREADY_ISSUED: &str = "ALREADY_ISSUED";

/// A link at which the applicant has something to do. It is a text and nothing more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OobLink {
    /// The link as the validator wrote it.
    pub url: String,
    /// The task there.
    pub description: String,
    /// Its end.
    pub expires_at: Option<i64>,
    /// Time of the message.
    pub at: i64,
}

named! {
    /// The kind of a message for people.
    KeptKind {
        /// A link.
        OobLink = "oob-link",
        /// The validator works on it.
        Validating = "validating",
        /// A problem.
        ProblemReport = "problem-report",
    }
}

/// A message of either side that people read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptMessage {
    /// Kind.
    #[serde(rename = "type")]
    pub kind: KeptKind,
    /// Text.
    pub text: String,
    /// Time.
    pub at: i64,
    /// Link, of one of the kind [`KeptKind::OobLink`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub url: Option<String>,
}

/// Messages for people that a record keeps; the oldest go.
pub const MAX_KEPT: usize = 100;

named! {
    /// The party that sends the validation.
    Submission {
        /// The agent, from its account.
        Agent = "AGENT",
        /// An operator of the corporation.
        Operator = "OPERATOR",
    }
}

named! {
    /// The state of a transaction.
    TxStatus {
        /// It was sent, and no block shows it yet.
        Submitted = "SUBMITTED",
        /// It is in a block.
        Succeeded = "SUCCEEDED",
        /// It is in no block, and will not be.
        Failed = "FAILED",
    }
}

/// A transaction of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowTx {
    /// State.
    pub status: TxStatus,
    /// Hash, upper-case hex.
    pub hash: Option<String>,
    /// Height of its block.
    pub height: Option<u64>,
    /// Reason of a failure, one of the contract's.
    pub reason: Option<String>,
    /// The failure in words.
    pub error: Option<String>,
}

/// The terms of a validation. Fees are in the pricing asset of the schema, discounts in ten-thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fees {
    /// For a validation below the participant.
    pub validation_fees: u64,
    /// For an issuance.
    pub issuance_fees: u64,
    /// For a verification.
    pub verification_fees: u64,
    /// Taken off the fees for an issuance.
    pub issuance_fee_discount: u64,
    /// Taken off the fees for a verification.
    pub verification_fee_discount: u64,
}

/// The terms of a credential beside its schema, in words of an older text. The newest one has none of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CredentialTerms {
    /// Beginning of its validity, seconds since the epoch; the issuance when absent.
    pub valid_from: Option<i64>,
    /// End of its validity, seconds since the epoch.
    pub valid_until: Option<i64>,
    /// Whether its holder is to present it.
    pub present_as_linked_vp: Option<bool>,
}

impl CredentialTerms {
    /// These terms, and those of before where a member is absent.
    #[must_use]
    pub fn or(self, before: Self) -> Self {
        Self {
            valid_from: self.valid_from.or(before.valid_from),
            valid_until: self.valid_until.or(before.valid_until),
            present_as_linked_vp: self.present_as_linked_vp.or(before.present_as_linked_vp),
        }
    }
}

/// The decision of the validator's operator, or of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Validation {
    /// Time of the decision.
    pub decided_at: i64,
    /// Sender of the transaction.
    pub submission: Submission,
    /// Terms.
    pub fees: Fees,
    /// End of the participant, seconds since the epoch.
    pub effective_until: Option<i64>,
    /// Digest of the summary of the onboarding.
    pub op_summary_digest: Option<String>,
    /// Terms of the credential that follows.
    #[serde(default)]
    pub terms: CredentialTerms,
    /// Attempts of the agent, each with a key of its own.
    #[serde(default)]
    pub attempts: u32,
    /// Transaction of the agent.
    pub tx: Option<FlowTx>,
}

named! {
    /// The progress of a credential.
    CredentialStage {
        /// It is signed and stored.
        Signed = "signed",
        /// Its digest and its session are on the chain.
        Anchored = "anchored",
        /// It was sent to the holder.
        Delivered = "delivered",
        /// It has come from the issuer, and nothing of it is checked.
        Received = "received",
        /// It has passed every check and is stored by its holder.
        Held = "held",
        /// It is revoked.
        Revoked = "revoked",
    }
}

/// A credential of the flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowCredential {
    /// The round that it was issued in, which the key of its transaction names.
    pub round: u32,
    /// The session that it is paid under. The flow may have another by now: a renewal that was cancelled can have brought one.
    #[serde(default)]
    pub session_id: String,
    /// The change of the participant's state that began that round.
    #[serde(default)]
    pub round_changed_at: Option<i128>,
    /// Records of the session that others had paid for by then, which the key of its transaction names too.
    #[serde(default)]
    pub paid_before: usize,
    /// End of the participant's validation at the time of the signature.
    #[serde(default)]
    pub validated_until: Option<i128>,
    /// Progress.
    pub stage: CredentialStage,
    /// Id of the credential.
    pub id: Option<String>,
    /// Digest of the credential.
    pub digest: Option<String>,
    /// The transaction that pays and anchors it.
    pub tx: Option<FlowTx>,
}

impl FlowCredential {
    /// Whether this agent has paid for it.
    pub fn is_paid(&self) -> bool {
        !matches!(self.stage, CredentialStage::Signed | CredentialStage::Received)
    }

    /// Whether its payment was in a block that the chain has lost.
    pub(super) fn is_unproven(&self) -> bool {
        let is_out =
            matches!(self.stage, CredentialStage::Anchored | CredentialStage::Delivered | CredentialStage::Held);
        is_out && self.tx.as_ref().is_some_and(|tx| tx.status == TxStatus::Submitted)
    }
}

/// An exchange of messages about a credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exchange {
    /// Its thread; the thread of the flow is its parent.
    pub thread: String,
    /// Whether the applicant has requested the credential in it.
    #[serde(default)]
    pub is_requested: bool,
    /// Whether the credential was sent in it.
    pub is_delivered: bool,
}

/// An offer that waits until the node shows that the issuer may offer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldOffer {
    /// Thread of the exchange.
    pub thread: String,
    /// Name of the format.
    pub format: String,
    /// The offered credential; null where the format is not taken.
    pub content: Value,
    /// Time of the message.
    pub at: i64,
}

/// A reason and a text, with a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// For programs.
    pub code: String,
    /// For people.
    pub text: String,
    /// Time.
    pub at: i64,
}

/// The parts of an earlier round that are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PastRound {
    /// Number.
    pub number: u32,
    /// Decision.
    pub validation: Option<Validation>,
    /// Exchange of the credential.
    #[serde(default)]
    pub exchange: Option<Exchange>,
    /// Credential.
    pub credential: Option<FlowCredential>,
    /// Whether the validator wanted it presented.
    #[serde(default)]
    pub told_to_present: Option<bool>,
}

/// Earlier rounds that a record keeps; the oldest go.
pub const MAX_PAST: usize = 20;

/// An opening message that came to a flow at rest: of an applicant that begins again, or of one whose node shows its renewal before ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EarlyRequest {
    /// Claims of the credential.
    pub claims: Option<Map<String, Value>>,
    /// Presentations of the applicant.
    pub proofs: Option<Vec<Value>>,
    /// Time of its arrival, in milliseconds since the epoch.
    pub at: i64,
}
