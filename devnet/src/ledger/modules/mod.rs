//! The modules: each a file or folder with its stateless checks and its messages. Quirks of the chain are kept, and named
//! where they stand.

use prost::Message;
use prost_types::Any;
use svc_wire::proto::svc::pp::v1 as participants;

use super::{
    error::LedgerError,
    exec::{Chain, Exec, any},
};

pub mod auth;
pub mod bank;
pub mod co;
pub mod cs;
pub mod de;
pub mod di;
pub mod ec;
pub mod feegrant;
pub mod gf;
pub mod gov;
pub mod group;
pub mod pp;
pub mod td;
pub mod xr;

fn decode<M: Message + Default>(message: &Any) -> Result<M, LedgerError> {
    M::decode(message.value.as_slice()).map_err(|error| LedgerError::sdk(2, error))
}

/// Splits a type URL into (module or platform package, message name).
fn route<'a>(chain: &Chain, url: &'a str) -> Option<(&'a str, &'a str)> {
    chain.namespace().split_url(url).or_else(|| url.strip_prefix('/')?.rsplit_once('.'))
}

/// The account that acts for governance.
pub fn authority_address(chain: &Chain) -> String {
    bank::module_address(chain, "gov")
}

/// Only governance may send some messages; another sender gets the module's own error.
fn authority(exec: &Exec<'_>, sender: &str, error: (&'static str, u32)) -> Result<(), LedgerError> {
    let expected = authority_address(exec.chain);
    if sender == expected {
        return Ok(());
    }
    let text = format!(
        "invalid authority; expected {expected}, got {sender}: expected gov account as only signer for proposal message"
    );
    Err(LedgerError::new(error.0, error.1, text))
}

/// All messages with their handlers and stateless checks, in one table.
macro_rules! routes {
    ($($module:literal { $($name:literal => $handler:path $(, $check:expr)?;)* })*) => {
        /// Stateless checks of a message.
        pub fn validate(chain: &Chain, message: &Any) -> Result<(), LedgerError> {
            match route(chain, &message.type_url) {
                $($($(Some(($module, $name)) => ($check)(chain, &decode(message)?),)?)*)*
                _ => Ok(()),
            }
        }

        /// Runs a message and packs its response.
        pub fn run(exec: &mut Exec<'_>, message: &Any) -> Result<Any, LedgerError> {
            let response_url = format!("{}Response", message.type_url);
            match route(exec.chain, &message.type_url) {
                $($(Some(($module, $name)) => Ok(any(response_url, &$handler(exec, decode(message)?)?)),)*)*
                _ => Err(LedgerError::sdk(6, format!("no message handler found for {}", message.type_url))),
            }
        }

        /// Whether there is a handler for a message type.
        pub fn is_routed(chain: &Chain, url: &str) -> bool {
            matches!(route(chain, url), $($(Some(($module, $name)))|*)|*)
        }
    };
}

