//! The entities that an event of the chain changes. Pure.

use svc_wire::comet_rpc::AbciEvent;

use super::{BlockFacts, ChangeCause, NewAllowance, UnresolvedChange, parse_id, strip_quotes};

/// A reference to an entity that is read from the node after the block.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntityRef {
    Corporation(u64),
    Ecosystem(u64),
    Schema(u64),
    Participant(u64),
    Session(String),
    TrustDeposit(u64),
    Digest(String),
    ExchangeRate(u64),
    OperatorAuthorization(u64),
    VsOperatorAuthorization(u64),
    /// An allowance by the policy address of its granter and its grantee.
    FeeAllowance {
        granter: String,
        grantee: String,
    },
    /// The group of a corporation, by the address of its policy.
    Group {
        corporation_id: u64,
        policy: String,
    },
    Proposal(u64),
    /// Parameters of a module.
    Params(&'static str),
}

/// A reference to one or more entities that only the store can resolve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnresolvedRef {
    /// A corporation by its policy address.
    CorporationByPolicy(String),
    /// A group by the address of its policy.
    GroupByPolicy(String),
    /// A group by its id.
    GroupById(u64),
    /// The validators above a participant: the chain pays them, and their deposits grow.
    AncestorsOf(u64),
    /// Authorizations of VS operators that still have the form of an earlier release: an upgrade changes them without an event.
    OlderVsOperatorAuthorizations,
}

/// Modules with stored parameters.
pub const PARAMETER_MODULES: [&str; 9] = ["co", "cs", "de", "di", "ec", "gf", "pp", "td", "xr"];

/// Returns the id of a module's parameters in the store.
pub fn parameters_id(module: &str) -> u64 {
    (1..).zip(PARAMETER_MODULES).find(|(_, known)| *known == module).map_or(0, |(id, _)| id)
}

impl BlockFacts {
    /// Records an entity to be read, with the cause of its change.
    pub fn record_entity(&mut self, touched: EntityRef, cause: &ChangeCause) {
        let causes = self.entities.entry(touched).or_default();
        if causes.last() != Some(cause) {
            causes.push(cause.clone());
        }
    }

    /// Records the parameters of every module to be read, for a cause that no transaction is.
    pub fn record_params(&mut self, message: &str) {
        let cause = ChangeCause { message: message.to_owned(), account: None };
        for module in PARAMETER_MODULES {
            self.record_entity(EntityRef::Params(module), &cause);
        }
    }

    /// Records the entities that an upgrade changes without an event. Records with spend cycles have neither a cap of fees nor an end of
    /// their own.
    pub fn record_upgrade(&mut self, has_spend_cycles: bool) {
        const UPGRADE: &str = "Upgrade";
        self.record_params(UPGRADE);
        if has_spend_cycles {
            let cause = ChangeCause { message: UPGRADE.to_owned(), account: None };
            self.unresolved.push(UnresolvedChange { entity: UnresolvedRef::OlderVsOperatorAuthorizations, cause });
        }
    }

    /// Records the entities that an event changes: by name, or as a question that only the store can answer.
    pub(super) fn record_event_entities(&mut self, event: &AbciEvent, cause: &ChangeCause) {
        for entity in named_entities(event) {
            self.record_entity(entity, cause);
        }
        let unresolved = unresolved_entities(event);
        self.unresolved.extend(unresolved.into_iter().map(|entity| UnresolvedChange { entity, cause: cause.clone() }));
        self.new_allowances.extend(new_allowance(event));
    }
}

