//! The modules: each a file with its stateless checks, its messages and its queries.

use prost::Message;
use prost_types::Any;

use super::{
    error::LedgerError,
    exec::{Chain, Exec, any},
};

pub mod auth;
pub mod bank;
pub mod co;
pub mod de;
pub mod ec;
pub mod feegrant;
pub mod gf;
pub mod group;

fn decode<M: Message + Default>(message: &Any) -> Result<M, LedgerError> {
    M::decode(message.value.as_slice()).map_err(|error| LedgerError::sdk(2, error))
}

/// Splits a type URL into (module or platform package, message name).
fn route<'a>(chain: &Chain, url: &'a str) -> Option<(&'a str, &'a str)> {
    chain.namespace().split_url(url).or_else(|| url.strip_prefix('/')?.rsplit_once('.'))
}

/// Stateless checks of a message.
pub fn validate(chain: &Chain, message: &Any) -> Result<(), LedgerError> {
    match route(chain, &message.type_url) {
        Some(("co", "MsgCreateCorporation")) => co::validate_create(chain, &decode(message)?),
        Some(("co", "MsgUpdateCorporation")) => co::validate_update(chain, &decode(message)?),
        Some(("ec", "MsgCreateEcosystem")) => ec::validate_create(chain, &decode(message)?),
        Some(("ec", "MsgUpdateEcosystem")) => ec::validate_update(chain, &decode(message)?),
        Some(("ec", "MsgArchiveEcosystem")) => ec::validate_archive(chain, &decode(message)?),
        Some(("gf", "MsgAddGovernanceFrameworkDocument")) => gf::validate_add(chain, &decode(message)?),
        Some(("gf", "MsgIncreaseActiveGovernanceFrameworkVersion")) => gf::validate_increase(chain, &decode(message)?),
        Some(("de", "MsgGrantOperatorAuthorization")) => de::validate_grant(chain, &decode(message)?),
        Some(("de", "MsgRevokeOperatorAuthorization")) => de::validate_revoke(chain, &decode(message)?),
        Some(("cosmos.bank.v1beta1", "MsgSend")) => bank::validate_send(chain, &decode(message)?),
        Some(("cosmos.group.v1", "MsgSubmitProposal")) => group::validate_submit(chain, &decode(message)?),
        _ => Ok(()),
    }
}

/// Runs a message and packs its response.
pub fn run(exec: &mut Exec<'_>, message: &Any) -> Result<Any, LedgerError> {
    let response_url = format!("{}Response", message.type_url);
    macro_rules! reply {
        ($handler:expr) => {{
            let response = $handler(exec, decode(message)?)?;
            Ok(any(response_url, &response))
        }};
    }
    match route(exec.chain, &message.type_url) {
        Some(("co", "MsgCreateCorporation")) => reply!(co::create),
        Some(("co", "MsgUpdateCorporation")) => reply!(co::update),
        Some(("ec", "MsgCreateEcosystem")) => reply!(ec::create),
        Some(("ec", "MsgUpdateEcosystem")) => reply!(ec::update),
        Some(("ec", "MsgArchiveEcosystem")) => reply!(ec::archive),
        Some(("gf", "MsgAddGovernanceFrameworkDocument")) => reply!(gf::add_document),
        Some(("gf", "MsgIncreaseActiveGovernanceFrameworkVersion")) => reply!(gf::increase_active),
        Some(("de", "MsgGrantOperatorAuthorization")) => reply!(de::grant),
        Some(("de", "MsgRevokeOperatorAuthorization")) => reply!(de::revoke),
        Some(("cosmos.bank.v1beta1", "MsgSend")) => reply!(bank::send),
        Some(("cosmos.feegrant.v1beta1", "MsgGrantAllowance")) => reply!(feegrant::grant),
        Some(("cosmos.feegrant.v1beta1", "MsgRevokeAllowance")) => reply!(feegrant::revoke),
        Some(("cosmos.group.v1", "MsgSubmitProposal")) => reply!(group::submit),
        Some(("cosmos.group.v1", "MsgVote")) => reply!(group::vote),
        Some(("cosmos.group.v1", "MsgExec")) => reply!(group::exec),
        Some(("cosmos.group.v1", "MsgWithdrawProposal")) => reply!(group::withdraw),
        _ => Err(LedgerError::sdk(6, format!("no message handler found for {}", message.type_url))),
    }
}
