//! The parameters of the modules, in the form of the node's generation.

use prost::Message;
use svc_wire::{
    proto::svc::{co, cs, de, di, ec, gf, pp, td},
    proto_registry::NodeGeneration,
};

use crate::{exec::context::ChainConfig, genesis::params::ModuleParams, modules::de::FEE_PERIOD};

#[derive(Clone, PartialEq, Message)]
struct RenumberedTrustDeposit {
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

#[derive(Clone, PartialEq, Message)]
struct RenumberedSchemas {
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
struct PeriodOfFees {
    #[prost(message, optional, tag = "1")]
    vs_operator_fee_period: Option<prost_types::Duration>,
}

/// Every `QueryParamsResponse` has this form.
#[derive(Clone, PartialEq, Message)]
struct ParamsAnswer {
    #[prost(bytes = "vec", tag = "1")]
    params: Vec<u8>,
}

/// The answer to `<module>.v1.Query/Params`; `None` for a module without parameters.
pub fn encode(chain: &ChainConfig, params: &ModuleParams, module: &str) -> Option<Vec<u8>> {
    let is_renumbered = chain.generation >= NodeGeneration::N2;
    let params = match module {
        "co" => co::v1::Params {}.encode_to_vec(),
        "gf" => gf::v1::Params {}.encode_to_vec(),
        "di" => di::v1::Params {}.encode_to_vec(),
        "xr" => params.xr.encode_to_vec(),
        "ec" if is_renumbered => ec::v1::Params::default().encode_to_vec(),
        "ec" => params.ec.encode_to_vec(),
        "pp" if is_renumbered => pp::v1::Params::default().encode_to_vec(),
        "pp" => params.pp.encode_to_vec(),
        "cs" if is_renumbered => renumbered_schemas(&params.cs).encode_to_vec(),
        "cs" => params.cs.encode_to_vec(),
        "td" if is_renumbered => renumbered_trust_deposit(&params.td).encode_to_vec(),
        "td" => params.td.encode_to_vec(),
        "de" if chain.generation >= NodeGeneration::N3 => {
            PeriodOfFees { vs_operator_fee_period: Some(FEE_PERIOD) }.encode_to_vec()
        }
        "de" => de::v1::Params {}.encode_to_vec(),
        _ => return None,
    };
    Some(ParamsAnswer { params }.encode_to_vec())
}

fn renumbered_schemas(params: &cs::v1::Params) -> RenumberedSchemas {
    RenumberedSchemas {
        schema_max_size: params.credential_schema_schema_max_size,
        issuer_grantor_max_days: params.credential_schema_issuer_grantor_validation_validity_period_max_days,
        verifier_grantor_max_days: params.credential_schema_verifier_grantor_validation_validity_period_max_days,
        issuer_max_days: params.credential_schema_issuer_validation_validity_period_max_days,
        verifier_max_days: params.credential_schema_verifier_validation_validity_period_max_days,
        holder_max_days: params.credential_schema_holder_validation_validity_period_max_days,
    }
}

fn renumbered_trust_deposit(params: &td::v1::Params) -> RenumberedTrustDeposit {
    RenumberedTrustDeposit {
        share_value: params.trust_deposit_share_value.clone(),
        rate: params.trust_deposit_rate.clone(),
        wallet_user_agent_reward_rate: params.wallet_user_agent_reward_rate.clone(),
        user_agent_reward_rate: params.user_agent_reward_rate.clone(),
        max_yield_rate: params.trust_deposit_max_yield_rate.clone(),
        block_reward_share: params.trust_deposit_block_reward_share.clone(),
    }
}
