//! Queries, as `abci_query` answers them: the path is a full gRPC method, the data is the encoded request.

mod clients;
mod council;
mod delegation;
mod framework;
mod old_gov;
mod params;
mod schemas;
mod sdk;
mod view;

use prost::Message;
use svc_wire::proto::cosmos::auth;

use crate::{
    chain::{BlockContext, ChainConfig},
    error::{LedgerError, QueryStatus},
    state::LedgerState,
};
use view::QueryContext;

/// Answers a query on the state after `block`; returns the encoded response. Fails with the code that `abci_query` maps the
/// gRPC status to.
pub fn query(
    state: &LedgerState,
    chain: &ChainConfig,
    block: BlockContext,
    path: &str,
    data: &[u8],
) -> Result<Vec<u8>, LedgerError> {
    let view = QueryContext { state, chain, block };
    let registry = format!("/{}.", chain.namespace());
    if is_gone(chain, path) {
        return Err(unknown_path(path));
    }
    match path.strip_prefix(&registry) {
        Some(local) => query_registry(&view, local, data),
        None => query_sdk(&view, path, data),
    }
}

/// Whether the node's generation has lost a query.
fn is_gone(chain: &ChainConfig, path: &str) -> bool {
    (chain.has_window_rules() && path.contains("SchemaAuthorizationPolic"))
        || (chain.has_council() && path.starts_with("/cosmos.gov."))
}

/// Decodes the request, calls the handler, encodes the response.
macro_rules! reply {
    ($view:expr, $data:expr, $handler:expr) => {{
        let request = Message::decode($data)
            .map_err(|error: prost::DecodeError| LedgerError::from_query(QueryStatus::InvalidArgument, error))?;
        Ok($handler($view, request)?.encode_to_vec())
    }};
}

fn query_registry(view: &QueryContext<'_>, path: &str, data: &[u8]) -> Result<Vec<u8>, LedgerError> {
    if let Some(module) = path.strip_suffix(".v1.Query/Params") {
        return params::encode(view.chain, &view.state.params, module).ok_or_else(|| unknown_path(path));
    }
    match path {
        "poa.v1.Query/Council" if view.chain.has_council() => reply!(view, data, council::council),
        "co.v1.Query/GetCorporation" => reply!(view, data, framework::get_corporation),
        "co.v1.Query/ListCorporations" => reply!(view, data, framework::list_corporations),
        "ec.v1.Query/GetEcosystem" => reply!(view, data, framework::get_ecosystem),
        "ec.v1.Query/ListEcosystems" => reply!(view, data, framework::list_ecosystems),
        "gf.v1.Query/GetGovernanceFrameworkVersion" => reply!(view, data, framework::get_version),
        "gf.v1.Query/ListGovernanceFrameworkVersions" => reply!(view, data, framework::list_versions),
        "cs.v1.Query/ListCredentialSchemas" => reply!(view, data, schemas::list_schemas),
        "cs.v1.Query/GetCredentialSchema" => reply!(view, data, schemas::get_schema),
        "cs.v1.Query/RenderJsonSchema" => reply!(view, data, schemas::render_schema),
        "cs.v1.Query/GetSchemaAuthorizationPolicy" => reply!(view, data, schemas::get_policy),
        "cs.v1.Query/ListSchemaAuthorizationPolicies" => reply!(view, data, schemas::list_policies),
        "pp.v1.Query/ListParticipants" => reply!(view, data, schemas::list_participants),
        "pp.v1.Query/GetParticipant" => reply!(view, data, schemas::get_participant),
        "pp.v1.Query/GetParticipantSession" => reply!(view, data, schemas::get_session),
        "pp.v1.Query/ListParticipantSessions" => reply!(view, data, schemas::list_sessions),
        "pp.v1.Query/FindBeneficiaries" => reply!(view, data, schemas::find_beneficiaries),
        "de.v1.Query/GetOperatorAuthorization" => reply!(view, data, delegation::get_authorization),
        "de.v1.Query/ListOperatorAuthorizations" => reply!(view, data, delegation::list_authorizations),
        "de.v1.Query/GetVSOperatorAuthorization" => reply!(view, data, delegation::get_vs_authorization),
        "de.v1.Query/ListVSOperatorAuthorizations" => reply!(view, data, delegation::list_vs_authorizations),
        "di.v1.Query/GetDigest" => reply!(view, data, schemas::get_digest),
        "td.v1.Query/GetTrustDeposit" => reply!(view, data, schemas::get_trust_deposit),
        "xr.v1.Query/GetExchangeRate" => reply!(view, data, schemas::get_rate),
        "xr.v1.Query/ListExchangeRates" => reply!(view, data, schemas::list_rates),
        "xr.v1.Query/GetPrice" => reply!(view, data, schemas::get_price),
        _ => Err(unknown_path(path)),
    }
}

