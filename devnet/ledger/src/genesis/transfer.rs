//! The state of a chain from an `app_state`: another chain can begin with it.

use prost::Message;
use serde_json::Value;
use svc_wire::{
    proto::{
        cosmos::{
            auth::v1beta1::{BaseAccount, ModuleAccount},
            base::v1beta1::Coin,
        },
        svc::td::v1::{TrustDeposit, TrustDepositRecord},
    },
    proto_registry::NodeGeneration,
};

use super::app_state::{AppState, AppStateError};
use crate::{
    chain::ChainConfig,
    gas::GasMeter,
    invariants::broken_invariant,
    modules::{bank, council, gf::FrameworkOwner, pp::participant},
    state::{
        LedgerState,
        keys::{DocumentKey, RatePairKey, VsOperatorEntry},
        table::{PlainValue, StateTable, StoredValue},
    },
    values::decimal::LegacyDec,
};

/// The type of an account without a module.
pub(super) const BASE_ACCOUNT: &str = "/cosmos.auth.v1beta1.BaseAccount";
const MODULE_ACCOUNT: &str = "/cosmos.auth.v1beta1.ModuleAccount";

/// Builds the state that an `app_state` describes. Fails when a part cannot be read, or breaks a rule of the ledger.
pub fn import_app_state(app_state: &Value, chain: &ChainConfig) -> Result<LedgerState, AppStateError> {
    let from = AppState::from_json(app_state, chain)?;
    let mut state = LedgerState::of_generation(chain.generation);
    import_framework(&mut state, &from)?;
    import_owners(&mut state, &from);
    import_participants(&mut state, &from);
    import_params(&mut state, &from, chain);
    import_delegation(&mut state, &from);
    if let Some(broken) = broken_invariant(&state, chain) {
        return Err(AppStateError::Inconsistent(broken));
    }
    if chain.has_council() && council::policy(&state, chain).is_none() {
        return Err(AppStateError::Inconsistent(
            "group 1 with its policy is not the council of this generation".to_owned(),
        ));
    }
    Ok(state)
}

fn amount_of(coin: &Coin, module: &'static str) -> Result<PlainValue<u128>, AppStateError> {
    let amount = coin.amount.parse();
    amount
        .map(PlainValue)
        .map_err(|_| AppStateError::Module { module, reason: format!("{:?} is not an amount", coin.amount) })
}

