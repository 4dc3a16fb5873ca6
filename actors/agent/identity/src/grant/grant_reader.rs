//! Reads a grant at the node.

use prost_types::Timestamp;
use svc_agent_core::grant::{
    AgentAccount, BlockedReason, ChosenParticipant, RecordRules, WantedGrant, choose_participant,
};
use svc_net::upstream::{LIST_LIMIT, NodeClient, NodeClientError, require_whole};
use svc_pipeline::{FeeBudget, FeeGranter, NodeRelease, RegistryChain, query_fee_allowance};
use svc_wire::proto::svc::{
    co::v1::{QueryGetCorporationRequest, QueryGetCorporationResponse},
    de::v1::{
        QueryListVsOperatorAuthorizationsRequest, QueryListVsOperatorAuthorizationsResponse, VsOperatorAuthorization,
    },
    pp::v1::{Participant, QueryListParticipantsRequest},
};

/// A participant with a valid record, and the payer.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentGrant {
    /// The participant.
    pub participant: Participant,
    /// End of the right by its record; `None` where it ends with the participant.
    pub expires_at: Option<Timestamp>,
    /// Account of the corporation.
    pub corporation: String,
    /// The largest fee that the corporation's allowance pays; `None` when it pays none.
    pub budget: Option<FeeBudget>,
    /// Time at which a period of that allowance ends and it pays more again, as the node states it; `None` where no time brings that.
    pub refills_at: Option<Timestamp>,
}

impl AgentGrant {
    /// The corporation as the payer of the fee, where its allowance pays one.
    pub fn granter(&self) -> Option<FeeGranter> {
        self.budget.map(|budget| FeeGranter { address: self.corporation.clone(), budget })
    }
}

/// Why an agent has no grant.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    /// The registry shows none that counts.
    #[error("{}", .0.as_str())]
    Blocked(BlockedReason),
    /// The node failed.
    #[error(transparent)]
    Node(#[from] NodeClientError),
}

impl From<BlockedReason> for GrantError {
    fn from(reason: BlockedReason) -> Self {
        Self::Blocked(reason)
    }
}

/// Reads the grant of an agent at a time of the chain.
///
/// # Errors
/// When the agent has no grant, or the node does not answer.
pub async fn read_grant(
    node: &NodeClient,
    (chain, release): (&RegistryChain, &NodeRelease),
    agent: &AgentAccount,
    wanted: &WantedGrant,
    now: &Timestamp,
) -> Result<AgentGrant, GrantError> {
    let namespace = chain.registry.namespace();
    let participants = QueryListParticipantsRequest {
        grantee: agent.address.clone(),
        did: agent.did.clone(),
        role: wanted.role as i32,
        schema_id: wanted.schema_id.unwrap_or_default(),
        only_valid: true,
        ..QueryListParticipantsRequest::default()
    };
    let path = namespace.query_path("pp", "ListParticipants");
    let participants = node.list_participants(&path, participants).await?;
    let authorizations = read_authorizations(node, chain, agent.corporation_id, &agent.address).await?;
    let msg_type = namespace.type_url("pp", wanted.message);
    let (active, records) = (&participants, &authorizations);
    let rules = RecordRules { has_own_limits: release.has_own_record_limits() };
    let ChosenParticipant { id, expires_at, with_feegrant, fees_left } =
        choose_participant((agent, wanted), active, records, &msg_type, (now, rules))?;
    let participant = active.iter().find(|one| one.id == id).cloned().ok_or(BlockedReason::NoParticipant)?;
    let corporation = read_corporation_account(node, chain, agent.corporation_id).await?;
    let allowance = query_fee_allowance(node, &corporation, &agent.address, &chain.params.denom).await?;
    let allowance = allowance.filter(|_| with_feegrant);
    let refills_at = allowance.as_ref().and_then(|allowance| allowance.refill_for(&msg_type));
    let allowance = allowance.and_then(|allowance| allowance.budget_for(&msg_type, now));
    // The chain takes the fee from the rest of the record's limit too, and fails a transaction that exceeds it.
    let budget = allowance.map(|budget| match (&fees_left, budget) {
        (None, budget) => budget,
        (Some(coins), budget) => {
            let left = coins.iter().find(|coin| coin.denom == chain.params.denom);
            let left = left.and_then(|coin| coin.amount.parse().ok()).unwrap_or(0);
            budget.min(FeeBudget::UpTo(left))
        }
    });
    Ok(AgentGrant { participant, expires_at, corporation, budget, refills_at })
}

/// Reads the authorizations of an account, of one corporation or with 0 of all.
pub(crate) async fn read_authorizations(
    node: &NodeClient,
    chain: &RegistryChain,
    corporation_id: u64,
    account: &str,
) -> Result<Vec<VsOperatorAuthorization>, NodeClientError> {
    let request = QueryListVsOperatorAuthorizationsRequest {
        corporation_id,
        vs_operator: account.to_owned(),
        response_max_size: LIST_LIMIT,
    };
    let path = chain.registry.namespace().query_path("de", "ListVSOperatorAuthorizations");
    let found: QueryListVsOperatorAuthorizationsResponse = node.query(&path, &request, 0).await?;
    Ok(require_whole(&path, found.vs_operator_authorizations)?)
}

/// Reads the account of a corporation; empty when the node knows no such corporation.
pub(crate) async fn read_corporation_account(
    node: &NodeClient,
    chain: &RegistryChain,
    corporation_id: u64,
) -> Result<String, NodeClientError> {
    let request = QueryGetCorporationRequest { corporation_id, ..QueryGetCorporationRequest::default() };
    let path = chain.registry.namespace().query_path("co", "GetCorporation");
    let found: QueryGetCorporationResponse = node.query(&path, &request, 0).await?;
    Ok(found.corporation.map(|one| one.policy_address).unwrap_or_default())
}
