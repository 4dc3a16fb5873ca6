//! Queries, as `abci_query` answers them: path is a full gRPC method, data the request's bytes.

use prost::Message;
use prost_types::Any;
use svc_wire::{
    instant,
    proto::{
        cosmos::{auth, bank as bank_pb, base, feegrant as feegrant_pb, group as group_pb, staking},
        svc::{co, de, ec, gf},
    },
};

use super::{
    ante,
    error::{LedgerError, Status},
    exec::{Chain, any},
    gas::Gas,
    modules::{
        bank,
        gf::{Owner, versions_of, with_documents},
        group,
    },
    state::State,
};

const DEFAULT_SIZE: u32 = 64;
const MAX_SIZE: u32 = 1024;

fn not_found(text: impl std::fmt::Display) -> LedgerError {
    LedgerError::of_query(Status::NotFound, text)
}

/// `response_max_size`: 0 means 64, at most 1024.
fn page(size: u32) -> Result<usize, LedgerError> {
    match size {
        0 => Ok(DEFAULT_SIZE as usize),
        1..=MAX_SIZE => Ok(size as usize),
        _ => {
            let text = format!("response_max_size must be between 1 and {MAX_SIZE}");
            Err(LedgerError::of_query(Status::InvalidArgument, text))
        }
    }
}

/// Answers a query on `state`.
pub fn query(state: &State, chain: &Chain, path: &str, data: &[u8]) -> Result<Vec<u8>, LedgerError> {
    macro_rules! reply {
        ($handler:expr) => {{
            let request = Message::decode(data)
                .map_err(|error: prost::DecodeError| LedgerError::of_query(Status::InvalidArgument, error))?;
            Ok($handler(state, chain, request)?.encode_to_vec())
        }};
    }
    let registry = format!("/{}.", chain.namespace());
    if let Some(local) = path.strip_prefix(&registry) {
        return match local {
            "co.v1.Query/Params" => Ok(co::v1::QueryParamsResponse { params: Some(co::v1::Params {}) }.encode_to_vec()),
            "co.v1.Query/GetCorporation" => reply!(get_corporation),
            "co.v1.Query/ListCorporations" => reply!(list_corporations),
            "ec.v1.Query/Params" => {
                let params = ec::v1::Params { trust_unit_price: 1_000_000 };
                Ok(ec::v1::QueryParamsResponse { params: Some(params) }.encode_to_vec())
            }
            "ec.v1.Query/GetEcosystem" => reply!(get_ecosystem),
            "ec.v1.Query/ListEcosystems" => reply!(list_ecosystems),
            "gf.v1.Query/Params" => Ok(gf::v1::QueryParamsResponse { params: Some(gf::v1::Params {}) }.encode_to_vec()),
            "gf.v1.Query/GetGovernanceFrameworkVersion" => reply!(get_version),
            "gf.v1.Query/ListGovernanceFrameworkVersions" => reply!(list_versions),
            "de.v1.Query/Params" => Ok(de::v1::QueryParamsResponse { params: Some(de::v1::Params {}) }.encode_to_vec()),
            "de.v1.Query/GetOperatorAuthorization" => reply!(get_authorization),
            "de.v1.Query/ListOperatorAuthorizations" => reply!(list_authorizations),
            "de.v1.Query/GetVSOperatorAuthorization" => reply!(get_vs_authorization),
            "de.v1.Query/ListVSOperatorAuthorizations" => reply!(list_vs_authorizations),
            _ => Err(unknown(path)),
        };
    }
    match path {
        "/cosmos.auth.v1beta1.Query/Account" => reply!(account),
        "/cosmos.auth.v1beta1.Query/AccountInfo" => reply!(account_info),
        "/cosmos.auth.v1beta1.Query/Params" => reply!(auth_params),
        "/cosmos.auth.v1beta1.Query/Bech32Prefix" => {
            Ok(auth::v1beta1::Bech32PrefixResponse { bech32_prefix: chain.prefix.clone() }.encode_to_vec())
        }
        "/cosmos.bank.v1beta1.Query/Balance" => reply!(balance),
        "/cosmos.bank.v1beta1.Query/AllBalances" => reply!(all_balances),
        "/cosmos.bank.v1beta1.Query/SupplyOf" => reply!(supply_of),
        "/cosmos.feegrant.v1beta1.Query/Allowance" => reply!(allowance),
        "/cosmos.feegrant.v1beta1.Query/Allowances" => reply!(allowances),
        "/cosmos.feegrant.v1beta1.Query/AllowancesByGranter" => reply!(allowances_by_granter),
        "/cosmos.group.v1.Query/GroupInfo" => reply!(group_info),
        "/cosmos.group.v1.Query/GroupPolicyInfo" => reply!(group_policy_info),
        "/cosmos.group.v1.Query/GroupMembers" => reply!(group_members),
        "/cosmos.group.v1.Query/Proposal" => reply!(proposal),
        "/cosmos.group.v1.Query/ProposalsByGroupPolicy" => reply!(proposals),
        "/cosmos.group.v1.Query/VotesByProposal" => reply!(votes),
        "/cosmos.staking.v1beta1.Query/Params" => reply!(staking_params),
        "/cosmos.reflection.v1.ReflectionService/FileDescriptors" => Ok(chain.registry.file_descriptors()),
        _ => Err(unknown(path)),
    }
}