/// Accounts, coins, allowances, groups and governance: the modules of the Cosmos SDK.
fn import_framework(state: &mut LedgerState, from: &AppState) -> Result<(), AppStateError> {
    let gas = GasMeter::unlimited();
    let unreadable = |error: prost::DecodeError| AppStateError::Module { module: "auth", reason: error.to_string() };
    for account in &from.auth.accounts {
        let account = match account.type_url.as_str() {
            BASE_ACCOUNT => BaseAccount::decode(account.value.as_slice()).map_err(unreadable)?,
            // The ledger derives the accounts of modules; their numbers stay taken.
            MODULE_ACCOUNT => {
                let base = ModuleAccount::decode(account.value.as_slice()).map_err(unreadable)?.base_account;
                let next = base.unwrap_or_default().account_number.saturating_add(1);
                state.next_account_number = state.next_account_number.max(next);
                continue;
            }
            other => {
                let reason = format!("{other} is neither {BASE_ACCOUNT} nor {MODULE_ACCOUNT}");
                return Err(AppStateError::Module { module: "auth", reason });
            }
        };
        state.next_account_number = state.next_account_number.max(account.account_number.saturating_add(1));
        state.accounts.put(account.address.clone(), account, &gas);
    }
    for balance in &from.bank.balances {
        for coin in &balance.coins {
            state.balances.put((balance.address.clone(), coin.denom.clone()), amount_of(coin, "bank")?, &gas);
        }
    }
    for coin in &from.bank.supply {
        state.supply.put(coin.denom.clone(), amount_of(coin, "bank")?, &gas);
    }
    for denom in &from.bank.denom_metadata {
        state.denoms.put(denom.base.clone(), denom.clone(), &gas);
    }
    for grant in &from.feegrant.allowances {
        let allowance = grant.allowance.clone().unwrap_or_default();
        state.allowances.put((grant.granter.clone(), grant.grantee.clone()), allowance, &gas);
    }
    let group = &from.group;
    state.next_group = group.group_seq;
    state.next_group_policy = group.group_policy_seq;
    state.next_proposal = group.proposal_seq;
    for one in &group.groups {
        state.groups.put(one.id, one.clone(), &gas);
    }
    for one in &group.group_members {
        let address = one.member.as_ref().map(|member| member.address.clone()).unwrap_or_default();
        state.group_members.put((one.group_id, address), one.clone(), &gas);
    }
    for one in &group.group_policies {
        state.group_policies.put(one.address.clone(), one.clone(), &gas);
    }
    for one in &group.proposals {
        state.proposals.put(one.id, one.clone(), &gas);
    }
    for one in &group.votes {
        state.votes.put((one.proposal_id, one.voter.clone()), one.clone(), &gas);
    }
    if let Some(params) = &from.gov.params {
        state.params.gov = params.clone();
    }
    state.next_gov_proposal = from.gov.starting_proposal_id.saturating_sub(1);
    for one in &from.gov.proposals {
        state.gov_proposals.put(one.id, one.clone(), &gas);
    }
    for one in &from.gov.votes {
        state.gov_votes.put((one.proposal_id, one.voter.clone()), one.clone(), &gas);
    }
    for held in &from.gov.deposits {
        for coin in &held.amount {
            let key = (held.proposal_id, (held.depositor.clone(), coin.denom.clone()));
            state.gov_deposits.put(key, amount_of(coin, "gov")?, &gas);
        }
    }
    for (address, amount) in &from.delegations {
        let before = state.bonded.peek(address).map_or(0, |held| held.0);
        state.bonded.put(address.clone(), PlainValue(before.saturating_add(*amount)), &gas);
    }
    Ok(())
}

/// Returns the highest id of a table whose ids have no gaps.
fn last_id<V: StoredValue>(table: &StateTable<u64, V>) -> u64 {
    table.iter().next_back().map_or(0, |(id, _)| *id)
}

/// Corporations, ecosystems, their frameworks, and schemas.
fn import_owners(state: &mut LedgerState, from: &AppState) {
    let gas = GasMeter::unlimited();
    for one in &from.co.corporations {
        state.corporations.put(one.id, one.clone(), &gas);
        state.corporation_by_address.put(one.policy_address.clone(), PlainValue(one.id), &gas);
        state.corporation_by_did.put(one.did.clone(), PlainValue(one.id), &gas);
    }
    state.next_corporation = last_id(&state.corporations);
    for one in &from.ec.ecosystems {
        state.ecosystems.put(one.id, one.clone(), &gas);
        state.ecosystem_by_did.put((one.did.clone(), one.id), PlainValue(one.corporation_id), &gas);
    }
    state.next_ecosystem = last_id(&state.ecosystems);
    for one in &from.gf.versions {
        let owner = match one.ecosystem_id {
            0 => FrameworkOwner::Corporation(one.corporation_id),
            id => FrameworkOwner::Ecosystem(id),
        };
        state.versions.put(one.id, *one, &gas);
        state.version_index.put(owner.version_key(one.version), PlainValue(one.id), &gas);
    }
    state.next_version = last_id(&state.versions);
    for one in &from.gf.documents {
        state.documents.put(one.id, one.clone(), &gas);
        let key = DocumentKey { version_id: one.gfv_id, document_id: one.id };
        state.document_index.put(key, PlainValue(()), &gas);
    }
    state.next_document = last_id(&state.documents);
    for one in &from.cs.credential_schemas {
        state.schemas.put(one.id, one.clone(), &gas);
    }
    state.next_schema = last_id(&state.schemas);
    for one in &from.cs.schema_authorization_policies {
        state.schema_policies.put(one.id, one.clone(), &gas);
    }
    state.next_schema_policy = from.cs.schema_authorization_policy_counter;
}

