//! Queries that command lines and wallets make. A devnet has no delegation: the answers about it are empty.

use prost_types::Any;
use svc_wire::proto::{
    cosmos::{
        auth,
        auth::v1beta1::{BaseAccount, ModuleAccount},
        bank as bank_pb, base, consensus, distribution, group as group_pb, slashing, staking, upgrade,
    },
    tendermint::types::{BlockParams, ConsensusParams, EvidenceParams, ValidatorParams},
};

use super::view::{QueryContext, paginate};
use crate::{
    error::{LedgerError, QueryStatus},
    modules::bank,
    values::any::pack_any,
};

/// Bytes of a block, as in the answer of `consensus_params`.
const MAX_BLOCK_BYTES: i64 = 22_020_096;
const MAX_EVIDENCE_BYTES: i64 = 1_048_576;
/// The modules of the registry, beside the SDK's with accounts of their own.
const MODULES: [&str; 9] = ["co", "cs", "de", "di", "ec", "gf", "pp", "td", "xr"];
/// The accounts of modules, with the permissions of the modules over the supply.
const MODULE_ACCOUNTS: [(&str, &[&str]); 8] = [
    ("bonded_tokens_pool", &["burner", "staking"]),
    ("fee_collector", &[]),
    ("gov", &["burner"]),
    ("poa", &["minter"]),
    ("pp", &[]),
    ("protocolpool", &[]),
    ("td", &["burner"]),
    (bank::YIELD_POOL, &[]),
];

/// An account as the SDK packs it: one of a module says so.
pub fn pack_account(view: &QueryContext<'_>, account: &BaseAccount) -> Any {
    match module_accounts_of(view).find(|(name, _)| account.address == bank::module_address(view.chain, name)) {
        Some((name, permissions)) => {
            let permissions = permissions.iter().map(ToString::to_string).collect();
            let module = ModuleAccount { base_account: Some(account.clone()), name: name.to_owned(), permissions };
            pack_any("/cosmos.auth.v1beta1.ModuleAccount", &module)
        }
        None => pack_any("/cosmos.auth.v1beta1.BaseAccount", account),
    }
}

/// The modules with accounts: governance has none where a council has its place.
fn module_accounts_of(view: &QueryContext<'_>) -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    let lacking = if view.chain.has_council() { "gov" } else { "poa" };
    MODULE_ACCOUNTS.into_iter().filter(move |(name, _)| *name != lacking)
}

fn find_module_account<'a>(view: &'a QueryContext<'_>, name: &str) -> Option<&'a BaseAccount> {
    module_accounts_of(view).find(|(known, _)| *known == name)?;
    view.state.accounts.peek(&bank::module_address(view.chain, name))
}

pub fn accounts(
    view: &QueryContext<'_>,
    request: auth::v1beta1::QueryAccountsRequest,
) -> Result<auth::v1beta1::QueryAccountsResponse, LedgerError> {
    let packed = view.state.accounts.values().map(|account| pack_account(view, account));
    let (accounts, pagination) = paginate(packed, request.pagination)?;
    Ok(auth::v1beta1::QueryAccountsResponse { accounts, pagination })
}

pub fn module_accounts(
    view: &QueryContext<'_>,
    _: auth::v1beta1::QueryModuleAccountsRequest,
) -> Result<auth::v1beta1::QueryModuleAccountsResponse, LedgerError> {
    let found = module_accounts_of(view).filter_map(|(name, _)| find_module_account(view, name));
    let accounts = found.map(|account| pack_account(view, account)).collect();
    Ok(auth::v1beta1::QueryModuleAccountsResponse { accounts })
}

pub fn module_account_by_name(
    view: &QueryContext<'_>,
    request: auth::v1beta1::QueryModuleAccountByNameRequest,
) -> Result<auth::v1beta1::QueryModuleAccountByNameResponse, LedgerError> {
    if request.name.is_empty() {
        return Err(LedgerError::from_query(QueryStatus::InvalidArgument, "module name is empty"));
    }
    let unknown = || LedgerError::from_query(QueryStatus::NotFound, format!("account {} not found", request.name));
    let account = find_module_account(view, &request.name).ok_or_else(unknown)?;
    Ok(auth::v1beta1::QueryModuleAccountByNameResponse { account: Some(pack_account(view, account)) })
}

