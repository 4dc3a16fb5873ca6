//! The kinds of values that an argument completes from.

use serde::Deserialize;

/// The kind of an argument's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompletionSource {
    /// Id of an ecosystem of the corporation.
    Ecosystem,
    /// Id of any ecosystem.
    AnyEcosystem,
    /// Id of a credential schema.
    Schema,
    /// Id of a participant.
    Participant,
    /// Id of a corporation.
    Corporation,
    /// DID of the corporation, of one of its ecosystems or of one of its participants.
    Did,
    /// Message type that a corporation can grant.
    MsgType,
    /// DID of an agent.
    AgentDid,
    /// Id of a group proposal of the corporation.
    Proposal,
    /// Language tag.
    Language,
    /// Hash of a transaction of this process.
    TxHash,
}