routes! {
    "co" {
        "MsgCreateCorporation" => co::create, co::validate_create;
        "MsgUpdateCorporation" => co::update, co::validate_update;
        "MsgUpdateParams" => co::update_params;
    }
    "ec" {
        "MsgCreateEcosystem" => ec::create, ec::validate_create;
        "MsgUpdateEcosystem" => ec::update, ec::validate_update;
        "MsgArchiveEcosystem" => ec::archive, ec::validate_archive;
        "MsgUpdateParams" => ec::update_params;
    }
    "gf" {
        "MsgAddGovernanceFrameworkDocument" => gf::add_document, gf::validate_add;
        "MsgIncreaseActiveGovernanceFrameworkVersion" => gf::increase_active, gf::validate_increase;
        "MsgUpdateParams" => gf::update_params;
    }
    "cs" {
        "MsgCreateCredentialSchema" => cs::create, cs::validate_create;
        "MsgUpdateCredentialSchema" => cs::update, cs::validate_update;
        "MsgArchiveCredentialSchema" => cs::archive, cs::validate_archive;
        "MsgCreateSchemaAuthorizationPolicy" => cs::policy::create, cs::policy::validate_create;
        "MsgIncreaseActiveSchemaAuthorizationPolicyVersion" => cs::policy::increase, cs::policy::validate_increase;
        "MsgRevokeSchemaAuthorizationPolicy" => cs::policy::revoke, cs::policy::validate_revoke;
        "MsgUpdateParams" => cs::update_params;
    }
    "pp" {
        "MsgStartParticipantOP" => pp::start, pp::validate_start;
        "MsgRenewParticipantOP" => pp::renew,
            |chain, m: &participants::MsgRenewParticipantOp| pp::validate_id(chain, &m.corporation, &m.operator, m.id);
        "MsgSetParticipantOPToValidated" => pp::set_validated, pp::validate_set_validated;
        "MsgCancelParticipantOPLastRequest" => pp::cancel,
            |chain, m: &participants::MsgCancelParticipantOpLastRequest| {
                pp::validate_id(chain, &m.corporation, &m.operator, m.id)
            };
        "MsgCreateRootParticipant" => pp::create_root, pp::validate_create_root;
        "MsgSelfCreateParticipant" => pp::self_create, pp::validate_self_create;
        "MsgSetParticipantEffectiveUntil" => pp::set_effective_until, pp::validate_set_effective_until;
        "MsgRevokeParticipant" => pp::revoke,
            |chain, m: &participants::MsgRevokeParticipant| pp::validate_id(chain, &m.corporation, &m.operator, m.id);
        "MsgSlashParticipantTrustDeposit" => pp::slash, pp::validate_slash;
        "MsgRepayParticipantSlashedTrustDeposit" => pp::repay,
            |chain, m: &participants::MsgRepayParticipantSlashedTrustDeposit| {
                pp::validate_id(chain, &m.corporation, &m.operator, m.id)
            };
        "MsgCreateOrUpdateParticipantSession" => pp::create_or_update, pp::validate_session;
        "MsgTriggerResolver" => pp::trigger,
            |chain, m: &participants::MsgTriggerResolver| pp::validate_id(chain, &m.corporation, &m.operator, m.id);
        "MsgUpdateParams" => pp::update_params;
    }
    "td" {
        "MsgReclaimTrustDepositYield" => td::reclaim, td::validate_reclaim;
        "MsgRepaySlashedTrustDeposit" => td::repay, td::validate_repay;
        "MsgSlashTrustDeposit" => td::slash, td::validate_slash;
        "MsgUpdateParams" => td::update_params;
    }
    "de" {
        "MsgGrantOperatorAuthorization" => de::grant, de::validate_grant;
        "MsgRevokeOperatorAuthorization" => de::revoke, de::validate_revoke;
        "MsgUpdateParams" => de::update_params;
    }
    "di" {
        "MsgStoreDigest" => di::store, di::validate_store;
        "MsgUpdateParams" => di::update_params;
    }
    "xr" {
        "MsgCreateExchangeRate" => xr::create, xr::validate_create;
        "MsgUpdateExchangeRate" => xr::update, xr::validate_update;
        "MsgSetExchangeRateState" => xr::set_state;
        "MsgGrantExchangeRateAuthorization" => xr::grant;
        "MsgRevokeExchangeRateAuthorization" => xr::revoke;
        "MsgUpdateParams" => xr::update_params;
    }
    "cosmos.bank.v1beta1" {
        "MsgSend" => bank::send, bank::validate_send;
    }
    "cosmos.feegrant.v1beta1" {
        "MsgGrantAllowance" => feegrant::grant;
        "MsgRevokeAllowance" => feegrant::revoke;
    }
    "cosmos.group.v1" {
        "MsgSubmitProposal" => group::submit, group::validate_submit;
        "MsgVote" => group::vote;
        "MsgExec" => group::exec;
        "MsgWithdrawProposal" => group::withdraw;
        "MsgUpdateGroupMembers" => group::update_members;
        "MsgUpdateGroupMetadata" => group::update_metadata;
        "MsgUpdateGroupPolicyDecisionPolicy" => group::update_decision_policy;
        "MsgUpdateGroupPolicyMetadata" => group::update_policy_metadata;
        "MsgLeaveGroup" => group::leave;
    }
    "cosmos.gov.v1" {
        "MsgSubmitProposal" => gov::submit, gov::validate_submit;
        "MsgVote" => gov::vote;
        "MsgDeposit" => gov::deposit;
    }
}