pub fn account_address_by_id(
    view: &QueryContext<'_>,
    request: auth::v1beta1::QueryAccountAddressByIdRequest,
) -> Result<auth::v1beta1::QueryAccountAddressByIdResponse, LedgerError> {
    let auth::v1beta1::QueryAccountAddressByIdRequest { id, account_id, .. } = request;
    if id != 0 {
        let text = "requesting with id isn't supported, try to request using account-id";
        return Err(LedgerError::from_query(QueryStatus::InvalidArgument, text));
    }
    let found = view.state.accounts.values().find(|account| account.account_number == account_id);
    let unknown = || {
        let text = format!("account address not found with account number {account_id}");
        LedgerError::from_query(QueryStatus::NotFound, text)
    };
    let account_address = found.ok_or_else(unknown)?.address.clone();
    Ok(auth::v1beta1::QueryAccountAddressByIdResponse { account_address })
}

/// Every denomination can be sent.
pub fn bank_params(
    _: &QueryContext<'_>,
    _: bank_pb::v1beta1::QueryParamsRequest,
) -> Result<bank_pb::v1beta1::QueryParamsResponse, LedgerError> {
    let params = bank_pb::v1beta1::Params { send_enabled: Vec::new(), default_send_enabled: true };
    Ok(bank_pb::v1beta1::QueryParamsResponse { params: Some(params) })
}

/// The entries of denominations that differ from the parameters: there are none.
pub fn send_enabled(
    _: &QueryContext<'_>,
    request: bank_pb::v1beta1::QuerySendEnabledRequest,
) -> Result<bank_pb::v1beta1::QuerySendEnabledResponse, LedgerError> {
    let (send_enabled, pagination) = paginate(std::iter::empty(), request.pagination)?;
    let pagination = pagination.filter(|_| request.denoms.is_empty());
    Ok(bank_pb::v1beta1::QuerySendEnabledResponse { send_enabled, pagination })
}

pub fn total_supply(
    view: &QueryContext<'_>,
    request: bank_pb::v1beta1::QueryTotalSupplyRequest,
) -> Result<bank_pb::v1beta1::QueryTotalSupplyResponse, LedgerError> {
    let amounts: Vec<_> = view.state.supply.iter().map(|(denom, amount)| (denom.clone(), amount.0)).collect();
    let (supply, pagination) = paginate(bank::to_coins(&amounts).into_iter(), request.pagination)?;
    Ok(bank_pb::v1beta1::QueryTotalSupplyResponse { supply, pagination })
}

/// No account of the devnet vests: all coins can be spent.
pub fn spendable_balances(
    view: &QueryContext<'_>,
    request: bank_pb::v1beta1::QuerySpendableBalancesRequest,
) -> Result<bank_pb::v1beta1::QuerySpendableBalancesResponse, LedgerError> {
    let own = view.state.balances.iter().filter(|((address, _), _)| *address == request.address);
    let amounts: Vec<_> = own.map(|((_, denom), amount)| (denom.clone(), amount.0)).collect();
    let (balances, pagination) = paginate(bank::to_coins(&amounts).into_iter(), request.pagination)?;
    Ok(bank_pb::v1beta1::QuerySpendableBalancesResponse { balances, pagination })
}

pub fn denom_owners(
    view: &QueryContext<'_>,
    request: bank_pb::v1beta1::QueryDenomOwnersRequest,
) -> Result<bank_pb::v1beta1::QueryDenomOwnersResponse, LedgerError> {
    let owners = view.state.balances.iter().filter(|((_, denom), amount)| *denom == request.denom && amount.0 > 0);
    let owners = owners.map(|((address, denom), amount)| {
        let balance = base::v1beta1::Coin { denom: denom.clone(), amount: amount.0.to_string() };
        bank_pb::v1beta1::DenomOwner { address: address.clone(), balance: Some(balance) }
    });
    let (denom_owners, pagination) = paginate(owners, request.pagination)?;
    Ok(bank_pb::v1beta1::QueryDenomOwnersResponse { denom_owners, pagination })
}