fn unknown(path: &str) -> LedgerError {
    LedgerError::sdk(6, format!("unknown query path: {path}"))
}

fn get_corporation(
    state: &State,
    _: &Chain,
    request: co::v1::QueryGetCorporationRequest,
) -> Result<co::v1::QueryGetCorporationResponse, LedgerError> {
    let found = state.corporations.get(&request.corporation_id, &Gas::unlimited());
    let corporation = found.ok_or_else(|| not_found(format!("corporation {} not found", request.corporation_id)))?;
    let view = corporation_view(state, corporation, request.active_gf_only, &request.preferred_language);
    Ok(co::v1::QueryGetCorporationResponse { corporation: Some(view) })
}

fn corporation_view(
    state: &State,
    corporation: &co::v1::Corporation,
    active_only: bool,
    language: &str,
) -> co::v1::CorporationWithGf {
    let only = active_only.then_some(corporation.active_version);
    co::v1::CorporationWithGf {
        id: corporation.id,
        policy_address: corporation.policy_address.clone(),
        did: corporation.did.clone(),
        created: corporation.created,
        modified: corporation.modified,
        language: corporation.language.clone(),
        active_version: corporation.active_version,
        versions: versions_of(state, Owner::Corporation(corporation.id), only, language),
    }
}

fn is_after(modified: Option<prost_types::Timestamp>, after: Option<prost_types::Timestamp>) -> bool {
    let nanos = |instant: Option<prost_types::Timestamp>| instant.as_ref().map_or(0, instant::nanos);
    after.is_none() || nanos(modified) > nanos(after)
}

fn list_corporations(
    state: &State,
    _: &Chain,
    request: co::v1::QueryListCorporationsRequest,
) -> Result<co::v1::QueryListCorporationsResponse, LedgerError> {
    let mut found: Vec<_> =
        state.corporations.values().filter(|one| is_after(one.modified, request.modified_after)).collect();
    found.sort_by_key(|one| std::cmp::Reverse(one.modified.as_ref().map_or(0, instant::nanos)));
    let views = found
        .into_iter()
        .take(page(request.response_max_size)?)
        .map(|one| corporation_view(state, one, request.active_gf_only, &request.preferred_language));
    Ok(co::v1::QueryListCorporationsResponse { corporations: views.collect() })
}

fn ecosystem_view(
    state: &State,
    ecosystem: &ec::v1::Ecosystem,
    active_only: bool,
    language: &str,
) -> ec::v1::EcosystemWithVersions {
    let only = active_only.then_some(ecosystem.active_version);
    ec::v1::EcosystemWithVersions {
        id: ecosystem.id,
        did: ecosystem.did.clone(),
        corporation_id: ecosystem.corporation_id,
        created: ecosystem.created,
        modified: ecosystem.modified,
        archived: ecosystem.archived,
        language: ecosystem.language.clone(),
        active_version: ecosystem.active_version,
        versions: versions_of(state, Owner::Ecosystem(ecosystem.id), only, language),
    }
}

fn get_ecosystem(
    state: &State,
    _: &Chain,
    request: ec::v1::QueryGetEcosystemRequest,
) -> Result<ec::v1::QueryGetEcosystemResponse, LedgerError> {
    let found = state.ecosystems.get(&request.id, &Gas::unlimited());
    let ecosystem = found.ok_or_else(|| not_found(format!("ecosystem {} not found", request.id)))?;
    let view = ecosystem_view(state, ecosystem, request.active_gf_only, &request.preferred_language);
    Ok(ec::v1::QueryGetEcosystemResponse { ecosystem: Some(view) })
}

