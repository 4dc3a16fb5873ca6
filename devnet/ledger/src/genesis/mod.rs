//! The genesis: the state before the first block.

pub mod params;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_wire::{
    proto::cosmos::bank::v1beta1::{DenomUnit, Metadata},
    timestamp,
};

use crate::{
    exec::{context::ChainConfig, gas::GasMeter},
    genesis::params::gov_params,
    modules::bank,
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
    /// Voting period of a governance proposal, in seconds.
    #[serde(default = "voting_seconds")]
    pub gov_voting_seconds: i64,
    /// Voting period of an expedited governance proposal, in seconds.
    #[serde(default = "expedited_seconds")]
    pub gov_expedited_seconds: i64,
    /// State of another chain, with which this one begins instead of the fields above.
    #[serde(skip)]
    pub initial_state: Option<Arc<LedgerState>>,
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
            initial_state: None,
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
    /// Bonded stake of the fee denom: its weight in governance votes.
    #[serde(default)]
    pub bonded: u128,
}

impl GenesisState {
    /// Builds the state.
    pub fn build_state(&self, chain: &ChainConfig) -> LedgerState {
        if let Some(state) = &self.initial_state {
            return LedgerState::clone(state);
        }
        let (mut state, gas) = (LedgerState::default(), GasMeter::unlimited());
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
        state.denoms.put(chain.denom.clone(), denom_metadata(&chain.denom), &gas);
        state
    }

    /// Returns the genesis document's `app_state`: accounts, balances, the bond denom, and the digests of an initial state.
    pub fn app_state(&self, chain: &ChainConfig) -> Value {
        let balances: Vec<Value> = self
            .accounts
            .iter()
            .map(|account| {
                let coins = bank::to_coins(&account.coins);
                let coins: Vec<Value> =
                    coins.iter().map(|coin| json!({"denom": coin.denom, "amount": coin.amount})).collect();
                json!({"address": account.address, "coins": coins})
            })
            .collect();
        let digests = self.initial_state.iter().flat_map(|state| state.digests.values());
        let digests: Vec<Value> = digests
            .map(|one| json!({"digest": one.digest, "created": one.created.as_ref().map(timestamp::iso_millis)}))
            .collect();
        json!({
            "di": {"params": {}, "digests": digests},
            "auth": {"accounts": self.accounts.iter().map(|account| json!({
                "@type": "/cosmos.auth.v1beta1.BaseAccount", "address": account.address, "pub_key": null,
                "account_number": "0", "sequence": "0",
            })).collect::<Vec<_>>()},
            "bank": {"balances": balances},
            "staking": {"params": {"bond_denom": chain.denom}},
        })
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
