//! Credential schemas, policies, participants, sessions, trust deposits, digests and exchange rates.

use num_bigint::BigUint;
use svc_wire::{
    proto::svc::{cs, di, pp, td, xr},
    timestamp,
};

use super::view::{QueryContext, is_after, not_found, page_size};
use crate::{
    error::{LedgerError, QueryStatus},
    modules::{
        pp::{beneficiaries, inactive_reason},
        xr::{PriceError, convert_amount},
    },
    state::keys::RatePairKey,
};

fn invalid(text: impl std::fmt::Display) -> LedgerError {
    LedgerError::from_query(QueryStatus::InvalidArgument, text)
}

pub fn list_schemas(
    view: &QueryContext<'_>,
    request: cs::v1::QueryListCredentialSchemasRequest,
) -> Result<cs::v1::QueryListCredentialSchemasResponse, LedgerError> {
    let is_wanted = |one: &&cs::v1::CredentialSchema| {
        let matches = |asked: i32, is: i32| asked == 0 || asked == is;
        (request.ecosystem_id == 0 || one.ecosystem_id == request.ecosystem_id)
            && (!request.only_active || one.archived.is_none())
            && matches(request.issuer_onboarding_mode, one.issuer_onboarding_mode)
            && matches(request.verifier_onboarding_mode, one.verifier_onboarding_mode)
            && matches(request.holder_onboarding_mode, one.holder_onboarding_mode)
            && is_after(one.modified, request.modified_after)
    };
    let mut found: Vec<_> = view.state.schemas.values().filter(is_wanted).collect();
    // The sort is stable: equal times stay in the order of ids.
    found.sort_by_key(|one| std::cmp::Reverse(one.modified.as_ref().map_or(0, timestamp::unix_nanos)));
    let schemas = found.into_iter().take(page_size(request.response_max_size)?).cloned().collect();
    Ok(cs::v1::QueryListCredentialSchemasResponse { schemas })
}

fn schema(view: &QueryContext<'_>, id: u64) -> Result<cs::v1::CredentialSchema, LedgerError> {
    let found = view.state.schemas.peek(&id).cloned();
    found.ok_or_else(|| not_found(format!("credential schema {id} not found")))
}

pub fn get_schema(
    view: &QueryContext<'_>,
    request: cs::v1::QueryGetCredentialSchemaRequest,
) -> Result<cs::v1::QueryGetCredentialSchemaResponse, LedgerError> {
    Ok(cs::v1::QueryGetCredentialSchemaResponse { schema: Some(schema(view, request.id)?) })
}

pub fn render_schema(
    view: &QueryContext<'_>,
    request: cs::v1::QueryRenderJsonSchemaRequest,
) -> Result<cs::v1::QueryRenderJsonSchemaResponse, LedgerError> {
    Ok(cs::v1::QueryRenderJsonSchemaResponse { schema: schema(view, request.id)?.json_schema })
}

pub fn get_policy(
    view: &QueryContext<'_>,
    request: cs::v1::QueryGetSchemaAuthorizationPolicyRequest,
) -> Result<cs::v1::QueryGetSchemaAuthorizationPolicyResponse, LedgerError> {
    let found = view.state.schema_policies.peek(&request.id).cloned();
    let found = found.ok_or_else(|| not_found(format!("schema authorization policy {} not found", request.id)))?;
    Ok(cs::v1::QueryGetSchemaAuthorizationPolicyResponse { authorization_policy: Some(found) })
}

pub fn list_policies(
    view: &QueryContext<'_>,
    request: cs::v1::QueryListSchemaAuthorizationPoliciesRequest,
) -> Result<cs::v1::QueryListSchemaAuthorizationPoliciesResponse, LedgerError> {
    let is_wanted = |one: &&cs::v1::SchemaAuthorizationPolicy| {
        one.schema_id == request.schema_id && (request.role == 0 || one.role == request.role)
    };
    let policies = view.state.schema_policies.values().filter(is_wanted).cloned().collect();
    Ok(cs::v1::QueryListSchemaAuthorizationPoliciesResponse { policies })
}

