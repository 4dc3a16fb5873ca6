//! The genesis: the state before the first block.

mod app_state;
mod export;
mod generation_form;
mod rate;
mod transfer;

use prost_types::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_wire::proto::cosmos::bank::v1beta1::{DenomUnit, Metadata};

use self::transfer::{import_app_state, put_rate};
pub use self::{app_state::AppStateError, export::export_app_state, rate::GenesisRate};
use crate::{
    chain::{BlockContext, ChainConfig},
    context::ExecContext,
    gas::GasMeter,
    modules::{auth::ensure_account, bank, council},
    params::gov_params,
    state::{LedgerState, table::PlainValue},
};

/// Description of the state before the first block.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenesisState {
    /// Funded accounts.
    #[serde(default)]
    pub accounts: Vec<GenesisAccount>,
    /// Coins of the fee denom in the pool that trust deposit yield is paid from.
    #[serde(default)]
    pub yield_pool: u128,
    /// Voting period of a governance proposal, in seconds, or of a proposal of the council.
    #[serde(default = "voting_seconds")]
    pub gov_voting_seconds: i64,
    /// Voting period of an expedited governance proposal, in seconds.
    #[serde(default = "expedited_seconds")]
    pub gov_expedited_seconds: i64,
    /// Exchange rates, in the order of their ids.
    #[serde(default)]
    pub exchange_rates: Vec<GenesisRate>,
    /// `app_state` of a genesis document, with which the chain begins instead of the fields above.
    #[serde(default)]
    pub app_state: Option<Value>,
}

fn voting_seconds() -> i64 {
    30
}

fn expedited_seconds() -> i64 {
    20
}

impl Default for GenesisState {
    fn default() -> Self {
        Self {
            accounts: Vec::new(),
            yield_pool: 0,
            gov_voting_seconds: voting_seconds(),
            gov_expedited_seconds: expedited_seconds(),
            exchange_rates: Vec::new(),
            app_state: None,
        }
    }
}

/// An account of the genesis.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenesisAccount {
    /// Bech32 address.
    pub address: String,
    /// Amounts by denom.
    #[serde(default)]
    pub coins: Vec<(String, u128)>,
    /// Bonded stake of the fee denom: its weight in governance votes. Where a council has the place of governance, each account with
    /// stake has a seat, and all seats have the same weight.
    #[serde(default)]
    pub bonded: u128,
}

impl GenesisState {
    /// Builds the state. Fails when the `app_state` is not one, or breaks a rule of the ledger.
    pub fn build_state(&self, chain: &ChainConfig) -> Result<LedgerState, AppStateError> {
        if let Some(app_state) = &self.app_state {
            return import_app_state(app_state, chain);
        }
        let (mut state, gas) = (LedgerState::of_generation(chain.generation), GasMeter::unlimited());
        for account in &self.accounts {
            for (denom, amount) in &account.coins {
                bank::mint(&mut state, &account.address, denom, *amount);
            }
            if account.bonded > 0 {
                let pool = bank::module_address(chain, "bonded_tokens_pool");
                bank::mint(&mut state, &pool, &chain.denom, account.bonded);
                state.bonded.put(account.address.clone(), PlainValue(account.bonded), &gas);
            }
        }
        let pool = bank::module_address(chain, bank::YIELD_POOL);
        if self.yield_pool > 0 {
            bank::mint(&mut state, &pool, &chain.denom, self.yield_pool);
        }
        state.params.td.yield_intermediate_pool = pool;
        state.params.gov = gov_params(&chain.denom, self.gov_voting_seconds, self.gov_expedited_seconds);
        for (place, rate) in self.exchange_rates.iter().enumerate() {
            let id = place as u64 + 1;
            put_rate(&mut state, &rate.to_rate(id)?, &gas);
            state.next_rate = id;
        }
        state.denoms.put(chain.denom.clone(), denom_metadata(&chain.denom), &gas);
        if chain.has_council() {
            self.found_council(&mut state, chain)?;
        }
        Ok(state)
    }

    /// Makes the council. It is older than the first block, and so are the times of its group.
    fn found_council(&self, state: &mut LedgerState, chain: &ChainConfig) -> Result<(), AppStateError> {
        let with_stake = self.accounts.iter().filter(|account| account.bonded > 0);
        let seats: Vec<String> = with_stake.map(|account| account.address.clone()).collect();
        if seats.is_empty() {
            return Err(AppStateError::Inconsistent("the council has no seat: no account has bonded stake".to_owned()));
        }
        let (gas, block) = (GasMeter::unlimited(), BlockContext { height: 0, time: Timestamp::default() });
        ensure_account(state, &bank::module_address(chain, "poa"), &gas);
        let mut exec = ExecContext::without_fee(state, chain, block, &gas);
        let founded = council::found(&mut exec, seats, self.gov_voting_seconds);
        founded.map_err(|error| AppStateError::Inconsistent(format!("the council: {}", error.text)))
    }

    /// Returns the `app_state` of the chain's genesis document.
    pub fn app_state(&self, chain: &ChainConfig) -> Result<Value, AppStateError> {
        match &self.app_state {
            Some(given) => Ok(given.clone()),
            None => export_app_state(&self.build_state(chain)?, chain),
        }
    }
}

/// `usvc` counts millionths of `svc`; a denom without the `u` is its own display unit.
fn denom_metadata(denom: &str) -> Metadata {
    let unit = |denom: &str, exponent| DenomUnit { denom: denom.to_owned(), exponent, aliases: Vec::new() };
    let whole = denom.strip_prefix('u').filter(|whole| whole.len() > 2);
    let mut denom_units = vec![unit(denom, 0)];
    denom_units.extend(whole.map(|whole| unit(whole, 6)));
    let display = whole.unwrap_or(denom).to_owned();
    Metadata {
        description: "Fee and bond coin".to_owned(),
        denom_units,
        base: denom.to_owned(),
        name: display.clone(),
        symbol: display.to_uppercase(),
        display,
        ..Metadata::default()
    }
}