pub fn validators(
    _: &QueryContext<'_>,
    request: staking::v1beta1::QueryValidatorsRequest,
) -> Result<staking::v1beta1::QueryValidatorsResponse, LedgerError> {
    let (validators, pagination) = paginate(std::iter::empty(), request.pagination)?;
    Ok(staking::v1beta1::QueryValidatorsResponse { validators, pagination })
}

pub fn delegator_delegations(
    _: &QueryContext<'_>,
    request: staking::v1beta1::QueryDelegatorDelegationsRequest,
) -> Result<staking::v1beta1::QueryDelegatorDelegationsResponse, LedgerError> {
    let (delegation_responses, pagination) = paginate(std::iter::empty(), request.pagination)?;
    Ok(staking::v1beta1::QueryDelegatorDelegationsResponse { delegation_responses, pagination })
}

pub fn staking_pool(
    view: &QueryContext<'_>,
    _: staking::v1beta1::QueryPoolRequest,
) -> Result<staking::v1beta1::QueryPoolResponse, LedgerError> {
    let bonded: u128 = view.state.bonded.values().map(|amount| amount.0).sum();
    let pool = staking::v1beta1::Pool { not_bonded_tokens: "0".to_owned(), bonded_tokens: bonded.to_string() };
    Ok(staking::v1beta1::QueryPoolResponse { pool: Some(pool) })
}

pub fn groups(
    view: &QueryContext<'_>,
    request: group_pb::v1::QueryGroupsRequest,
) -> Result<group_pb::v1::QueryGroupsResponse, LedgerError> {
    let (groups, pagination) = paginate(view.state.groups.values().cloned(), request.pagination)?;
    Ok(group_pb::v1::QueryGroupsResponse { groups, pagination })
}

pub fn groups_by_admin(
    view: &QueryContext<'_>,
    request: group_pb::v1::QueryGroupsByAdminRequest,
) -> Result<group_pb::v1::QueryGroupsByAdminResponse, LedgerError> {
    let found = view.state.groups.values().filter(|group| group.admin == request.admin).cloned();
    let (groups, pagination) = paginate(found, request.pagination)?;
    Ok(group_pb::v1::QueryGroupsByAdminResponse { groups, pagination })
}

pub fn group_policies_by_group(
    view: &QueryContext<'_>,
    request: group_pb::v1::QueryGroupPoliciesByGroupRequest,
) -> Result<group_pb::v1::QueryGroupPoliciesByGroupResponse, LedgerError> {
    let found = view.state.group_policies.values().filter(|policy| policy.group_id == request.group_id).cloned();
    let (group_policies, pagination) = paginate(found, request.pagination)?;
    Ok(group_pb::v1::QueryGroupPoliciesByGroupResponse { group_policies, pagination })
}

pub fn group_policies_by_admin(
    view: &QueryContext<'_>,
    request: group_pb::v1::QueryGroupPoliciesByAdminRequest,
) -> Result<group_pb::v1::QueryGroupPoliciesByAdminResponse, LedgerError> {
    let found = view.state.group_policies.values().filter(|policy| policy.admin == request.admin).cloned();
    let (group_policies, pagination) = paginate(found, request.pagination)?;
    Ok(group_pb::v1::QueryGroupPoliciesByAdminResponse { group_policies, pagination })
}

pub fn votes_by_voter(
    view: &QueryContext<'_>,
    request: group_pb::v1::QueryVotesByVoterRequest,
) -> Result<group_pb::v1::QueryVotesByVoterResponse, LedgerError> {
    let found = view.state.votes.values().filter(|vote| vote.voter == request.voter).cloned();
    let (votes, pagination) = paginate(found, request.pagination)?;
    Ok(group_pb::v1::QueryVotesByVoterResponse { votes, pagination })
}

