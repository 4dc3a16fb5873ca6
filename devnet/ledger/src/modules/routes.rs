//! The message table: every message type with its stateless check and its handler.

use prost::Message;
use prost_types::Any;
use svc_wire::proto::svc::pp::v1 as participants;

use super::{
    bank, co, council, cs, de, di, ec, feegrant, gf, gov, group, pp, renumbered::with_older_numbers,
    router::MessageRouter, td, xr,
};
use crate::{chain::ChainConfig, context::ExecContext, error::LedgerError, values::any::pack_any};

fn decode<M: Message + Default>(message: &Any) -> Result<M, LedgerError> {
    M::decode(message.value.as_slice()).map_err(|error| LedgerError::sdk(2, error))
}

/// Splits a type URL into (registry module or SDK package, message name).
fn split_route<'a>(chain: &ChainConfig, url: &'a str) -> Option<(&'a str, &'a str)> {
    chain.namespace().split_type_url(url).or_else(|| url.strip_prefix('/')?.rsplit_once('.'))
}

/// Whether the node has no message that its descriptors here have: a council has the place of governance, or governance that of a council.
fn is_gone(chain: &ChainConfig, url: &str) -> bool {
    match chain.has_council() {
        true => url.starts_with("/cosmos.gov."),
        false => chain.namespace().split_type_url(url).is_some_and(|(module, _)| module == "poa"),
    }
}

/// The routes, for the modules gov and group.
pub static ROUTER: MessageRouter = MessageRouter { validate, run, is_routed };

/// Generates the three functions from one table, so that they cannot disagree.
macro_rules! routes {
    ($($module:literal { $($name:literal => $handler:expr $(, $check:expr)?;)* })*) => {
        /// Runs the stateless checks of a message.
        pub fn validate(chain: &ChainConfig, message: &Any) -> Result<(), LedgerError> {
            if is_gone(chain, &message.type_url) {
                return Err(LedgerError::sdk(2, format!("unable to resolve type URL {}", message.type_url)));
            }
            match split_route(chain, &message.type_url) {
                $($($(Some(($module, $name)) => ($check)(chain, &decode(message)?),)?)*)*
                _ => Ok(()),
            }
        }

        /// Runs a message and packs its response.
        pub fn run(exec: &mut ExecContext<'_>, message: &Any) -> Result<Any, LedgerError> {
            let response_url = format!("{}Response", message.type_url);
            let older = with_older_numbers(exec.chain, message)?;
            let message = older.as_ref().unwrap_or(message);
            match split_route(exec.chain, &message.type_url) {
                $($(Some(($module, $name)) => Ok(pack_any(response_url, &($handler)(exec, decode(message)?)?)),)*)*
                _ => Err(LedgerError::sdk(6, format!("no message handler found for {}", message.type_url))),
            }
        }

        /// Tells whether a type URL has a handler.
        fn is_routed(chain: &ChainConfig, url: &str) -> bool {
            matches!(split_route(chain, url), $($(Some(($module, $name)))|*)|*)
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
        "MsgCreateOrUpdateParticipantSession" => pp::create_or_update_session, pp::validate_session;
        "MsgTriggerResolver" => pp::trigger_resolver,
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
    "poa" {
        "MsgAddValidator" => council::add_validator;
        "MsgRemoveValidator" => council::remove_validator;
        "MsgSelfRemoveValidator" => council::self_remove_validator;
    }
    "cosmos.bank.v1beta1" {
        "MsgSend" => bank::send, bank::validate_send;
    }
    "cosmos.feegrant.v1beta1" {
        "MsgGrantAllowance" => feegrant::grant;
        "MsgRevokeAllowance" => feegrant::revoke;
    }
    "cosmos.group.v1" {
        "MsgSubmitProposal" => |exec, m| group::submit(exec, m, &ROUTER), |chain, m| group::validate_submit(chain, m, &ROUTER);
        "MsgVote" => |exec, m| group::vote(exec, m, &ROUTER);
        "MsgExec" => |exec, m| group::exec(exec, m, &ROUTER);
        "MsgWithdrawProposal" => group::withdraw;
        "MsgUpdateGroupMembers" => group::update_members;
        "MsgUpdateGroupMetadata" => group::update_metadata;
        "MsgUpdateGroupPolicyDecisionPolicy" => group::update_decision_policy;
        "MsgUpdateGroupPolicyMetadata" => group::update_policy_metadata;
        "MsgLeaveGroup" => group::leave;
    }
    "cosmos.gov.v1" {
        "MsgSubmitProposal" => |exec, m| gov::submit(exec, m, &ROUTER), |chain, m| gov::validate_submit(chain, m, &ROUTER);
        "MsgVote" => gov::vote;
        "MsgDeposit" => gov::deposit;
    }
}
