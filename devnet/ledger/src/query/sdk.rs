//! Queries of the SDK modules.

use prost_types::Any;
use svc_wire::proto::cosmos::{
    auth, authz, bank as bank_pb, base, feegrant as feegrant_pb, gov as gov_pb, group as group_pb, mint, staking,
};

use super::{
    clients,
    view::{QueryContext, not_found, paginate},
};
use crate::{
    error::{LedgerError, QueryStatus},
    exec::ante,
    modules::{bank, gov, group},
    values::decimal::LegacyDec,
};

fn find_account(view: &QueryContext<'_>, address: &str) -> Result<auth::v1beta1::BaseAccount, LedgerError> {
    let found = view.state.accounts.peek(&address.to_owned()).cloned();
    found.ok_or_else(|| not_found(format!("account {address} not found")))
}

pub fn account(
    view: &QueryContext<'_>,
    request: auth::v1beta1::QueryAccountRequest,
) -> Result<auth::v1beta1::QueryAccountResponse, LedgerError> {
    let found = find_account(view, &request.address)?;
    Ok(auth::v1beta1::QueryAccountResponse { account: Some(clients::pack_account(view, &found)) })
}

pub fn account_info(
    view: &QueryContext<'_>,
    request: auth::v1beta1::QueryAccountInfoRequest,
) -> Result<auth::v1beta1::QueryAccountInfoResponse, LedgerError> {
    Ok(auth::v1beta1::QueryAccountInfoResponse { info: Some(find_account(view, &request.address)?) })
}

pub fn auth_params(
    _: &QueryContext<'_>,
    _: auth::v1beta1::QueryParamsRequest,
) -> Result<auth::v1beta1::QueryParamsResponse, LedgerError> {
    let params = auth::v1beta1::Params {
        max_memo_characters: ante::MAX_MEMO_CHARACTERS,
        tx_sig_limit: ante::TX_SIG_LIMIT,
        tx_size_cost_per_byte: ante::TX_SIZE_COST_PER_BYTE,
        sig_verify_cost_ed25519: ante::SIG_VERIFY_COST_ED25519,
        sig_verify_cost_secp256k1: ante::SIG_VERIFY_COST_SECP256K1,
    };
    Ok(auth::v1beta1::QueryParamsResponse { params: Some(params) })
}

pub fn node_config(
    view: &QueryContext<'_>,
    _: base::node::v1beta1::ConfigRequest,
) -> Result<base::node::v1beta1::ConfigResponse, LedgerError> {
    let micros = view.chain.min_gas_price_micros;
    let price = format!("{}.{:06}000000000000{}", micros / 1_000_000, micros % 1_000_000, view.chain.denom);
    Ok(base::node::v1beta1::ConfigResponse {
        minimum_gas_price: price,
        pruning_keep_recent: "0".to_owned(),
        pruning_interval: "0".to_owned(),
        halt_height: 0,
    })
}

pub fn node_status(
    view: &QueryContext<'_>,
    _: base::node::v1beta1::StatusRequest,
) -> Result<base::node::v1beta1::StatusResponse, LedgerError> {
    Ok(base::node::v1beta1::StatusResponse {
        earliest_store_height: 1,
        height: view.block.height,
        timestamp: Some(view.block.time),
        app_hash: view.state.hash().to_vec(),
        validator_hash: Vec::new(),
    })
}

pub fn balance(
    view: &QueryContext<'_>,
    request: bank_pb::v1beta1::QueryBalanceRequest,
) -> Result<bank_pb::v1beta1::QueryBalanceResponse, LedgerError> {
    let key = (request.address, request.denom.clone());
    let amount = view.state.balances.peek(&key).map_or(0, |amount| amount.0);
    let coin = base::v1beta1::Coin { denom: request.denom, amount: amount.to_string() };
    Ok(bank_pb::v1beta1::QueryBalanceResponse { balance: Some(coin) })
}

pub fn all_balances(
    view: &QueryContext<'_>,
    request: bank_pb::v1beta1::QueryAllBalancesRequest,
) -> Result<bank_pb::v1beta1::QueryAllBalancesResponse, LedgerError> {
    let amounts: Vec<_> = view
        .state
        .balances
        .iter()
        .filter(|((address, _), _)| *address == request.address)
        .map(|((_, denom), amount)| (denom.clone(), amount.0))
        .collect();
    let (balances, pagination) = paginate(bank::to_coins(&amounts).into_iter(), request.pagination)?;
    Ok(bank_pb::v1beta1::QueryAllBalancesResponse { balances, pagination })
}