fn list_ecosystems(
    state: &State,
    _: &Chain,
    request: ec::v1::QueryListEcosystemsRequest,
) -> Result<ec::v1::QueryListEcosystemsResponse, LedgerError> {
    let is_wanted = |one: &&ec::v1::Ecosystem| {
        let is_owned = request.corporation_id == 0 || one.corporation_id == request.corporation_id;
        is_owned && is_after(one.modified, request.modified_after)
    };
    let mut found: Vec<_> = state.ecosystems.values().filter(is_wanted).collect();
    // Quirk: ascending by id, but newest first once `modified_after` is set.
    if request.modified_after.is_some() {
        found.sort_by_key(|one| std::cmp::Reverse(one.modified.as_ref().map_or(0, instant::nanos)));
    }
    let views = found
        .into_iter()
        .take(page(request.response_max_size)?)
        .map(|one| ecosystem_view(state, one, request.active_gf_only, &request.preferred_language));
    Ok(ec::v1::QueryListEcosystemsResponse { ecosystems: views.collect() })
}

fn get_version(
    state: &State,
    _: &Chain,
    request: gf::v1::QueryGetGovernanceFrameworkVersionRequest,
) -> Result<gf::v1::QueryGetGovernanceFrameworkVersionResponse, LedgerError> {
    let found = state.versions.get(&request.id, &Gas::unlimited());
    let version = found.ok_or_else(|| not_found(format!("governance framework version {} not found", request.id)))?;
    let version = with_documents(state, version, &request.preferred_language);
    Ok(gf::v1::QueryGetGovernanceFrameworkVersionResponse { version: Some(version) })
}

fn list_versions(
    state: &State,
    _: &Chain,
    request: gf::v1::QueryListGovernanceFrameworkVersionsRequest,
) -> Result<gf::v1::QueryListGovernanceFrameworkVersionsResponse, LedgerError> {
    let gas = Gas::unlimited();
    let (owner, active) = match (request.ecosystem_id, request.corporation_id) {
        (0, id) if id > 0 => (Owner::Corporation(id), state.corporations.get(&id, &gas).map(|one| one.active_version)),
        (id, 0) if id > 0 => (Owner::Ecosystem(id), state.ecosystems.get(&id, &gas).map(|one| one.active_version)),
        _ => {
            let text = "exactly one of ecosystem_id and corporation_id is required";
            return Err(LedgerError::of_query(Status::InvalidArgument, text));
        }
    };
    let only = request.active_only.then_some(active.unwrap_or(0));
    let mut versions = versions_of(state, owner, only, &request.preferred_language);
    versions.truncate(page(request.response_max_size)?);
    Ok(gf::v1::QueryListGovernanceFrameworkVersionsResponse { versions })
}

fn get_authorization(
    state: &State,
    _: &Chain,
    request: de::v1::QueryGetOperatorAuthorizationRequest,
) -> Result<de::v1::QueryGetOperatorAuthorizationResponse, LedgerError> {
    let found = state.operator_authorizations.get(&request.id, &Gas::unlimited()).cloned();
    let found = found.ok_or_else(|| not_found(format!("operator authorization {} not found", request.id)))?;
    Ok(de::v1::QueryGetOperatorAuthorizationResponse { operator_authorization: Some(found) })
}

fn list_authorizations(
    state: &State,
    _: &Chain,
    request: de::v1::QueryListOperatorAuthorizationsRequest,
) -> Result<de::v1::QueryListOperatorAuthorizationsResponse, LedgerError> {
    let is_wanted = |one: &&de::v1::OperatorAuthorization| {
        (request.corporation_id == 0 || one.corporation_id == request.corporation_id)
            && (request.operator.is_empty() || one.operator == request.operator)
    };
    let size = page(request.response_max_size)?;
    let operator_authorizations =
        state.operator_authorizations.values().filter(is_wanted).take(size).cloned().collect();
    Ok(de::v1::QueryListOperatorAuthorizationsResponse { operator_authorizations })
}

fn get_vs_authorization(
    state: &State,
    _: &Chain,
    request: de::v1::QueryGetVsOperatorAuthorizationRequest,
) -> Result<de::v1::QueryGetVsOperatorAuthorizationResponse, LedgerError> {
    let found = state.vs_authorizations.get(&request.id, &Gas::unlimited()).cloned();
    let found = found.ok_or_else(|| not_found(format!("VS operator authorization {} not found", request.id)))?;
    Ok(de::v1::QueryGetVsOperatorAuthorizationResponse { vs_operator_authorization: Some(found) })
}