/// Quirks: `participant_id` filters by validator, `grantee` by VS operator, and `modified_after` is inclusive here.
pub fn list_participants(
    view: &QueryContext<'_>,
    request: pp::v1::QueryListParticipantsRequest,
) -> Result<pp::v1::QueryListParticipantsResponse, LedgerError> {
    let when = request.when.unwrap_or(view.block.time);
    let after = request.modified_after.as_ref().map(timestamp::unix_nanos);
    let modified = |one: &pp::v1::Participant| one.modified.as_ref().map_or(0, timestamp::unix_nanos);
    let is_wanted = |one: &&pp::v1::Participant| {
        after.is_none_or(|after| modified(one) >= after)
            && (request.schema_id == 0 || one.schema_id == request.schema_id)
            && (request.grantee.is_empty() || one.vs_operator == request.grantee)
            && (request.did.is_empty() || one.did == request.did)
            && (request.participant_id == 0 || one.validator_participant_id == request.participant_id)
            && (request.role == 0 || one.role == request.role)
            && (!request.only_valid || inactive_reason(one, &when).is_none())
            && (!request.only_slashed || one.slashed.is_some())
            && (!request.only_repaid || one.repaid.is_some())
            && (request.op_state == 0 || one.op_state == request.op_state)
    };
    let mut found: Vec<_> = view.state.participants.values().filter(is_wanted).collect();
    found.sort_by_key(|one| modified(one));
    let participants = found.into_iter().take(page_size(request.response_max_size)?).cloned().collect();
    Ok(pp::v1::QueryListParticipantsResponse { participants })
}

/// Quirk: an unknown id is gRPC Internal, not NotFound.
pub fn get_participant(
    view: &QueryContext<'_>,
    request: pp::v1::QueryGetParticipantRequest,
) -> Result<pp::v1::QueryGetParticipantResponse, LedgerError> {
    let found = view.state.participants.peek(&request.id).cloned();
    let missing =
        || LedgerError::from_query(QueryStatus::Other, format!("failed to get participant {}: not found", request.id));
    Ok(pp::v1::QueryGetParticipantResponse { participant: Some(found.ok_or_else(missing)?) })
}

pub fn get_session(
    view: &QueryContext<'_>,
    request: pp::v1::QueryGetParticipantSessionRequest,
) -> Result<pp::v1::QueryGetParticipantSessionResponse, LedgerError> {
    let found = view.state.sessions.peek(&request.id).cloned();
    let found = found.ok_or_else(|| not_found(format!("participant session {} not found", request.id)))?;
    Ok(pp::v1::QueryGetParticipantSessionResponse { participant_session: Some(found) })
}

pub fn list_sessions(
    view: &QueryContext<'_>,
    request: pp::v1::QueryListParticipantSessionsRequest,
) -> Result<pp::v1::QueryListParticipantSessionsResponse, LedgerError> {
    let mut found: Vec<_> =
        view.state.sessions.values().filter(|one| is_after(one.modified, request.modified_after)).collect();
    found.sort_by_key(|one| one.modified.as_ref().map_or(0, timestamp::unix_nanos));
    let participant_sessions = found.into_iter().take(page_size(request.response_max_size)?).cloned().collect();
    Ok(pp::v1::QueryListParticipantSessionsResponse { participant_sessions })
}

pub fn find_beneficiaries(
    view: &QueryContext<'_>,
    request: pp::v1::QueryFindBeneficiariesRequest,
) -> Result<pp::v1::QueryFindBeneficiariesResponse, LedgerError> {
    if request.issuer_participant_id == 0 && request.verifier_participant_id == 0 {
        return Err(invalid("issuer_participant_id or verifier_participant_id is required"));
    }
    let find = |id: u64| match id {
        0 => Ok(None),
        _ => {
            view.state.participants.peek(&id).map(Some).ok_or_else(|| not_found(format!("participant {id} not found")))
        }
    };
    let (issuer, verifier) = (find(request.issuer_participant_id)?, find(request.verifier_participant_id)?);
    Ok(pp::v1::QueryFindBeneficiariesResponse { participants: beneficiaries(view.state, issuer, verifier) })
}

pub fn get_trust_deposit(
    view: &QueryContext<'_>,
    request: td::v1::QueryGetTrustDepositRequest,
) -> Result<td::v1::QueryGetTrustDepositResponse, LedgerError> {
    if request.corporation_id == 0 {
        return Err(invalid("corporation_id is required"));
    }
    let found = view.state.trust_deposits.peek(&request.corporation_id).cloned();
    let missing = || not_found(format!("trust deposit of corporation {} not found", request.corporation_id));
    Ok(td::v1::QueryGetTrustDepositResponse { trust_deposit: Some(found.ok_or_else(missing)?) })
}

pub fn get_digest(
    view: &QueryContext<'_>,
    request: di::v1::QueryGetDigestRequest,
) -> Result<di::v1::QueryGetDigestResponse, LedgerError> {
    if request.digest.is_empty() {
        return Err(invalid("digest is required"));
    }
    let found = view.state.digests.peek(&request.digest);
    let found = found.ok_or_else(|| not_found(format!("digest {} not found", request.digest)))?;
    let digest = Some(di::v1::DigestInfo { digest: found.digest.clone(), created: found.created });
    Ok(di::v1::QueryGetDigestResponse { digest })
}