/// The parameters of the registry. A chain has its own defaults for those that its generation does not know.
fn import_params(state: &mut LedgerState, from: &AppState, chain: &ChainConfig) {
    let is_reduced = chain.generation >= NodeGeneration::N2;
    let params = &mut state.params;
    if let Some(given) = from.cs.params {
        params.cs = given;
    }
    if let Some(given) = from.xr.params {
        params.xr = given;
    }
    if let Some(given) = from.ec.params.filter(|_| !is_reduced) {
        params.ec = given;
    }
    if let Some(given) = from.pp.params.filter(|_| !is_reduced) {
        params.pp = given;
    }
    if let Some(given) = &from.td.params {
        let known = std::mem::replace(&mut params.td, given.clone());
        if is_reduced {
            params.td.trust_deposit_reclaim_burn_rate = known.trust_deposit_reclaim_burn_rate;
            params.td.yield_intermediate_pool = bank::module_address(chain, bank::YIELD_POOL);
        }
    }
}

/// Participants, their sessions and deposits, digests and rates.
fn import_participants(state: &mut LedgerState, from: &AppState) {
    let gas = GasMeter::unlimited();
    for one in &from.pp.participants {
        state.participant_context.put(participant::context_key(one), PlainValue(()), &gas);
        state.participant_by_did.put((one.did.clone(), one.id), PlainValue(one.corporation_id), &gas);
        state.participants.put(one.id, one.clone(), &gas);
    }
    state.next_participant = last_id(&state.participants);
    for one in &from.pp.participant_sessions {
        state.sessions.put(one.id.clone(), one.clone(), &gas);
    }
    for one in &from.td.trust_deposits {
        state.trust_deposits.put(one.corporation_id, deposit_of(one), &gas);
    }
    state.yield_dust = LegacyDec::from_text(&from.td.dust).unwrap_or_default();
    for one in &from.di.digests {
        state.digests.put(one.digest.clone(), one.clone(), &gas);
    }
    for one in &from.xr.exchange_rates {
        put_rate(state, one, &gas);
    }
    state.next_rate = last_id(&state.rates);
    for one in &from.xr.exchange_rate_authorizations {
        state.rate_authorizations.put((one.xr_id, one.operator.clone()), one.clone(), &gas);
    }
}

/// Stores an exchange rate, and finds it by its pair.
pub(super) fn put_rate(state: &mut LedgerState, rate: &svc_wire::proto::svc::xr::v1::ExchangeRate, gas: &GasMeter) {
    let key = RatePairKey {
        base_type: rate.base_asset_type,
        base: rate.base_asset.clone(),
        quote_type: rate.quote_asset_type,
        quote: rate.quote_asset.clone(),
    };
    state.rate_index.put(key, PlainValue(rate.id), gas);
    state.rates.put(rate.id, rate.clone(), gas);
}

/// Authorizations and fee grants.
fn import_delegation(state: &mut LedgerState, from: &AppState) {
    let gas = GasMeter::unlimited();
    for one in &from.de.operator_authorizations {
        let key = (one.corporation_id, one.operator.clone());
        state.authorization_index.put(key, PlainValue(one.id), &gas);
        state.operator_authorizations.put(one.id, one.clone(), &gas);
    }
    state.next_authorization = from.de.operator_authorization_seq;
    for one in &from.de.vs_operator_authorizations {
        let entry = VsOperatorEntry { corporation_id: one.corporation_id, authorization_id: one.id };
        state.vs_operator_index.put(one.vs_operator.clone(), PlainValue(entry), &gas);
        for record in &one.records {
            state.vs_participant_index.put(record.participant_id, PlainValue(one.id), &gas);
        }
        state.vs_authorizations.put(one.id, one.clone(), &gas);
    }
    state.next_vs_authorization = from.de.vsoa_seq;
    for one in &from.de.fee_grants {
        state.fee_grants.put((one.grantor_corporation_id, one.grantee.clone()), one.clone(), &gas);
    }
}

fn deposit_of(record: &TrustDepositRecord) -> TrustDeposit {
    TrustDeposit {
        share: record.share.clone(),
        deposit: record.deposit,
        slashed_deposit: record.slashed_deposit,
        repaid_deposit: record.repaid_deposit,
        last_slashed: record.last_slashed,
        last_repaid: record.last_repaid,
        slash_count: record.slash_count,
        corporation_id: record.corporation_id,
        refunded: record.refunded,
    }
}
