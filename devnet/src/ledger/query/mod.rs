//! Queries, as `abci_query` answers them: path is a full gRPC method, data the request's bytes.

mod delegation;
mod framework;
mod platform;
mod schemas;

use prost::Message;
use prost_types::Timestamp;
use svc_wire::{
    instant,
    proto::{
        cosmos::{
            auth,
            base::query::v1beta1::{PageRequest, PageResponse},
        },
        svc::{co, cs, de, di, ec, gf, pp, td, xr},
    },
};

use super::{
    error::{LedgerError, Status},
    exec::{Block, Chain},
    state::State,
};

const DEFAULT_SIZE: u32 = 64;
const MAX_SIZE: u32 = 1024;
/// Entries of a page of the SDK's own lists, unless asked otherwise.
const SDK_PAGE: u64 = 100;

/// What a query looks at.
struct View<'a> {
    state: &'a State,
    chain: &'a Chain,
    block: Block,
}

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

/// `modified_after` is strict.
fn is_after(modified: Option<Timestamp>, after: Option<Timestamp>) -> bool {
    let nanos = |instant: Option<Timestamp>| instant.as_ref().map_or(0, instant::nanos);
    after.is_none() || nanos(modified) > nanos(after)
}

/// A page as the SDK cuts it. The key of the next page is its offset.
fn paginate<T>(
    items: impl DoubleEndedIterator<Item = T>,
    request: Option<PageRequest>,
) -> Result<(Vec<T>, Option<PageResponse>), LedgerError> {
    let request = request.unwrap_or(PageRequest { count_total: true, ..PageRequest::default() });
    let invalid = |text: &str| LedgerError::of_query(Status::InvalidArgument, text);
    if request.offset > 0 && !request.key.is_empty() {
        return Err(invalid("invalid request, either offset or key is expected, got both"));
    }
    let offset = if request.key.is_empty() {
        request.offset
    } else {
        let key = request.key.as_slice().try_into().map_err(|_| invalid("invalid pagination key"))?;
        u64::from_be_bytes(key)
    };
    let limit = if request.limit == 0 { SDK_PAGE } else { request.limit };
    let mut all: Vec<T> = items.collect();
    if request.reverse {
        all.reverse();
    }
    let total = all.len() as u64;
    let next = offset.saturating_add(limit);
    let next_key = if next < total { next.to_be_bytes().to_vec() } else { Vec::new() };
    let position = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let page = all.into_iter().skip(position(offset)).take(position(limit)).collect();
    let counted = if request.count_total && request.key.is_empty() { total } else { 0 };
    Ok((page, Some(PageResponse { next_key, total: counted })))
}

/// Answers a query on the state after `block`.
pub fn query(state: &State, chain: &Chain, block: Block, path: &str, data: &[u8]) -> Result<Vec<u8>, LedgerError> {
    let view = View { state, chain, block };
    let registry = format!("/{}.", chain.namespace());
    match path.strip_prefix(&registry) {
        Some(local) => of_registry(&view, local, data),
        None => of_platform(&view, path, data),
    }
}

/// Decodes the request, asks, encodes the reply.
macro_rules! reply {
    ($view:expr, $data:expr, $handler:expr) => {{
        let request = Message::decode($data)
            .map_err(|error: prost::DecodeError| LedgerError::of_query(Status::InvalidArgument, error))?;
        Ok($handler($view, request)?.encode_to_vec())
    }};
}

fn of_registry(view: &View<'_>, path: &str, data: &[u8]) -> Result<Vec<u8>, LedgerError> {
    macro_rules! params {
        ($module:ident, $params:expr) => {
            Ok($module::v1::QueryParamsResponse { params: Some($params) }.encode_to_vec())
        };
    }
    let params = &view.state.params;
    match path {
        "co.v1.Query/Params" => params!(co, co::v1::Params {}),
        "co.v1.Query/GetCorporation" => reply!(view, data, framework::get_corporation),
        "co.v1.Query/ListCorporations" => reply!(view, data, framework::list_corporations),
        "ec.v1.Query/Params" => params!(ec, params.ec),
        "ec.v1.Query/GetEcosystem" => reply!(view, data, framework::get_ecosystem),
        "ec.v1.Query/ListEcosystems" => reply!(view, data, framework::list_ecosystems),
        "gf.v1.Query/Params" => params!(gf, gf::v1::Params {}),
        "gf.v1.Query/GetGovernanceFrameworkVersion" => reply!(view, data, framework::get_version),
        "gf.v1.Query/ListGovernanceFrameworkVersions" => reply!(view, data, framework::list_versions),
        "cs.v1.Query/Params" => params!(cs, params.cs),
        "cs.v1.Query/ListCredentialSchemas" => reply!(view, data, schemas::list_schemas),
        "cs.v1.Query/GetCredentialSchema" => reply!(view, data, schemas::get_schema),
        "cs.v1.Query/RenderJsonSchema" => reply!(view, data, schemas::render_schema),
        "cs.v1.Query/GetSchemaAuthorizationPolicy" => reply!(view, data, schemas::get_policy),
        "cs.v1.Query/ListSchemaAuthorizationPolicies" => reply!(view, data, schemas::list_policies),
        "pp.v1.Query/Params" => params!(pp, params.pp),
        "pp.v1.Query/ListParticipants" => reply!(view, data, schemas::list_participants),
        "pp.v1.Query/GetParticipant" => reply!(view, data, schemas::get_participant),
        "pp.v1.Query/GetParticipantSession" => reply!(view, data, schemas::get_session),
        "pp.v1.Query/ListParticipantSessions" => reply!(view, data, schemas::list_sessions),
        "pp.v1.Query/FindBeneficiaries" => reply!(view, data, schemas::find_beneficiaries),
        "de.v1.Query/Params" => params!(de, de::v1::Params {}),
        "de.v1.Query/GetOperatorAuthorization" => reply!(view, data, delegation::get_authorization),
        "de.v1.Query/ListOperatorAuthorizations" => reply!(view, data, delegation::list_authorizations),
        "de.v1.Query/GetVSOperatorAuthorization" => reply!(view, data, delegation::get_vs_authorization),
        "de.v1.Query/ListVSOperatorAuthorizations" => reply!(view, data, delegation::list_vs_authorizations),
        "di.v1.Query/Params" => params!(di, di::v1::Params {}),
        "di.v1.Query/GetDigest" => reply!(view, data, schemas::get_digest),
        "td.v1.Query/Params" => params!(td, params.td.clone()),
        "td.v1.Query/GetTrustDeposit" => reply!(view, data, schemas::get_trust_deposit),
        "xr.v1.Query/Params" => params!(xr, params.xr),
        "xr.v1.Query/GetExchangeRate" => reply!(view, data, schemas::get_rate),
        "xr.v1.Query/ListExchangeRates" => reply!(view, data, schemas::list_rates),
        "xr.v1.Query/GetPrice" => reply!(view, data, schemas::get_price),
        _ => Err(unknown(path)),
    }
}