fn query_sdk(view: &QueryContext<'_>, path: &str, data: &[u8]) -> Result<Vec<u8>, LedgerError> {
    match path {
        "/cosmos.auth.v1beta1.Query/Account" => reply!(view, data, sdk::account),
        "/cosmos.auth.v1beta1.Query/Accounts" => reply!(view, data, clients::accounts),
        "/cosmos.auth.v1beta1.Query/ModuleAccounts" => reply!(view, data, clients::module_accounts),
        "/cosmos.auth.v1beta1.Query/ModuleAccountByName" => reply!(view, data, clients::module_account_by_name),
        "/cosmos.auth.v1beta1.Query/AccountAddressByID" => reply!(view, data, clients::account_address_by_id),
        "/cosmos.auth.v1beta1.Query/AccountInfo" => reply!(view, data, sdk::account_info),
        "/cosmos.auth.v1beta1.Query/Params" => reply!(view, data, sdk::auth_params),
        "/cosmos.auth.v1beta1.Query/Bech32Prefix" => {
            Ok(auth::v1beta1::Bech32PrefixResponse { bech32_prefix: view.chain.prefix.clone() }.encode_to_vec())
        }
        "/cosmos.authz.v1beta1.Query/Grants" => reply!(view, data, sdk::authz_grants),
        "/cosmos.authz.v1beta1.Query/GranterGrants" => reply!(view, data, sdk::authz_granter_grants),
        "/cosmos.authz.v1beta1.Query/GranteeGrants" => reply!(view, data, sdk::authz_grantee_grants),
        "/cosmos.base.node.v1beta1.Service/Config" => reply!(view, data, sdk::node_config),
        "/cosmos.base.node.v1beta1.Service/Status" => reply!(view, data, sdk::node_status),
        "/cosmos.bank.v1beta1.Query/Balance" => reply!(view, data, sdk::balance),
        "/cosmos.bank.v1beta1.Query/AllBalances" => reply!(view, data, sdk::all_balances),
        "/cosmos.bank.v1beta1.Query/TotalSupply" => reply!(view, data, clients::total_supply),
        "/cosmos.bank.v1beta1.Query/SpendableBalances" => reply!(view, data, clients::spendable_balances),
        "/cosmos.bank.v1beta1.Query/DenomOwners" => reply!(view, data, clients::denom_owners),
        "/cosmos.bank.v1beta1.Query/Params" => reply!(view, data, clients::bank_params),
        "/cosmos.bank.v1beta1.Query/SendEnabled" => reply!(view, data, clients::send_enabled),
        "/cosmos.bank.v1beta1.Query/SupplyOf" => reply!(view, data, sdk::supply_of),
        "/cosmos.bank.v1beta1.Query/DenomsMetadata" => reply!(view, data, sdk::denoms_metadata),
        "/cosmos.consensus.v1.Query/Params" => reply!(view, data, clients::consensus_params),
        "/cosmos.distribution.v1beta1.Query/Params" => reply!(view, data, clients::distribution_params),
        "/cosmos.feegrant.v1beta1.Query/Allowance" => reply!(view, data, sdk::allowance),
        "/cosmos.feegrant.v1beta1.Query/Allowances" => reply!(view, data, sdk::allowances),
        "/cosmos.feegrant.v1beta1.Query/AllowancesByGranter" => reply!(view, data, sdk::allowances_by_granter),
        "/cosmos.gov.v1beta1.Query/Params" => reply!(view, data, old_gov::params),
        "/cosmos.gov.v1beta1.Query/Proposals" => reply!(view, data, old_gov::proposals),
        "/cosmos.gov.v1beta1.Query/Votes" => reply!(view, data, old_gov::votes),
        "/cosmos.gov.v1beta1.Query/TallyResult" => reply!(view, data, old_gov::tally),
        "/cosmos.gov.v1.Query/Params" => reply!(view, data, sdk::gov_params),
        "/cosmos.gov.v1.Query/Proposal" => reply!(view, data, sdk::gov_proposal),
        "/cosmos.gov.v1.Query/Proposals" => reply!(view, data, sdk::gov_proposals),
        "/cosmos.gov.v1.Query/Votes" => reply!(view, data, sdk::gov_votes),
        "/cosmos.gov.v1.Query/TallyResult" => reply!(view, data, sdk::gov_tally),
        "/cosmos.group.v1.Query/GroupInfo" => reply!(view, data, sdk::group_info),
        "/cosmos.group.v1.Query/GroupPolicyInfo" => reply!(view, data, sdk::group_policy_info),
        "/cosmos.group.v1.Query/GroupMembers" => reply!(view, data, sdk::group_members),
        "/cosmos.group.v1.Query/Groups" => reply!(view, data, clients::groups),
        "/cosmos.group.v1.Query/GroupsByAdmin" => reply!(view, data, clients::groups_by_admin),
        "/cosmos.group.v1.Query/GroupPoliciesByGroup" => reply!(view, data, clients::group_policies_by_group),
        "/cosmos.group.v1.Query/GroupPoliciesByAdmin" => reply!(view, data, clients::group_policies_by_admin),
        "/cosmos.group.v1.Query/VotesByVoter" => reply!(view, data, clients::votes_by_voter),
        "/cosmos.group.v1.Query/GroupsByMember" => reply!(view, data, sdk::groups_by_member),
        "/cosmos.group.v1.Query/Proposal" => reply!(view, data, sdk::proposal),
        "/cosmos.group.v1.Query/ProposalsByGroupPolicy" => reply!(view, data, sdk::proposals),
        "/cosmos.group.v1.Query/VotesByProposal" => reply!(view, data, sdk::votes),
        "/cosmos.group.v1.Query/TallyResult" => reply!(view, data, sdk::tally_result),
        "/cosmos.mint.v1beta1.Query/Params" => reply!(view, data, sdk::mint_params),
        "/cosmos.slashing.v1beta1.Query/Params" => reply!(view, data, clients::slashing_params),
        "/cosmos.staking.v1beta1.Query/Validators" => reply!(view, data, clients::validators),
        "/cosmos.staking.v1beta1.Query/DelegatorDelegations" => reply!(view, data, clients::delegator_delegations),
        "/cosmos.staking.v1beta1.Query/Pool" => reply!(view, data, clients::staking_pool),
        "/cosmos.upgrade.v1beta1.Query/CurrentPlan" => reply!(view, data, clients::current_plan),
        "/cosmos.upgrade.v1beta1.Query/AppliedPlan" => reply!(view, data, clients::applied_plan),
        "/cosmos.upgrade.v1beta1.Query/ModuleVersions" => reply!(view, data, clients::module_versions),
        "/cosmos.staking.v1beta1.Query/Params" => reply!(view, data, sdk::staking_params),
        "/cosmos.reflection.v1.ReflectionService/FileDescriptors" => {
            view.chain.served().map_err(|error| LedgerError::sdk(1, error))
        }
        _ => Err(unknown_path(path)),
    }
}

fn unknown_path(path: &str) -> LedgerError {
    LedgerError::sdk(6, format!("unknown query path: {path}"))
}
