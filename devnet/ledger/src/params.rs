//! Parameters of the modules; governance can change them.

use prost_types::Duration;
use svc_wire::{
    proto::{
        cosmos::gov,
        svc::{cs, ec, pp, td, xr},
    },
    proto_registry::NodeGeneration,
};

use crate::values::decimal::LegacyDec;

const DAY_SECONDS: i64 = 86_400;
/// Blocks of a year at five seconds each: the mint module's default.
pub const BLOCKS_PER_YEAR: u64 = 6_311_520;

/// Parameters of all modules. The modules co, gf, de and di have none.
#[derive(Debug, Clone)]
pub struct ModuleParams {
    pub ec: ec::v1::Params,
    pub cs: cs::v1::Params,
    pub pp: pp::v1::Params,
    pub td: td::v1::Params,
    pub xr: xr::v1::Params,
    pub gov: gov::v1::Params,
}

fn hundredths_text(count: u64) -> String {
    LegacyDec::from_scaled(count * 10u64.pow(16)).to_wire()
}

fn tenths_text(count: u64) -> String {
    hundredths_text(count * 10)
}

impl Default for ModuleParams {
    fn default() -> Self {
        Self::of_generation(NodeGeneration::N0)
    }
}

impl ModuleParams {
    /// The parameters with which a chain of a generation begins.
    pub fn of_generation(generation: NodeGeneration) -> Self {
        let days = 3650;
        let deposit_rate = if generation >= NodeGeneration::N1 { hundredths_text(5) } else { tenths_text(2) };
        Self {
            ec: ec::v1::Params { trust_unit_price: 1_000_000 },
            cs: cs::v1::Params {
                credential_schema_schema_max_size: 8192,
                credential_schema_issuer_grantor_validation_validity_period_max_days: days,
                credential_schema_verifier_grantor_validation_validity_period_max_days: days,
                credential_schema_issuer_validation_validity_period_max_days: days,
                credential_schema_verifier_validation_validity_period_max_days: days,
                credential_schema_holder_validation_validity_period_max_days: days,
            },
            pp: pp::v1::Params { validation_term_requested_timeout_days: 7 },
            td: td::v1::Params {
                trust_deposit_reclaim_burn_rate: tenths_text(0),
                trust_deposit_share_value: tenths_text(10),
                trust_deposit_rate: deposit_rate,
                wallet_user_agent_reward_rate: tenths_text(1),
                user_agent_reward_rate: tenths_text(1),
                trust_deposit_max_yield_rate: tenths_text(2),
                // Set at genesis, when the address prefix is known.
                yield_intermediate_pool: String::new(),
                trust_deposit_block_reward_share: tenths_text(2),
            },
            xr: xr::v1::Params { max_validity_duration: Some(Duration { seconds: 365 * DAY_SECONDS, nanos: 0 }) },
            gov: gov_params("", 30, 20),
        }
    }
}

/// Returns governance parameters with the SDK's default ratios; the periods are in seconds.
pub fn gov_params(denom: &str, voting: i64, expedited: i64) -> gov::v1::Params {
    let coins = |amount: &str| {
        vec![svc_wire::proto::cosmos::base::v1beta1::Coin { denom: denom.to_owned(), amount: amount.to_owned() }]
    };
    let span = |seconds| Some(Duration { seconds, nanos: 0 });
    gov::v1::Params {
        min_deposit: coins("10000000"),
        max_deposit_period: span(100),
        voting_period: span(voting),
        quorum: "0.334000000000000000".to_owned(),
        threshold: "0.500000000000000000".to_owned(),
        veto_threshold: "0.334000000000000000".to_owned(),
        min_initial_deposit_ratio: "0.000000000000000000".to_owned(),
        proposal_cancel_ratio: "0.500000000000000000".to_owned(),
        proposal_cancel_dest: String::new(),
        expedited_voting_period: span(expedited),
        expedited_threshold: "0.667000000000000000".to_owned(),
        expedited_min_deposit: coins("50000000"),
        burn_vote_quorum: false,
        burn_proposal_deposit_prevote: false,
        burn_vote_veto: true,
        min_deposit_ratio: "0.010000000000000000".to_owned(),
    }
}