/// Defaults of the SDK, as for the other parameters below: nothing of the devnet reads them.
pub fn distribution_params(
    _: &QueryContext<'_>,
    _: distribution::v1beta1::QueryParamsRequest,
) -> Result<distribution::v1beta1::QueryParamsResponse, LedgerError> {
    let params = distribution::v1beta1::Params {
        community_tax: "20000000000000000".to_owned(),
        withdraw_addr_enabled: true,
        ..distribution::v1beta1::Params::default()
    };
    Ok(distribution::v1beta1::QueryParamsResponse { params: Some(params) })
}

pub fn slashing_params(
    _: &QueryContext<'_>,
    _: slashing::v1beta1::QueryParamsRequest,
) -> Result<slashing::v1beta1::QueryParamsResponse, LedgerError> {
    let params = slashing::v1beta1::Params {
        signed_blocks_window: 100,
        min_signed_per_window: b"500000000000000000".to_vec(),
        downtime_jail_duration: Some(prost_types::Duration { seconds: 600, nanos: 0 }),
        slash_fraction_double_sign: b"50000000000000000".to_vec(),
        slash_fraction_downtime: b"10000000000000000".to_vec(),
    };
    Ok(slashing::v1beta1::QueryParamsResponse { params: Some(params) })
}

pub fn consensus_params(
    _: &QueryContext<'_>,
    _: consensus::v1::QueryParamsRequest,
) -> Result<consensus::v1::QueryParamsResponse, LedgerError> {
    let params = ConsensusParams {
        block: Some(BlockParams { max_bytes: MAX_BLOCK_BYTES, max_gas: -1 }),
        evidence: Some(EvidenceParams {
            max_age_num_blocks: 100_000,
            max_age_duration: Some(prost_types::Duration { seconds: 172_800, nanos: 0 }),
            max_bytes: MAX_EVIDENCE_BYTES,
        }),
        validator: Some(ValidatorParams { pub_key_types: vec!["ed25519".to_owned()] }),
        ..ConsensusParams::default()
    };
    Ok(consensus::v1::QueryParamsResponse { params: Some(params) })
}

pub fn current_plan(
    view: &QueryContext<'_>,
    _: upgrade::v1beta1::QueryCurrentPlanRequest,
) -> Result<upgrade::v1beta1::QueryCurrentPlanResponse, LedgerError> {
    let plan = view.chain.upgrades.current(view.block.height).map(|plan| upgrade::v1beta1::Plan {
        name: plan.name(),
        height: plan.height.cast_signed(),
        ..upgrade::v1beta1::Plan::default()
    });
    Ok(upgrade::v1beta1::QueryCurrentPlanResponse { plan })
}

/// Returns the height of an upgrade; 0 for one that was not applied.
pub fn applied_plan(
    view: &QueryContext<'_>,
    request: upgrade::v1beta1::QueryAppliedPlanRequest,
) -> Result<upgrade::v1beta1::QueryAppliedPlanResponse, LedgerError> {
    let height = view.chain.upgrades.applied(&request.name, view.block.height).unwrap_or_default();
    Ok(upgrade::v1beta1::QueryAppliedPlanResponse { height: height.cast_signed() })
}

pub fn module_versions(
    _: &QueryContext<'_>,
    request: upgrade::v1beta1::QueryModuleVersionsRequest,
) -> Result<upgrade::v1beta1::QueryModuleVersionsResponse, LedgerError> {
    let wanted = |name: &&&str| request.module_name.is_empty() || request.module_name == **name;
    let version = |name: &&str| upgrade::v1beta1::ModuleVersion { name: (*name).to_owned(), version: 1 };
    Ok(upgrade::v1beta1::QueryModuleVersionsResponse {
        module_versions: MODULES.iter().filter(wanted).map(version).collect(),
    })
}
