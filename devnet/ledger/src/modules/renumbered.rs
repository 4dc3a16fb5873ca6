//! Parameters whose fields have other numbers from 0.10.4 on. The state keeps the older form of all generations.

use prost::Message;
use prost_types::Any;
use svc_wire::proto::svc::{cs, td};

use crate::{chain::ChainConfig, error::LedgerError};

/// Parameters of trust deposits.
#[derive(Clone, PartialEq, Message)]
pub struct TrustDepositParams {
    #[prost(string, tag = "1")]
    share_value: String,
    #[prost(string, tag = "2")]
    rate: String,
    #[prost(string, tag = "3")]
    wallet_user_agent_reward_rate: String,
    #[prost(string, tag = "4")]
    user_agent_reward_rate: String,
    #[prost(string, tag = "5")]
    max_yield_rate: String,
    #[prost(string, tag = "6")]
    block_reward_share: String,
}

/// Parameters of schemas.
#[derive(Clone, PartialEq, Message)]
pub struct SchemaParams {
    #[prost(uint64, tag = "1")]
    schema_max_size: u64,
    #[prost(uint32, tag = "2")]
    issuer_grantor_max_days: u32,
    #[prost(uint32, tag = "3")]
    verifier_grantor_max_days: u32,
    #[prost(uint32, tag = "4")]
    issuer_max_days: u32,
    #[prost(uint32, tag = "5")]
    verifier_max_days: u32,
    #[prost(uint32, tag = "6")]
    holder_max_days: u32,
}

#[derive(Clone, PartialEq, Message)]
struct TrustDepositUpdate {
    #[prost(string, tag = "1")]
    authority: String,
    #[prost(message, optional, tag = "2")]
    params: Option<TrustDepositParams>,
}

#[derive(Clone, PartialEq, Message)]
struct SchemaUpdate {
    #[prost(string, tag = "1")]
    authority: String,
    #[prost(message, optional, tag = "2")]
    params: Option<SchemaParams>,
}

impl From<&td::v1::Params> for TrustDepositParams {
    fn from(params: &td::v1::Params) -> Self {
        Self {
            share_value: params.trust_deposit_share_value.clone(),
            rate: params.trust_deposit_rate.clone(),
            wallet_user_agent_reward_rate: params.wallet_user_agent_reward_rate.clone(),
            user_agent_reward_rate: params.user_agent_reward_rate.clone(),
            max_yield_rate: params.trust_deposit_max_yield_rate.clone(),
            block_reward_share: params.trust_deposit_block_reward_share.clone(),
        }
    }
}

impl From<TrustDepositParams> for td::v1::Params {
    /// The members that are gone are empty.
    fn from(params: TrustDepositParams) -> Self {
        Self {
            trust_deposit_share_value: params.share_value,
            trust_deposit_rate: params.rate,
            wallet_user_agent_reward_rate: params.wallet_user_agent_reward_rate,
            user_agent_reward_rate: params.user_agent_reward_rate,
            trust_deposit_max_yield_rate: params.max_yield_rate,
            trust_deposit_block_reward_share: params.block_reward_share,
            ..Self::default()
        }
    }
}

impl From<&cs::v1::Params> for SchemaParams {
    fn from(params: &cs::v1::Params) -> Self {
        Self {
            schema_max_size: params.credential_schema_schema_max_size,
            issuer_grantor_max_days: params.credential_schema_issuer_grantor_validation_validity_period_max_days,
            verifier_grantor_max_days: params.credential_schema_verifier_grantor_validation_validity_period_max_days,
            issuer_max_days: params.credential_schema_issuer_validation_validity_period_max_days,
            verifier_max_days: params.credential_schema_verifier_validation_validity_period_max_days,
            holder_max_days: params.credential_schema_holder_validation_validity_period_max_days,
        }
    }
}

impl From<SchemaParams> for cs::v1::Params {
    fn from(params: SchemaParams) -> Self {
        Self {
            credential_schema_schema_max_size: params.schema_max_size,
            credential_schema_issuer_grantor_validation_validity_period_max_days: params.issuer_grantor_max_days,
            credential_schema_verifier_grantor_validation_validity_period_max_days: params.verifier_grantor_max_days,
            credential_schema_issuer_validation_validity_period_max_days: params.issuer_max_days,
            credential_schema_verifier_validation_validity_period_max_days: params.verifier_max_days,
            credential_schema_holder_validation_validity_period_max_days: params.holder_max_days,
        }
    }
}

/// Returns a message with the numbers that its handler reads; `None` where it has them already.
pub fn with_older_numbers(chain: &ChainConfig, message: &Any) -> Result<Option<Any>, LedgerError> {
    if !chain.has_renumbered_params() {
        return Ok(None);
    }
    let bad = |error: prost::DecodeError| LedgerError::sdk(2, error);
    let value = match chain.namespace().split_type_url(&message.type_url) {
        Some(("td", "MsgUpdateParams")) => {
            let TrustDepositUpdate { authority, params } = Message::decode(message.value.as_slice()).map_err(bad)?;
            td::v1::MsgUpdateParams { authority, params: params.map(Into::into) }.encode_to_vec()
        }
        Some(("cs", "MsgUpdateParams")) => {
            let SchemaUpdate { authority, params } = Message::decode(message.value.as_slice()).map_err(bad)?;
            cs::v1::MsgUpdateParams { authority, params: params.map(Into::into) }.encode_to_vec()
        }
        _ => return Ok(None),
    };
    Ok(Some(Any { type_url: message.type_url.clone(), value }))
}