pub fn supply_of(
    view: &QueryContext<'_>,
    request: bank_pb::v1beta1::QuerySupplyOfRequest,
) -> Result<bank_pb::v1beta1::QuerySupplyOfResponse, LedgerError> {
    let amount = view.state.supply.peek(&request.denom).map_or(0, |supply| supply.0);
    let coin = base::v1beta1::Coin { denom: request.denom, amount: amount.to_string() };
    Ok(bank_pb::v1beta1::QuerySupplyOfResponse { amount: Some(coin) })
}

fn encode_grant(key: &(String, String), allowance: &Any) -> feegrant_pb::v1beta1::Grant {
    feegrant_pb::v1beta1::Grant { granter: key.0.clone(), grantee: key.1.clone(), allowance: Some(allowance.clone()) }
}

pub fn allowance(
    view: &QueryContext<'_>,
    request: feegrant_pb::v1beta1::QueryAllowanceRequest,
) -> Result<feegrant_pb::v1beta1::QueryAllowanceResponse, LedgerError> {
    let key = (request.granter, request.grantee);
    // Quirk: a missing allowance is gRPC Internal, not NotFound.
    let found = view.state.allowances.peek(&key);
    let found = found.ok_or_else(|| LedgerError::from_query(QueryStatus::Other, "fee-grant not found: not found"))?;
    Ok(feegrant_pb::v1beta1::QueryAllowanceResponse { allowance: Some(encode_grant(&key, found)) })
}

pub fn allowances(
    view: &QueryContext<'_>,
    request: feegrant_pb::v1beta1::QueryAllowancesRequest,
) -> Result<feegrant_pb::v1beta1::QueryAllowancesResponse, LedgerError> {
    let found = view.state.allowances.iter().filter(|(key, _)| key.1 == request.grantee);
    let found = found.map(|(key, allowance)| encode_grant(key, allowance));
    let (allowances, pagination) = paginate(found, request.pagination.clone())?;
    Ok(feegrant_pb::v1beta1::QueryAllowancesResponse { allowances, pagination })
}

pub fn allowances_by_granter(
    view: &QueryContext<'_>,
    request: feegrant_pb::v1beta1::QueryAllowancesByGranterRequest,
) -> Result<feegrant_pb::v1beta1::QueryAllowancesByGranterResponse, LedgerError> {
    let found = view.state.allowances.iter().filter(|(key, _)| key.0 == request.granter);
    let found = found.map(|(key, allowance)| encode_grant(key, allowance));
    let (allowances, pagination) = paginate(found, request.pagination.clone())?;
    Ok(feegrant_pb::v1beta1::QueryAllowancesByGranterResponse { allowances, pagination })
}

pub fn group_info(
    view: &QueryContext<'_>,
    request: group_pb::v1::QueryGroupInfoRequest,
) -> Result<group_pb::v1::QueryGroupInfoResponse, LedgerError> {
    let found = view.state.groups.peek(&request.group_id).cloned();
    let info = Some(found.ok_or_else(|| not_found(format!("group {} not found", request.group_id)))?);
    Ok(group_pb::v1::QueryGroupInfoResponse { info })
}

pub fn group_policy_info(
    view: &QueryContext<'_>,
    request: group_pb::v1::QueryGroupPolicyInfoRequest,
) -> Result<group_pb::v1::QueryGroupPolicyInfoResponse, LedgerError> {
    let found = view.state.group_policies.peek(&request.address).cloned();
    let info = Some(found.ok_or_else(|| not_found(format!("group policy {} not found", request.address)))?);
    Ok(group_pb::v1::QueryGroupPolicyInfoResponse { info })
}

pub fn group_members(
    view: &QueryContext<'_>,
    request: group_pb::v1::QueryGroupMembersRequest,
) -> Result<group_pb::v1::QueryGroupMembersResponse, LedgerError> {
    let members =
        view.state.group_members.values().filter(|member| member.group_id == request.group_id).cloned().collect();
    Ok(group_pb::v1::QueryGroupMembersResponse { members, pagination: None })
}

