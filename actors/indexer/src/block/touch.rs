//! Which entities an event of the chain says have changed.

use svc_wire::comet::AbciEvent;

use super::{BlockFacts, Cause, number, unquoted};

/// An entity whose state after the block is read from the node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Touched {
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
    /// By granter's policy address and grantee.
    FeeAllowance {
        granter: String,
        grantee: String,
    },
    /// The group of a corporation, by its policy's address.
    Group {
        corporation_id: u64,
        policy: String,
    },
    Proposal(u64),
    /// Parameters of a module.
    Params(&'static str),
}

/// An entity, or several, that only what is stored can name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loose {
    /// A corporation by its policy address.
    CorporationAt(String),
    /// A group by its policy's address.
    GroupAt(String),
    /// A group by its id.
    GroupId(u64),
    /// Participants up the chain from this one: they are paid, and their deposits grow.
    Ancestors(u64),
}

/// Modules whose parameters are kept.
pub const PARAMETERS: [&str; 9] = ["co", "cs", "de", "di", "ec", "gf", "pp", "td", "xr"];

/// Id of a module's parameters in the store.
pub fn parameters_id(module: &str) -> u64 {
    (0..).zip(PARAMETERS).find(|(_, known)| *known == module).map_or(0, |(place, _)| place + 1)
}

impl BlockFacts {
    /// Notes an entity to be read.
    pub fn note(&mut self, touched: Touched, cause: &Cause) {
        let causes = self.touched.entry(touched).or_default();
        if causes.last() != Some(cause) {
            causes.push(cause.clone());
        }
    }

    pub(super) fn touch(&mut self, event: &AbciEvent, cause: &Cause) {
        let id = |key: &str| number(event, key);
        let text = |key: &str| event.get(key).map(unquoted).filter(|text| !text.is_empty()).map(str::to_owned);
        let mut found: Vec<Option<Touched>> = Vec::new();
        match event.kind.as_str() {
            "create_corporation" => {
                let policy = text("policy_address");
                found.push(id("corporation_id").map(Touched::Corporation));
                found.push(
                    id("corporation_id")
                        .zip(policy)
                        .map(|(corporation_id, policy)| Touched::Group { corporation_id, policy }),
                );
            }
            "update_corporation" => found.push(id("corporation_id").map(Touched::Corporation)),
            "create_ecosystem" | "update_ecosystem" | "archive_ecosystem" => {
                found.push(id("ecosystem_id").map(Touched::Ecosystem));
            }
            "add_gf_document" | "increase_active_gf_version" => match (id("ecosystem_id"), text("corporation")) {
                (Some(ecosystem), _) => found.push(Some(Touched::Ecosystem(ecosystem))),
                // Named by id at creation; later by the policy address.
                (None, Some(address)) => self.loose.push((Loose::CorporationAt(address), cause.clone())),
                (None, None) => found.push(id("corporation_id").map(Touched::Corporation)),
            },
            "create_credential_schema" | "update_credential_schema" | "archive_credential_schema" => {
                found.push(id("credential_schema_id").map(Touched::Schema));
            }
            "create_root_participant" => found.push(id("root_participant_id").map(Touched::Participant)),
            "start_participant_op"
            | "create_participant"
            | "renew_participant_op"
            | "set_participant_op_to_validated"
            | "set_participant_effective_until"
            | "revoke_participant"
            | "slash_participant_trust_deposit"
            | "repay_participant_slashed_trust_deposit"
            | "cancel_participant_op_last_request"
            | "trigger_resolver" => found.push(id("participant_id").map(Touched::Participant)),
            "create_update_csps" => {
                found.push(text("session_id").map(Touched::Session));
                for key in ["issuer_participant_id", "verifier_participant_id"] {
                    self.loose.extend(id(key).map(|id| (Loose::Ancestors(id), cause.clone())));
                }
                for key in [
                    "issuer_participant_id",
                    "verifier_participant_id",
                    "agent_participant_id",
                    "wallet_agent_participant_id",
                ] {
                    found.push(id(key).map(Touched::Participant));
                }
            }
            "adjust_trust_deposit"
            | "slash_trust_deposit"
            | "burn_ecosystem_slashed_trust_deposit"
            | "reclaim_trust_deposit_yield"
            | "repay_slashed_trust_deposit" => found.push(id("corporation_id").map(Touched::TrustDeposit)),
            "store_digest" => found.push(text("digest").map(Touched::Digest)),
            "create_exchange_rate" | "update_exchange_rate" | "set_exchange_rate_state" => {
                found.push(id("id").map(Touched::ExchangeRate));
            }
            "grant_operator_authorization" | "revoke_operator_authorization" | "operator_authorization_updated" => {
                found.push(id("authz_id").map(Touched::OperatorAuthorization));
            }
            "grant_vs_operator_authorization"
            | "revoke_vs_operator_authorization"
            | "update_vs_operator_authorization"
            | "vs_operator_authorization_updated" => {
                found.push(id("vsoa_id").map(Touched::VsOperatorAuthorization));
            }
            "set_feegrant" | "use_feegrant" | "revoke_feegrant" => found.push(
                text("granter")
                    .zip(text("grantee"))
                    .map(|(granter, grantee)| Touched::FeeAllowance { granter, grantee }),
            ),
            "grant_fee_allowance" => self.granted_fees.extend(text("corporation_id").zip(text("grantee"))),
            "cosmos.group.v1.EventUpdateGroup" | "cosmos.group.v1.EventLeaveGroup" => {
                self.loose.extend(id("group_id").map(|id| (Loose::GroupId(id), cause.clone())));
            }
            "cosmos.group.v1.EventUpdateGroupPolicy" => {
                self.loose.extend(text("address").map(|address| (Loose::GroupAt(address), cause.clone())));
            }
            "cosmos.group.v1.EventSubmitProposal"
            | "cosmos.group.v1.EventVote"
            | "cosmos.group.v1.EventExec"
            | "cosmos.group.v1.EventWithdrawProposal"
            | "cosmos.group.v1.EventProposalPruned" => found.push(id("proposal_id").map(Touched::Proposal)),
            // The yield moves the value of a share; a proposal of the chain's governance may have moved anything.
            "yield_distribution" => found.push(Some(Touched::Params("td"))),
            "active_proposal" => found.extend(PARAMETERS.map(|module| Some(Touched::Params(module)))),
            _ => {}
        }
        for one in found.into_iter().flatten() {
            self.note(one, cause);
        }
    }
}