fn of_platform(view: &View<'_>, path: &str, data: &[u8]) -> Result<Vec<u8>, LedgerError> {
    match path {
        "/cosmos.auth.v1beta1.Query/Account" => reply!(view, data, platform::account),
        "/cosmos.auth.v1beta1.Query/AccountInfo" => reply!(view, data, platform::account_info),
        "/cosmos.auth.v1beta1.Query/Params" => reply!(view, data, platform::auth_params),
        "/cosmos.auth.v1beta1.Query/Bech32Prefix" => {
            Ok(auth::v1beta1::Bech32PrefixResponse { bech32_prefix: view.chain.prefix.clone() }.encode_to_vec())
        }
        "/cosmos.authz.v1beta1.Query/Grants" => reply!(view, data, platform::authz_grants),
        "/cosmos.authz.v1beta1.Query/GranterGrants" => reply!(view, data, platform::authz_granter_grants),
        "/cosmos.authz.v1beta1.Query/GranteeGrants" => reply!(view, data, platform::authz_grantee_grants),
        "/cosmos.bank.v1beta1.Query/Balance" => reply!(view, data, platform::balance),
        "/cosmos.bank.v1beta1.Query/AllBalances" => reply!(view, data, platform::all_balances),
        "/cosmos.bank.v1beta1.Query/SupplyOf" => reply!(view, data, platform::supply_of),
        "/cosmos.bank.v1beta1.Query/DenomsMetadata" => reply!(view, data, platform::denoms_metadata),
        "/cosmos.feegrant.v1beta1.Query/Allowance" => reply!(view, data, platform::allowance),
        "/cosmos.feegrant.v1beta1.Query/Allowances" => reply!(view, data, platform::allowances),
        "/cosmos.feegrant.v1beta1.Query/AllowancesByGranter" => reply!(view, data, platform::allowances_by_granter),
        "/cosmos.gov.v1.Query/Params" => reply!(view, data, platform::gov_params),
        "/cosmos.gov.v1.Query/Proposal" => reply!(view, data, platform::gov_proposal),
        "/cosmos.gov.v1.Query/Proposals" => reply!(view, data, platform::gov_proposals),
        "/cosmos.gov.v1.Query/Votes" => reply!(view, data, platform::gov_votes),
        "/cosmos.gov.v1.Query/TallyResult" => reply!(view, data, platform::gov_tally),
        "/cosmos.group.v1.Query/GroupInfo" => reply!(view, data, platform::group_info),
        "/cosmos.group.v1.Query/GroupPolicyInfo" => reply!(view, data, platform::group_policy_info),
        "/cosmos.group.v1.Query/GroupMembers" => reply!(view, data, platform::group_members),
        "/cosmos.group.v1.Query/GroupsByMember" => reply!(view, data, platform::groups_by_member),
        "/cosmos.group.v1.Query/Proposal" => reply!(view, data, platform::proposal),
        "/cosmos.group.v1.Query/ProposalsByGroupPolicy" => reply!(view, data, platform::proposals),
        "/cosmos.group.v1.Query/VotesByProposal" => reply!(view, data, platform::votes),
        "/cosmos.group.v1.Query/TallyResult" => reply!(view, data, platform::tally_result),
        "/cosmos.mint.v1beta1.Query/Params" => reply!(view, data, platform::mint_params),
        "/cosmos.staking.v1beta1.Query/Params" => reply!(view, data, platform::staking_params),
        "/cosmos.reflection.v1.ReflectionService/FileDescriptors" => Ok(view.chain.registry.file_descriptors()),
        _ => Err(unknown(path)),
    }
}

fn unknown(path: &str) -> LedgerError {
    LedgerError::sdk(6, format!("unknown query path: {path}"))
}
