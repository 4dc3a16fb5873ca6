//! The parameters of the modules, in the form of the node's generation.

use prost::Message;
use svc_wire::proto::svc::{co, de, di, ec, gf, pp};

use crate::{
    chain::ChainConfig,
    modules::{
        de::FEE_PERIOD,
        renumbered::{SchemaParams, TrustDepositParams},
    },
    params::ModuleParams,
};

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
    let is_renumbered = chain.has_renumbered_params();
    let params = match module {
        "co" => co::v1::Params {}.encode_to_vec(),
        "gf" => gf::v1::Params {}.encode_to_vec(),
        "di" => di::v1::Params {}.encode_to_vec(),
        "xr" => params.xr.encode_to_vec(),
        "ec" if is_renumbered => ec::v1::Params::default().encode_to_vec(),
        "ec" => params.ec.encode_to_vec(),
        "pp" if is_renumbered => pp::v1::Params::default().encode_to_vec(),
        "pp" => params.pp.encode_to_vec(),
        "cs" if is_renumbered => SchemaParams::from(&params.cs).encode_to_vec(),
        "cs" => params.cs.encode_to_vec(),
        "td" if is_renumbered => TrustDepositParams::from(&params.td).encode_to_vec(),
        "td" => params.td.encode_to_vec(),
        "de" if chain.has_spend_cycles() => PeriodOfFees { vs_operator_fee_period: Some(FEE_PERIOD) }.encode_to_vec(),
        "de" => de::v1::Params {}.encode_to_vec(),
        _ => return None,
    };
    Some(ParamsAnswer { params }.encode_to_vec())
}