fn is_in_state(rate: &xr::v1::ExchangeRate, filter: xr::v1::StateFilter) -> bool {
    match filter {
        xr::v1::StateFilter::Unspecified => true,
        xr::v1::StateFilter::Active => rate.state,
        xr::v1::StateFilter::Inactive => !rate.state,
    }
}

/// Finds a rate by id or by pair.
pub fn get_rate(
    view: &QueryContext<'_>,
    request: xr::v1::QueryGetExchangeRateRequest,
) -> Result<xr::v1::QueryGetExchangeRateResponse, LedgerError> {
    let pair = RatePairKey {
        base_type: request.base_asset_type,
        base: request.base_asset.clone(),
        quote_type: request.quote_asset_type,
        quote: request.quote_asset.clone(),
    };
    let has_pair = pair.base_type > 0 && !pair.base.is_empty() && pair.quote_type > 0 && !pair.quote.is_empty();
    let id = match request.id {
        0 if !has_pair => return Err(invalid("id or a complete pair of assets is required")),
        0 => view.state.rate_index.peek(&pair).map_or(0, |id| id.0),
        id => id,
    };
    let found = view.state.rates.peek(&id).filter(|rate| {
        let lasts = |moment| rate.expires.as_ref().is_some_and(|until| !timestamp::is_at_or_before(until, moment));
        is_in_state(rate, request.state()) && request.expire_ts.as_ref().is_none_or(lasts)
    });
    let rate = found.cloned().ok_or_else(|| not_found("exchange rate not found"))?;
    let authorizations = view.state.rate_authorizations.range((id, String::new())..(id + 1, String::new()));
    Ok(xr::v1::QueryGetExchangeRateResponse {
        exchange_rate: Some(rate),
        authorizations: authorizations.map(|(_, one)| one.clone()).collect(),
    })
}

/// Quirk: an asset together with the type TU is refused, although "tu" is that asset.
pub fn list_rates(
    view: &QueryContext<'_>,
    request: xr::v1::QueryListExchangeRatesRequest,
) -> Result<xr::v1::QueryListExchangeRatesResponse, LedgerError> {
    use svc_wire::proto::svc::cs::v1::PricingAssetType::Tu;
    let with_asset = |kind, asset: &str| kind == Tu && !asset.is_empty();
    if with_asset(request.base_asset_type(), &request.base_asset)
        || with_asset(request.quote_asset_type(), &request.quote_asset)
    {
        return Err(invalid("an asset cannot be given for asset type TU"));
    }
    let size = page_size(request.response_max_size)?;
    let is_wanted = |one: &&xr::v1::ExchangeRate| {
        let kind = |asked: i32, is: i32| asked == 0 || asked == is;
        let asset = |asked: &str, is: &str| asked.is_empty() || asked == is;
        let lasts = |moment| one.expires.as_ref().is_some_and(|until| !timestamp::is_at_or_before(until, moment));
        kind(request.base_asset_type, one.base_asset_type)
            && kind(request.quote_asset_type, one.quote_asset_type)
            && asset(&request.base_asset, &one.base_asset)
            && asset(&request.quote_asset, &one.quote_asset)
            && is_in_state(one, request.state())
            && request.expire.as_ref().is_none_or(lasts)
    };
    let exchange_rates = view.state.rates.values().filter(is_wanted).take(size).cloned().collect();
    Ok(xr::v1::QueryListExchangeRatesResponse { exchange_rates })
}

pub fn get_price(
    view: &QueryContext<'_>,
    request: xr::v1::QueryGetPriceRequest,
) -> Result<xr::v1::QueryGetPriceResponse, LedgerError> {
    let amount = request.amount.parse::<BigUint>().ok().filter(|amount| amount.bits() > 0 && amount.bits() <= 256);
    let amount =
        amount.ok_or_else(|| invalid(format!("amount must be a positive integer, got {:?}", request.amount)))?;
    let base = (request.base_asset_type(), request.base_asset.as_str());
    let quote = (request.quote_asset_type(), request.quote_asset.as_str());
    let price = convert_amount(view.state, &view.block.time, base, quote, &amount).map_err(|cause| {
        let status = match cause {
            PriceError::Missing => QueryStatus::NotFound,
            // `abci_query` maps FailedPrecondition and InvalidArgument to the same code.
            PriceError::Disabled | PriceError::Expired => QueryStatus::InvalidArgument,
            PriceError::Overflow => QueryStatus::Other,
        };
        LedgerError::from_query(status, cause.grpc_text())
    })?;
    Ok(xr::v1::QueryGetPriceResponse { price: price.to_string() })
}