fn list_vs_authorizations(
    state: &State,
    _: &Chain,
    request: de::v1::QueryListVsOperatorAuthorizationsRequest,
) -> Result<de::v1::QueryListVsOperatorAuthorizationsResponse, LedgerError> {
    let is_wanted = |one: &&de::v1::VsOperatorAuthorization| {
        (request.corporation_id == 0 || one.corporation_id == request.corporation_id)
            && (request.vs_operator.is_empty() || one.vs_operator == request.vs_operator)
    };
    let size = page(request.response_max_size)?;
    let vs_operator_authorizations = state.vs_authorizations.values().filter(is_wanted).take(size).cloned().collect();
    Ok(de::v1::QueryListVsOperatorAuthorizationsResponse { vs_operator_authorizations })
}

fn find_account(state: &State, address: &str) -> Result<auth::v1beta1::BaseAccount, LedgerError> {
    let found = state.accounts.get(&address.to_owned(), &Gas::unlimited()).cloned();
    found.ok_or_else(|| not_found(format!("account {address} not found")))
}

fn account(
    state: &State,
    _: &Chain,
    request: auth::v1beta1::QueryAccountRequest,
) -> Result<auth::v1beta1::QueryAccountResponse, LedgerError> {
    let found = find_account(state, &request.address)?;
    Ok(auth::v1beta1::QueryAccountResponse { account: Some(any("/cosmos.auth.v1beta1.BaseAccount", &found)) })
}

fn account_info(
    state: &State,
    _: &Chain,
    request: auth::v1beta1::QueryAccountInfoRequest,
) -> Result<auth::v1beta1::QueryAccountInfoResponse, LedgerError> {
    Ok(auth::v1beta1::QueryAccountInfoResponse { info: Some(find_account(state, &request.address)?) })
}