/// A text of an event; none where it is empty.
fn text_of(event: &AbciEvent, key: &str) -> Option<String> {
    event.get(key).map(strip_quotes).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The entities that an event names.
pub fn named_entities(event: &AbciEvent) -> Vec<EntityRef> {
    let id = |key: &str| parse_id(event, key);
    let text = |key: &str| text_of(event, key);
    let found = match event.event_type.as_str() {
        "create_corporation" => {
            let group = id("corporation_id").zip(text("policy_address"));
            let group = group.map(|(corporation_id, policy)| EntityRef::Group { corporation_id, policy });
            return id("corporation_id").map(EntityRef::Corporation).into_iter().chain(group).collect();
        }
        "update_corporation" => id("corporation_id").map(EntityRef::Corporation),
        "create_ecosystem" | "update_ecosystem" | "archive_ecosystem" => id("ecosystem_id").map(EntityRef::Ecosystem),
        "add_gf_document" | "increase_active_gf_version" => match (id("ecosystem_id"), text("corporation")) {
            (Some(ecosystem), _) => Some(EntityRef::Ecosystem(ecosystem)),
            // The event of a creation names the corporation by id, a later one by the policy address.
            (None, Some(_)) => None,
            (None, None) => id("corporation_id").map(EntityRef::Corporation),
        },
        "create_credential_schema" | "update_credential_schema" | "archive_credential_schema" => {
            id("credential_schema_id").map(EntityRef::Schema)
        }
        "create_root_participant" => id("root_participant_id").map(EntityRef::Participant),
        "start_participant_op"
        | "create_participant"
        | "renew_participant_op"
        | "set_participant_op_to_validated"
        | "set_participant_effective_until"
        | "revoke_participant"
        | "slash_participant_trust_deposit"
        | "repay_participant_slashed_trust_deposit"
        | "cancel_participant_op_last_request"
        | "trigger_resolver" => id("participant_id").map(EntityRef::Participant),
        "create_update_csps" => {
            let keys = [
                "issuer_participant_id",
                "verifier_participant_id",
                "agent_participant_id",
                "wallet_agent_participant_id",
            ];
            let participants = keys.into_iter().filter_map(|key| id(key).map(EntityRef::Participant));
            return text("session_id").map(EntityRef::Session).into_iter().chain(participants).collect();
        }
        "adjust_trust_deposit"
        | "slash_trust_deposit"
        | "burn_ecosystem_slashed_trust_deposit"
        | "reclaim_trust_deposit_yield"
        | "repay_slashed_trust_deposit" => id("corporation_id").map(EntityRef::TrustDeposit),
        "store_digest" => text("digest").map(EntityRef::Digest),
        "create_exchange_rate" | "update_exchange_rate" | "set_exchange_rate_state" => {
            id("id").map(EntityRef::ExchangeRate)
        }
        "grant_operator_authorization" | "revoke_operator_authorization" | "operator_authorization_updated" => {
            id("authz_id").map(EntityRef::OperatorAuthorization)
        }
        "grant_vs_operator_authorization"
        | "revoke_vs_operator_authorization"
        | "update_vs_operator_authorization"
        | "vs_operator_authorization_updated" => id("vsoa_id").map(EntityRef::VsOperatorAuthorization),
        "set_feegrant" | "use_feegrant" | "revoke_feegrant" => {
            let named = text("granter").zip(text("grantee"));
            named.map(|(granter, grantee)| EntityRef::FeeAllowance { granter, grantee })
        }
        "cosmos.group.v1.EventSubmitProposal"
        | "cosmos.group.v1.EventVote"
        | "cosmos.group.v1.EventExec"
        | "cosmos.group.v1.EventWithdrawProposal"
        | "cosmos.group.v1.EventProposalPruned" => id("proposal_id").map(EntityRef::Proposal),
        // The yield changes the value of a share. A proposal of the chain's governance can change any parameter.
        "yield_distribution" => Some(EntityRef::Params("td")),
        "active_proposal" => return PARAMETER_MODULES.map(EntityRef::Params).into(),
        _ => None,
    };
    found.into_iter().collect()
}

/// The entities that an event changes without their ids.
fn unresolved_entities(event: &AbciEvent) -> Vec<UnresolvedRef> {
    let id = |key: &str| parse_id(event, key);
    let found = match event.event_type.as_str() {
        "add_gf_document" | "increase_active_gf_version" if id("ecosystem_id").is_none() => {
            text_of(event, "corporation").map(UnresolvedRef::CorporationByPolicy)
        }
        "create_update_csps" => {
            let keys = ["issuer_participant_id", "verifier_participant_id"];
            return keys.into_iter().filter_map(|key| id(key).map(UnresolvedRef::AncestorsOf)).collect();
        }
        "cosmos.group.v1.EventUpdateGroup" | "cosmos.group.v1.EventLeaveGroup" => {
            id("group_id").map(UnresolvedRef::GroupById)
        }
        "cosmos.group.v1.EventUpdateGroupPolicy" => text_of(event, "address").map(UnresolvedRef::GroupByPolicy),
        _ => None,
    };
    found.into_iter().collect()
}

/// The allowance that a corporation has granted by an event.
fn new_allowance(event: &AbciEvent) -> Option<NewAllowance> {
    if event.event_type != "grant_fee_allowance" {
        return None;
    }
    let (corporation_id, grantee) = parse_id(event, "corporation_id").zip(text_of(event, "grantee"))?;
    Some(NewAllowance { corporation_id, grantee })
}
