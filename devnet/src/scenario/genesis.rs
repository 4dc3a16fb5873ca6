//! The genesis of a scenario.

use std::collections::BTreeMap;

use svc_ledger::{GenesisAccount, GenesisRate, GenesisState};

use super::{Scenario, ScenarioAccount};

/// Builds the genesis of a scenario, in which `FEE` stands for the fee denom.
pub(crate) fn build_genesis(
    scenario: &Scenario,
    accounts: &BTreeMap<String, ScenarioAccount>,
    denom: &str,
) -> GenesisState {
    let funded = scenario.accounts.iter().filter_map(|part| {
        let coins = part.coins.iter().map(|(name, amount)| {
            let name = if name == "FEE" { denom } else { name };
            (name.to_owned(), u128::from(*amount))
        });
        Some(GenesisAccount {
            address: accounts.get(&part.name)?.address.to_string(),
            coins: coins.collect(),
            bonded: u128::from(part.bonded),
        })
    });
    let denom_of = |asset: &str| if asset == "FEE" { denom.to_owned() } else { asset.to_owned() };
    let rates = scenario.genesis.exchange_rates.iter().map(|rate| GenesisRate {
        base_asset: denom_of(&rate.base_asset),
        quote_asset: denom_of(&rate.quote_asset),
        ..rate.clone()
    });
    let mut genesis = GenesisState {
        accounts: funded.collect(),
        exchange_rates: rates.collect(),
        yield_pool: u128::from(scenario.genesis.yield_pool),
        ..GenesisState::default()
    };
    if let Some(seconds) = scenario.genesis.gov_voting_seconds {
        genesis.gov_voting_seconds = seconds;
    }
    genesis
}
