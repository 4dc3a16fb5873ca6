//! The facts that the plan of a setup is made of.

use std::time::Duration;

use prost_types::Timestamp;
use svc_agent_core::grant::AgentAccount;
use svc_wire::{
    proto::svc::{
        cs::v1::CredentialSchema,
        de::v1::ParticipantAuthorizationRecord,
        pp::v1::{Participant, ParticipantRole},
    },
    proto_registry::NodeGeneration,
};
use uuid::Uuid;

use crate::credential_settings::ClaimProblem;

/// The state of the chain around the agent.
pub(super) struct SetupFacts {
    pub agent: AgentAccount,
    /// Time of the newest block, by which the chain judges.
    pub now: Timestamp,
    /// Time of the chain by the clock, which is later while no block comes.
    pub clock: Timestamp,
    /// Usual time between two blocks, where it is known.
    pub block_interval: Option<Duration>,
    /// Denomination of the chain's coin.
    pub denom: String,
    /// Generation of the node, where it is known.
    pub generation: Option<NodeGeneration>,
    pub account: AccountFacts,
    /// Participants of the DID, of every role and schema.
    pub participants: Vec<Participant>,
    /// Records of the agent's account for the corporation.
    pub records: Vec<ParticipantAuthorizationRecord>,
    /// The participants that the DID needs, in the order in which they are made.
    pub wanted: Vec<WantedParticipant>,
    pub credentials: Vec<CredentialFacts>,
    /// The messages that the wanted records list and the node does not take, each with the reason.
    pub not_taken: Vec<(String, String)>,
    /// Digests of schema credentials, and whether they are at the node.
    pub schema_credentials: Vec<SchemaCredentialFacts>,
}

impl SetupFacts {
    /// The idempotency key of a step: equal as long as the facts are that led to it.
    pub fn step_key(&self, step: &str, basis: &str) -> String {
        let name = format!("{}\n{step}\n{basis}", self.agent.did);
        format!("setup-{step}-{}", Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()).simple())
    }
}

/// The agent's account, and the payer of its fees.
pub(super) struct AccountFacts {
    /// Whether it exists at the node.
    pub exists: bool,
    /// Corporations that have made it an operator, which a VS operator cannot be.
    pub operator_of: Vec<u64>,
    /// Another corporation that it acts for.
    pub serves: Option<u64>,
    /// Its coins, in base units.
    pub coins: u128,
    /// The corporation's account, and its coins.
    pub corporation: String,
    pub corporation_coins: u128,
    /// Whether the corporation's allowance pays fees; `None` before the first participant.
    pub has_allowance: Option<bool>,
}

/// A participant that the DID needs.
pub(super) struct WantedParticipant {
    /// Beginning of the names of its steps.
    pub id: String,
    pub role: ParticipantRole,
    /// Type URLs that its record needs.
    pub msg_types: Vec<String>,
    /// The schema and the validator, or the reason for which they are not known.
    pub place: Result<ParticipantPlace, MissingPlace>,
    /// Schemas of which one is enough, when the place is not known.
    pub schemas: Vec<u64>,
    /// Whether another validator than that of the place will not do.
    pub is_validator_fixed: bool,
}

/// The place of a participant in the tree of its schema.
pub(super) struct ParticipantPlace {
    pub schema: CredentialSchema,
    pub validator: Participant,
    /// Participants of the corporation with the same role under the validator, of any DID.
    pub siblings: Vec<Participant>,
}

/// The reason for which a place is not known, and the end of that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MissingPlace {
    pub reason: String,
    pub end: GapEnd,
}

/// The end of the time for which a place is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GapEnd {
    /// The operator of the agent's corporation changes it.
    Operator,
    /// Another party changes it.
    Other,
    /// The agent reads it again.
    NextRead,
    /// A time of the chain, seconds since the epoch.
    Time(i64),
    /// The agent presents the credential of this schema, whose digest the operator stores.
    Presentation(u64),
}

/// A credential that the DID needs.
pub(super) struct CredentialFacts {
    /// Name of its presentation.
    pub name: String,
    pub state: CredentialProgress,
    /// The settings that keep the agent from issuing it.
    pub claims: Vec<ClaimProblem>,
}

/// The state of a credential that the DID needs.
pub(super) enum CredentialProgress {
    /// It is presented, until this time.
    Presented(Option<i64>),
    /// The agent issues it itself.
    Issuing(String),
    /// Another one issues it, and a person imports it: DID and corporation of the issuer, where they are known.
    Awaited { issuer: Option<String>, corporation_id: Option<u64> },
}

/// The credential of a schema of an own ecosystem.
pub(super) struct SchemaCredentialFacts {
    pub schema_id: u64,
    /// Name of its presentation.
    pub name: String,
    /// `None` until the agent has signed it.
    pub digest: Option<String>,
    /// Whether the node has the digest.
    pub is_anchored: bool,
    /// Whether the agent presents it.
    pub is_presented: bool,
    /// Whether the chain shows the schema as archived.
    pub is_archived: bool,
}