pub fn proposal(
    view: &QueryContext<'_>,
    request: group_pb::v1::QueryProposalRequest,
) -> Result<group_pb::v1::QueryProposalResponse, LedgerError> {
    let found = view.state.proposals.peek(&request.proposal_id).cloned();
    let mut found = found.ok_or_else(|| not_found(format!("load proposal: proposal {}", request.proposal_id)))?;
    if found.status() == group_pb::v1::ProposalStatus::Submitted
        && let Some(policy) = view.state.group_policies.peek(&found.group_policy_address)
    {
        found.final_tally_result = Some(group::tally(view.state, found.id, policy.group_id));
    }
    Ok(group_pb::v1::QueryProposalResponse { proposal: Some(found) })
}

pub fn proposals(
    view: &QueryContext<'_>,
    request: group_pb::v1::QueryProposalsByGroupPolicyRequest,
) -> Result<group_pb::v1::QueryProposalsByGroupPolicyResponse, LedgerError> {
    let found = view.state.proposals.values().filter(|one| one.group_policy_address == request.address);
    Ok(group_pb::v1::QueryProposalsByGroupPolicyResponse { proposals: found.cloned().collect(), pagination: None })
}

pub fn votes(
    view: &QueryContext<'_>,
    request: group_pb::v1::QueryVotesByProposalRequest,
) -> Result<group_pb::v1::QueryVotesByProposalResponse, LedgerError> {
    let votes = view.state.votes.values().filter(|vote| vote.proposal_id == request.proposal_id).cloned().collect();
    Ok(group_pb::v1::QueryVotesByProposalResponse { votes, pagination: None })
}

pub fn staking_params(
    view: &QueryContext<'_>,
    _: staking::v1beta1::QueryParamsRequest,
) -> Result<staking::v1beta1::QueryParamsResponse, LedgerError> {
    let params = staking::v1beta1::Params {
        unbonding_time: Some(prost_types::Duration { seconds: 1_814_400, nanos: 0 }),
        max_validators: 100,
        max_entries: 7,
        historical_entries: 10_000,
        bond_denom: view.chain.denom.clone(),
        min_commission_rate: "0".to_owned(),
    };
    Ok(staking::v1beta1::QueryParamsResponse { params: Some(params) })
}

pub fn tally_result(
    view: &QueryContext<'_>,
    request: group_pb::v1::QueryTallyResultRequest,
) -> Result<group_pb::v1::QueryTallyResultResponse, LedgerError> {
    let request = group_pb::v1::QueryProposalRequest { proposal_id: request.proposal_id };
    let tally = proposal(view, request)?.proposal.and_then(|proposal| proposal.final_tally_result);
    Ok(group_pb::v1::QueryTallyResultResponse { tally })
}

pub fn groups_by_member(
    view: &QueryContext<'_>,
    request: group_pb::v1::QueryGroupsByMemberRequest,
) -> Result<group_pb::v1::QueryGroupsByMemberResponse, LedgerError> {
    let is_member = |id: &u64| view.state.group_members.peek(&(*id, request.address.clone())).is_some();
    let found = view.state.groups.iter().filter(|(id, _)| is_member(id)).map(|(_, group)| group.clone());
    let (groups, pagination) = paginate(found, request.pagination.clone())?;
    Ok(group_pb::v1::QueryGroupsByMemberResponse { groups, pagination })
}

pub fn denoms_metadata(
    view: &QueryContext<'_>,
    request: bank_pb::v1beta1::QueryDenomsMetadataRequest,
) -> Result<bank_pb::v1beta1::QueryDenomsMetadataResponse, LedgerError> {
    let (metadatas, pagination) = paginate(view.state.denoms.values().cloned(), request.pagination)?;
    Ok(bank_pb::v1beta1::QueryDenomsMetadataResponse { metadatas, pagination })
}

/// Returns no grants: the chain has x/authz, but the registry does not use it.
pub fn authz_grants(
    _: &QueryContext<'_>,
    request: authz::v1beta1::QueryGrantsRequest,
) -> Result<authz::v1beta1::QueryGrantsResponse, LedgerError> {
    if !request.msg_type_url.is_empty() {
        return Err(not_found(format!("authorization not found for {} type", request.msg_type_url)));
    }
    let (grants, pagination) = paginate(std::iter::empty(), request.pagination)?;
    Ok(authz::v1beta1::QueryGrantsResponse { grants, pagination })
}