fn auth_params(
    _: &State,
    _: &Chain,
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

fn balance(
    state: &State,
    _: &Chain,
    request: bank_pb::v1beta1::QueryBalanceRequest,
) -> Result<bank_pb::v1beta1::QueryBalanceResponse, LedgerError> {
    let key = (request.address, request.denom.clone());
    let amount = state.balances.get(&key, &Gas::unlimited()).map_or(0, |amount| amount.0);
    let coin = base::v1beta1::Coin { denom: request.denom, amount: amount.to_string() };
    Ok(bank_pb::v1beta1::QueryBalanceResponse { balance: Some(coin) })
}

fn all_balances(
    state: &State,
    _: &Chain,
    request: bank_pb::v1beta1::QueryAllBalancesRequest,
) -> Result<bank_pb::v1beta1::QueryAllBalancesResponse, LedgerError> {
    let amounts: Vec<_> = state
        .balances
        .iter()
        .filter(|((address, _), _)| *address == request.address)
        .map(|((_, denom), amount)| (denom.clone(), amount.0))
        .collect();
    let pagination = Some(base::query::v1beta1::PageResponse { next_key: Vec::new(), total: amounts.len() as u64 });
    Ok(bank_pb::v1beta1::QueryAllBalancesResponse { balances: bank::to_coins(&amounts), pagination })
}

fn supply_of(
    state: &State,
    _: &Chain,
    request: bank_pb::v1beta1::QuerySupplyOfRequest,
) -> Result<bank_pb::v1beta1::QuerySupplyOfResponse, LedgerError> {
    let amount = state.supply.get(&request.denom, &Gas::unlimited()).map_or(0, |supply| supply.0);
    let coin = base::v1beta1::Coin { denom: request.denom, amount: amount.to_string() };
    Ok(bank_pb::v1beta1::QuerySupplyOfResponse { amount: Some(coin) })
}

fn grant_of(key: &(String, String), allowance: &Any) -> feegrant_pb::v1beta1::Grant {
    feegrant_pb::v1beta1::Grant { granter: key.0.clone(), grantee: key.1.clone(), allowance: Some(allowance.clone()) }
}

fn allowance(
    state: &State,
    _: &Chain,
    request: feegrant_pb::v1beta1::QueryAllowanceRequest,
) -> Result<feegrant_pb::v1beta1::QueryAllowanceResponse, LedgerError> {
    let key = (request.granter, request.grantee);
    // Quirk: a missing allowance is gRPC Internal, not NotFound.
    let found = state.allowances.get(&key, &Gas::unlimited());
    let found = found.ok_or_else(|| LedgerError::of_query(Status::Other, "fee-grant not found: not found"))?;
    Ok(feegrant_pb::v1beta1::QueryAllowanceResponse { allowance: Some(grant_of(&key, found)) })
}

fn allowances(
    state: &State,
    _: &Chain,
    request: feegrant_pb::v1beta1::QueryAllowancesRequest,
) -> Result<feegrant_pb::v1beta1::QueryAllowancesResponse, LedgerError> {
    let found = state.allowances.iter().filter(|(key, _)| key.1 == request.grantee);
    let allowances = found.map(|(key, allowance)| grant_of(key, allowance)).collect();
    Ok(feegrant_pb::v1beta1::QueryAllowancesResponse { allowances, pagination: None })
}

fn allowances_by_granter(
    state: &State,
    _: &Chain,
    request: feegrant_pb::v1beta1::QueryAllowancesByGranterRequest,
) -> Result<feegrant_pb::v1beta1::QueryAllowancesByGranterResponse, LedgerError> {
    let found = state.allowances.iter().filter(|(key, _)| key.0 == request.granter);
    let allowances = found.map(|(key, allowance)| grant_of(key, allowance)).collect();
    Ok(feegrant_pb::v1beta1::QueryAllowancesByGranterResponse { allowances, pagination: None })
}

fn group_info(
    state: &State,
    _: &Chain,
    request: group_pb::v1::QueryGroupInfoRequest,
) -> Result<group_pb::v1::QueryGroupInfoResponse, LedgerError> {
    let found = state.groups.get(&request.group_id, &Gas::unlimited()).cloned();
    let info = Some(found.ok_or_else(|| not_found(format!("group {} not found", request.group_id)))?);
    Ok(group_pb::v1::QueryGroupInfoResponse { info })
}

fn group_policy_info(
    state: &State,
    _: &Chain,
    request: group_pb::v1::QueryGroupPolicyInfoRequest,
) -> Result<group_pb::v1::QueryGroupPolicyInfoResponse, LedgerError> {
    let found = state.group_policies.get(&request.address, &Gas::unlimited()).cloned();
    let info = Some(found.ok_or_else(|| not_found(format!("group policy {} not found", request.address)))?);
    Ok(group_pb::v1::QueryGroupPolicyInfoResponse { info })
}

fn group_members(
    state: &State,
    _: &Chain,
    request: group_pb::v1::QueryGroupMembersRequest,
) -> Result<group_pb::v1::QueryGroupMembersResponse, LedgerError> {
    let members = state.group_members.values().filter(|member| member.group_id == request.group_id).cloned().collect();
    Ok(group_pb::v1::QueryGroupMembersResponse { members, pagination: None })
}

fn proposal(
    state: &State,
    _: &Chain,
    request: group_pb::v1::QueryProposalRequest,
) -> Result<group_pb::v1::QueryProposalResponse, LedgerError> {
    let found = state.proposals.get(&request.proposal_id, &Gas::unlimited()).cloned();
    let mut found = found.ok_or_else(|| not_found(format!("load proposal: proposal {}", request.proposal_id)))?;
    if found.status() == group_pb::v1::ProposalStatus::Submitted
        && let Some(policy) = state.group_policies.get(&found.group_policy_address, &Gas::unlimited())
    {
        found.final_tally_result = Some(group::tally(state, found.id, policy.group_id));
    }
    Ok(group_pb::v1::QueryProposalResponse { proposal: Some(found) })
}

fn proposals(
    state: &State,
    _: &Chain,
    request: group_pb::v1::QueryProposalsByGroupPolicyRequest,
) -> Result<group_pb::v1::QueryProposalsByGroupPolicyResponse, LedgerError> {
    let found = state.proposals.values().filter(|one| one.group_policy_address == request.address);
    Ok(group_pb::v1::QueryProposalsByGroupPolicyResponse { proposals: found.cloned().collect(), pagination: None })
}

fn votes(
    state: &State,
    _: &Chain,
    request: group_pb::v1::QueryVotesByProposalRequest,
) -> Result<group_pb::v1::QueryVotesByProposalResponse, LedgerError> {
    let votes = state.votes.values().filter(|vote| vote.proposal_id == request.proposal_id).cloned().collect();
    Ok(group_pb::v1::QueryVotesByProposalResponse { votes, pagination: None })
}

fn staking_params(
    _: &State,
    chain: &Chain,
    _: staking::v1beta1::QueryParamsRequest,
) -> Result<staking::v1beta1::QueryParamsResponse, LedgerError> {
    let params = staking::v1beta1::Params {
        unbonding_time: Some(prost_types::Duration { seconds: 1_814_400, nanos: 0 }),
        max_validators: 100,
        max_entries: 7,
        historical_entries: 10_000,
        bond_denom: chain.denom.clone(),
        min_commission_rate: "0".to_owned(),
    };
    Ok(staking::v1beta1::QueryParamsResponse { params: Some(params) })
}
