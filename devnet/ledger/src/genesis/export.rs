//! The whole state of a chain as an `app_state`.

use prost::Message;
use prost_types::Any;
use serde_json::Value;
use svc_wire::proto::{
    cosmos::{bank::v1beta1::Balance, base::v1beta1::Coin, feegrant::v1beta1::Grant, gov::v1::Deposit},
    svc::{
        cs,
        ec::v1::Counter,
        td::v1::{TrustDeposit, TrustDepositRecord},
    },
};

use super::{
    app_state::{AppState, AppStateError},
    transfer::BASE_ACCOUNT,
};
use crate::{
    chain::ChainConfig,
    modules::de,
    state::{
        LedgerState,
        table::{StateTable, StoredValue, TableKey},
    },
};

/// Writes the whole state of a chain.
pub fn export_app_state(state: &LedgerState, chain: &ChainConfig) -> Result<Value, AppStateError> {
    fn all<K: Ord + Clone + TableKey, V: StoredValue>(table: &StateTable<K, V>) -> Vec<V> {
        table.values().cloned().collect()
    }
    let mut out = AppState::default();
    out.auth.accounts = state
        .accounts
        .values()
        .map(|account| Any { type_url: BASE_ACCOUNT.to_owned(), value: account.encode_to_vec() })
        .collect();
    for ((address, denom), amount) in state.balances.iter() {
        let coin = Coin { denom: denom.clone(), amount: amount.0.to_string() };
        match out.bank.balances.last_mut().filter(|balance| balance.address == *address) {
            Some(balance) => balance.coins.push(coin),
            None => out.bank.balances.push(Balance { address: address.clone(), coins: vec![coin] }),
        }
    }
    let supply = state.supply.iter();
    out.bank.supply =
        supply.map(|(denom, amount)| Coin { denom: denom.clone(), amount: amount.0.to_string() }).collect();
    out.bank.denom_metadata = all(&state.denoms);
    out.feegrant.allowances = state
        .allowances
        .iter()
        .map(|((granter, grantee), allowance)| Grant {
            granter: granter.clone(),
            grantee: grantee.clone(),
            allowance: Some(allowance.clone()),
        })
        .collect();
    out.group.group_seq = state.next_group;
    out.group.groups = all(&state.groups);
    out.group.group_members = all(&state.group_members);
    out.group.group_policy_seq = state.next_group_policy;
    out.group.group_policies = all(&state.group_policies);
    out.group.proposal_seq = state.next_proposal;
    out.group.proposals = all(&state.proposals);
    out.group.votes = all(&state.votes);
    out.gov.starting_proposal_id = state.next_gov_proposal + 1;
    out.gov.params = Some(state.params.gov.clone());
    out.gov.proposals = all(&state.gov_proposals);
    out.gov.votes = all(&state.gov_votes);
    for ((proposal_id, (depositor, denom)), amount) in state.gov_deposits.iter() {
        let coin = Coin { denom: denom.clone(), amount: amount.0.to_string() };
        let is_same = |held: &&mut Deposit| held.proposal_id == *proposal_id && held.depositor == *depositor;
        match out.gov.deposits.last_mut().filter(is_same) {
            Some(held) => held.amount.push(coin),
            None => out.gov.deposits.push(Deposit {
                proposal_id: *proposal_id,
                depositor: depositor.clone(),
                amount: vec![coin],
            }),
        }
    }
    out.bond_denom.clone_from(&chain.denom);
    out.delegations = state.bonded.iter().map(|(address, amount)| (address.clone(), amount.0)).collect();

    out.co.params = Some(Default::default());
    out.co.corporations = all(&state.corporations);
    out.co.corporation_counter = state.next_corporation;
    out.ec.params = Some(state.params.ec);
    out.ec.ecosystems = all(&state.ecosystems);
    out.ec.counters = vec![Counter { entity_type: "ecosystem".to_owned(), value: state.next_ecosystem }];
    out.gf.params = Some(Default::default());
    out.gf.versions = all(&state.versions);
    out.gf.documents = all(&state.documents);
    out.gf.gfv_counter = state.next_version;
    out.gf.gfd_counter = state.next_document;
    out.cs = cs::v1::GenesisState {
        params: Some(state.params.cs),
        credential_schemas: all(&state.schemas),
        schema_counter: state.next_schema,
        schema_authorization_policies: all(&state.schema_policies),
        schema_authorization_policy_counter: state.next_schema_policy,
    };
    out.pp.params = Some(state.params.pp);
    out.pp.participants = all(&state.participants);
    out.pp.participant_sessions = all(&state.sessions);
    out.pp.next_participant_id = state.next_participant + 1;
    out.td.params = Some(state.params.td.clone());
    out.td.trust_deposits = state.trust_deposits.values().map(deposit_record).collect();
    out.td.dust = state.yield_dust.to_string();
    out.de.params = Some(Default::default());
    out.de.operator_authorizations = all(&state.operator_authorizations);
    out.de.fee_grants = state.fee_grants.values().map(|one| de::shown_fee_grant(state, chain, one)).collect();
    out.de.vs_operator_authorizations = all(&state.vs_authorizations);
    out.de.operator_authorization_seq = state.next_authorization;
    out.de.vsoa_seq = state.next_vs_authorization;
    out.di.params = Some(Default::default());
    out.di.digests = all(&state.digests);
    out.xr.params = Some(state.params.xr);
    out.xr.exchange_rates = all(&state.rates);
    out.xr.next_exchange_rate_id = state.next_rate + 1;
    out.xr.exchange_rate_authorizations = all(&state.rate_authorizations);
    out.to_json(chain)
}

fn deposit_record(one: &TrustDeposit) -> TrustDepositRecord {
    TrustDepositRecord {
        share: one.share.clone(),
        deposit: one.deposit,
        corporation_id: one.corporation_id,
        refunded: one.refunded,
        slashed_deposit: one.slashed_deposit,
        repaid_deposit: one.repaid_deposit,
        last_slashed: one.last_slashed,
        last_repaid: one.last_repaid,
        slash_count: one.slash_count,
    }
}
