//! Invariants of the state after every block.

use std::collections::BTreeMap;

use svc_wire::proto::{cosmos::base::v1beta1::Coin, svc::pp::v1::OnboardingState};

use crate::{
    chain::ChainConfig,
    modules::{bank, pp},
    state::{
        LedgerState,
        table::{StateTable, StoredValue, TableKey},
    },
};

/// Returns a description of the first broken invariant; `None` if all hold.
pub fn broken_invariant(state: &LedgerState, chain: &ChainConfig) -> Option<String> {
    supply_is_the_sum_of_balances(state)
        .or_else(|| ids_are_dense(state))
        .or_else(|| deposits_are_covered(state, chain))
        .or_else(|| escrow_is_what_is_pending(state, chain))
        .or_else(|| remaining_is_within_limits(state))
        .or_else(|| indexes_agree(state))
}

fn supply_is_the_sum_of_balances(state: &LedgerState) -> Option<String> {
    let mut sums: BTreeMap<&str, u128> = BTreeMap::new();
    for ((_, denom), amount) in state.balances.iter() {
        *sums.entry(denom).or_default() += amount.0;
    }
    let supply: BTreeMap<&str, u128> = state
        .supply
        .iter()
        .map(|(denom, amount)| (denom.as_str(), amount.0))
        .filter(|(_, amount)| *amount > 0)
        .collect();
    (sums != supply).then(|| format!("balances add up to {sums:?}, supply is {supply:?}"))
}

fn ids_are_dense(state: &LedgerState) -> Option<String> {
    fn of<V: StoredValue>(name: &str, table: &StateTable<u64, V>, last: u64) -> Option<String> {
        let is_dense = table.iter().map(|(id, _)| *id).eq(1..=last);
        (!is_dense).then(|| format!("ids of {name} are not 1 to {last}"))
    }
    of("corporations", &state.corporations, state.next_corporation)
        .or_else(|| of("ecosystems", &state.ecosystems, state.next_ecosystem))
        .or_else(|| of("versions", &state.versions, state.next_version))
        .or_else(|| of("documents", &state.documents, state.next_document))
        .or_else(|| of("schemas", &state.schemas, state.next_schema))
        .or_else(|| of("participants", &state.participants, state.next_participant))
        .or_else(|| of("rates", &state.rates, state.next_rate))
}

fn held_amount(state: &LedgerState, address: String, denom: &str) -> u128 {
    state.balances.peek(&(address, denom.to_owned())).map_or(0, |amount| amount.0)
}

fn deposits_are_covered(state: &LedgerState, chain: &ChainConfig) -> Option<String> {
    let staked: u128 = state.trust_deposits.values().map(|one| u128::from(one.deposit)).sum();
    let covered = held_amount(state, bank::module_address(chain, "td"), &chain.denom);
    if staked > covered {
        return Some(format!("deposits of {staked} are covered by {covered} only"));
    }
    let over = state.trust_deposits.values().find(|one| one.refunded > one.deposit);
    over.map(|one| format!("corporation {} has {} refunded of {}", one.corporation_id, one.refunded, one.deposit))
}

fn escrow_is_what_is_pending(state: &LedgerState, chain: &ChainConfig) -> Option<String> {
    let mut owed: BTreeMap<String, u128> = BTreeMap::new();
    for one in state.participants.values().filter(|one| one.op_state() == OnboardingState::Pending) {
        let schema = state.schemas.peek(&one.schema_id)?;
        *owed.entry(pp::fee_denom(chain, schema)).or_default() += u128::from(one.op_current_fees);
    }
    let address = bank::module_address(chain, "pp");
    owed.into_iter().find_map(|(denom, owed)| {
        let held = held_amount(state, address.clone(), &denom);
        (held != owed).then(|| format!("escrow holds {held}{denom}, pending processes paid {owed}"))
    })
}

fn is_within(remaining: &[Coin], limit: &[Coin]) -> bool {
    remaining.iter().all(|left| {
        let allowed = limit.iter().find(|coin| coin.denom == left.denom);
        let number = |coin: &Coin| coin.amount.parse::<u128>().unwrap_or(u128::MAX);
        allowed.is_some_and(|allowed| number(left) <= number(allowed))
    })
}

fn remaining_is_within_limits(state: &LedgerState) -> Option<String> {
    let over = state.operator_authorizations.values().find(|one| !is_within(&one.remaining_spend, &one.spend_limit));
    if let Some(over) = over {
        return Some(format!("authorization {} has more left than its limit", over.id));
    }
    let records = state.vs_authorizations.values().flat_map(|one| &one.records);
    let over = records.into_iter().find(|record| {
        !is_within(&record.remaining_spend, &record.spend_limit)
            || !is_within(&record.remaining_fee_spend, &record.fee_spend_limit)
    });
    over.map(|over| format!("the record of participant {} has more left than its limit", over.participant_id))
}

fn indexes_agree(state: &LedgerState) -> Option<String> {
    fn count(
        name: &str,
        index: &StateTable<impl Ord + Clone + TableKey, impl StoredValue>,
        expected: usize,
    ) -> Option<String> {
        (index.len() != expected).then(|| format!("the index of {name} has {} entries for {expected}", index.len()))
    }
    let records: usize = state.vs_authorizations.values().map(|one| one.records.len()).sum();
    count("corporations by address", &state.corporation_by_address, state.corporations.len())
        .or_else(|| count("corporations by DID", &state.corporation_by_did, state.corporations.len()))
        .or_else(|| count("ecosystems", &state.ecosystem_by_did, state.ecosystems.len()))
        .or_else(|| count("versions", &state.version_index, state.versions.len()))
        .or_else(|| count("documents", &state.document_index, state.documents.len()))
        .or_else(|| count("participants", &state.participant_context, state.participants.len()))
        .or_else(|| count("participants by DID", &state.participant_by_did, state.participants.len()))
        .or_else(|| count("authorizations", &state.authorization_index, state.operator_authorizations.len()))
        .or_else(|| count("VS authorizations", &state.vs_operator_index, state.vs_authorizations.len()))
        .or_else(|| count("VS records", &state.vs_participant_index, records))
        .or_else(|| count("rates", &state.rate_index, state.rates.len()))
}