/// Returns no grants.
pub fn authz_granter_grants(
    _: &QueryContext<'_>,
    request: authz::v1beta1::QueryGranterGrantsRequest,
) -> Result<authz::v1beta1::QueryGranterGrantsResponse, LedgerError> {
    let (grants, pagination) = paginate(std::iter::empty(), request.pagination)?;
    Ok(authz::v1beta1::QueryGranterGrantsResponse { grants, pagination })
}

/// Returns no grants.
pub fn authz_grantee_grants(
    _: &QueryContext<'_>,
    request: authz::v1beta1::QueryGranteeGrantsRequest,
) -> Result<authz::v1beta1::QueryGranteeGrantsResponse, LedgerError> {
    let (grants, pagination) = paginate(std::iter::empty(), request.pagination)?;
    Ok(authz::v1beta1::QueryGranteeGrantsResponse { grants, pagination })
}

/// Returns parameters without inflation: genesis alone creates coins.
pub fn mint_params(
    view: &QueryContext<'_>,
    _: mint::v1beta1::QueryParamsRequest,
) -> Result<mint::v1beta1::QueryParamsResponse, LedgerError> {
    let zero = || LegacyDec::default().to_wire();
    let params = mint::v1beta1::Params {
        mint_denom: view.chain.denom.clone(),
        inflation_rate_change: zero(),
        inflation_max: zero(),
        inflation_min: zero(),
        goal_bonded: zero(),
        blocks_per_year: view.chain.blocks_per_year,
    };
    Ok(mint::v1beta1::QueryParamsResponse { params: Some(params) })
}

pub fn gov_params(
    view: &QueryContext<'_>,
    _: gov_pb::v1::QueryParamsRequest,
) -> Result<gov_pb::v1::QueryParamsResponse, LedgerError> {
    Ok(gov_pb::v1::QueryParamsResponse { params: Some(view.state.params.gov.clone()) })
}

pub fn gov_proposal(
    view: &QueryContext<'_>,
    request: gov_pb::v1::QueryProposalRequest,
) -> Result<gov_pb::v1::QueryProposalResponse, LedgerError> {
    let found = view.state.gov_proposals.peek(&request.proposal_id).cloned();
    let found = found.ok_or_else(|| not_found(format!("proposal {} doesn't exist", request.proposal_id)))?;
    Ok(gov_pb::v1::QueryProposalResponse { proposal: Some(found) })
}

pub fn gov_proposals(
    view: &QueryContext<'_>,
    request: gov_pb::v1::QueryProposalsRequest,
) -> Result<gov_pb::v1::QueryProposalsResponse, LedgerError> {
    let has_voted = |id: u64| view.state.gov_votes.peek(&(id, request.voter.clone())).is_some();
    let has_deposited = |id: u64| {
        let key = (id, (request.depositor.clone(), view.chain.denom.clone()));
        view.state.gov_deposits.peek(&key).is_some()
    };
    let is_wanted = |one: &&gov_pb::v1::Proposal| {
        (request.proposal_status == 0 || one.status == request.proposal_status)
            && (request.voter.is_empty() || has_voted(one.id))
            && (request.depositor.is_empty() || has_deposited(one.id))
    };
    let found = view.state.gov_proposals.values().filter(is_wanted).cloned();
    let (proposals, pagination) = paginate(found, request.pagination.clone())?;
    Ok(gov_pb::v1::QueryProposalsResponse { proposals, pagination })
}

pub fn gov_votes(
    view: &QueryContext<'_>,
    request: gov_pb::v1::QueryVotesRequest,
) -> Result<gov_pb::v1::QueryVotesResponse, LedgerError> {
    let found = view.state.gov_votes.values().filter(|vote| vote.proposal_id == request.proposal_id).cloned();
    let (votes, pagination) = paginate(found, request.pagination)?;
    Ok(gov_pb::v1::QueryVotesResponse { votes, pagination })
}

pub fn gov_tally(
    view: &QueryContext<'_>,
    request: gov_pb::v1::QueryTallyResultRequest,
) -> Result<gov_pb::v1::QueryTallyResultResponse, LedgerError> {
    let id = request.proposal_id;
    let proposal = gov_proposal(view, gov_pb::v1::QueryProposalRequest { proposal_id: id })?.proposal;
    let is_open = view.state.gov_votes.range((id, String::new())..(id + 1, String::new())).next().is_some();
    let settled = proposal.and_then(|proposal| proposal.final_tally_result);
    Ok(gov_pb::v1::QueryTallyResultResponse { tally: if is_open { Some(gov::tally(view.state, id)) } else { settled } })
}
