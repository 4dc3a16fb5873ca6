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

    pub(super) fn record_event_entities(&mut self, event: &AbciEvent, cause: &ChangeCause) {
        let id = |key: &str| parse_id(event, key);
        let text = |key: &str| event.get(key).map(strip_quotes).filter(|text| !text.is_empty()).map(str::to_owned);
        let unresolved = |entity| UnresolvedChange { entity, cause: cause.clone() };
        let mut found: Vec<Option<EntityRef>> = Vec::new();
        match event.event_type.as_str() {
            "create_corporation" => {
                let policy = text("policy_address");
                found.push(id("corporation_id").map(EntityRef::Corporation));
                found.push(
                    id("corporation_id")
                        .zip(policy)
                        .map(|(corporation_id, policy)| EntityRef::Group { corporation_id, policy }),
                );
            }
            "update_corporation" => found.push(id("corporation_id").map(EntityRef::Corporation)),
            "create_ecosystem" | "update_ecosystem" | "archive_ecosystem" => {
                found.push(id("ecosystem_id").map(EntityRef::Ecosystem));
            }
            "add_gf_document" | "increase_active_gf_version" => match (id("ecosystem_id"), text("corporation")) {
                (Some(ecosystem), _) => found.push(Some(EntityRef::Ecosystem(ecosystem))),
                // The event of a creation names the corporation by id, a later one by the policy address.
                (None, Some(address)) => {
                    self.unresolved.push(unresolved(UnresolvedRef::CorporationByPolicy(address)));
                }
                (None, None) => found.push(id("corporation_id").map(EntityRef::Corporation)),
            },
            "create_credential_schema" | "update_credential_schema" | "archive_credential_schema" => {
                found.push(id("credential_schema_id").map(EntityRef::Schema));
            }
            "create_root_participant" => found.push(id("root_participant_id").map(EntityRef::Participant)),
            "start_participant_op"
            | "create_participant"
            | "renew_participant_op"
            | "set_participant_op_to_validated"
            | "set_participant_effective_until"
            | "revoke_participant"
            | "slash_participant_trust_deposit"
            | "repay_participant_slashed_trust_deposit"
            | "cancel_participant_op_last_request"
            | "trigger_resolver" => found.push(id("participant_id").map(EntityRef::Participant)),
            "create_update_csps" => {
                found.push(text("session_id").map(EntityRef::Session));
                for key in ["issuer_participant_id", "verifier_participant_id"] {
                    self.unresolved.extend(id(key).map(|id| unresolved(UnresolvedRef::AncestorsOf(id))));
                }
                for key in [
                    "issuer_participant_id",
                    "verifier_participant_id",
                    "agent_participant_id",
                    "wallet_agent_participant_id",
                ] {
                    found.push(id(key).map(EntityRef::Participant));
                }
            }
            "adjust_trust_deposit"
            | "slash_trust_deposit"
            | "burn_ecosystem_slashed_trust_deposit"
            | "reclaim_trust_deposit_yield"
            | "repay_slashed_trust_deposit" => found.push(id("corporation_id").map(EntityRef::TrustDeposit)),
            "store_digest" => found.push(text("digest").map(EntityRef::Digest)),
            "create_exchange_rate" | "update_exchange_rate" | "set_exchange_rate_state" => {
                found.push(id("id").map(EntityRef::ExchangeRate));
            }
            "grant_operator_authorization" | "revoke_operator_authorization" | "operator_authorization_updated" => {
                found.push(id("authz_id").map(EntityRef::OperatorAuthorization));
            }
            "grant_vs_operator_authorization"
            | "revoke_vs_operator_authorization"
            | "update_vs_operator_authorization"
            | "vs_operator_authorization_updated" => {
                found.push(id("vsoa_id").map(EntityRef::VsOperatorAuthorization));
            }
            "set_feegrant" | "use_feegrant" | "revoke_feegrant" => found.push(
                text("granter")
                    .zip(text("grantee"))
                    .map(|(granter, grantee)| EntityRef::FeeAllowance { granter, grantee }),
            ),
            "grant_fee_allowance" => self.new_allowances.extend(
                id("corporation_id")
                    .zip(text("grantee"))
                    .map(|(corporation_id, grantee)| NewAllowance { corporation_id, grantee }),
            ),
            "cosmos.group.v1.EventUpdateGroup" | "cosmos.group.v1.EventLeaveGroup" => {
                self.unresolved.extend(id("group_id").map(|id| unresolved(UnresolvedRef::GroupById(id))));
            }
            "cosmos.group.v1.EventUpdateGroupPolicy" => {
                self.unresolved
                    .extend(text("address").map(|address| unresolved(UnresolvedRef::GroupByPolicy(address))));
            }
            "cosmos.group.v1.EventSubmitProposal"
            | "cosmos.group.v1.EventVote"
            | "cosmos.group.v1.EventExec"
            | "cosmos.group.v1.EventWithdrawProposal"
            | "cosmos.group.v1.EventProposalPruned" => found.push(id("proposal_id").map(EntityRef::Proposal)),
            // The yield changes the value of a share. A proposal of the chain's governance can change any parameter.
            "yield_distribution" => found.push(Some(EntityRef::Params("td"))),
            "active_proposal" => found.extend(PARAMETER_MODULES.map(|module| Some(EntityRef::Params(module)))),
            _ => {}
        }
        for one in found.into_iter().flatten() {
            self.record_entity(one, cause);
        }
    }
}
