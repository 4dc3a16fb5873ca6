//! Flows with peers: participants that are validated, and credentials that are issued.

use axum::{
    extract::{Path, Request, State, rejection::PathRejection},
    response::Response,
};
use serde_json::{Map, Value};
use svc_agent::{
    CredentialTerms, FlowCall, FlowConnectionState, FlowFilter, FlowRequest, FlowSide, FlowState, Refusal, RefusalCode,
    ShownFlow, ValidationTerms,
};
use svc_wire::timestamp;

use crate::admin::{
    api::AdminApi,
    flows::bodies::{
        Flow, FlowComment, FlowEnd, FlowRejection, FlowRepetition, FlowTerms, NewClaims, NewFlow, NewFlowLink,
    },
    format::{
        answer::{Answer, to_response},
        page::{page, parse_cursor},
        request::{BodyMembers, QueryParameters, parse_path},
        schema::{BodyRefusals, Page, ReadRefusals},
    },
    peers::{
        conversation_bodies::{PeerRefusals, Record},
        conversations::take_word,
    },
};

/// The format of every credential, in the words of an older text.
const CREDENTIAL_FORMAT: &str = "JSON_LD";
/// Ten-thousandths in a discount of 1.
const DISCOUNT_PARTS: f64 = 10_000.0;

impl From<ShownFlow> for Record {
    fn from(flow: ShownFlow) -> Self {
        Self::of(flow.record)
    }
}

fn invalid(path: &str, rule: &str) -> Refusal {
    Refusal::of_member(RefusalCode::InvalidInput, path, rule)
}

/// An id of the registry.
fn parse_id(path: &str, text: &str) -> Result<u64, Refusal> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let id = text.parse().ok().filter(|id: &u64| is_plain && *id > 0 && i64::try_from(*id).is_ok());
    id.ok_or_else(|| invalid(path, "it is no id of the registry: a text of digits"))
}

fn take_claims(members: &mut BodyMembers) -> Result<Option<Map<String, Value>>, Refusal> {
    match members.take("claims")? {
        None => Ok(None),
        Some(Value::Object(claims)) => Ok(Some(claims)),
        Some(_) => Err(invalid("claims", "it is no JSON object")),
    }
}

/// A time in milliseconds since the epoch.
fn take_time(members: &mut BodyMembers, name: &str) -> Result<Option<i64>, Refusal> {
    let Some(text) = members.take_text(name)? else { return Ok(None) };
    let time = timestamp::parse_rfc3339(&text).map(|time| time.seconds);
    // Years of four digits have another form on the way back.
    let time = time.filter(|seconds| (0..253_402_300_800).contains(seconds));
    time.map(|seconds| Some(seconds * 1_000)).ok_or_else(|| invalid(name, "it is no time of RFC 3339"))
}

/// The terms of a credential, in the words of an older text. A member of another kind is no term either.
fn take_credential_terms(members: &mut BodyMembers) -> Result<CredentialTerms, Refusal> {
    let of_terms = |refusal: Refusal| Refusal { code: RefusalCode::InvalidTerms, ..refusal };
    parse_credential_terms(members).map_err(of_terms)
}

fn parse_credential_terms(members: &mut BodyMembers) -> Result<CredentialTerms, Refusal> {
    if members.take_text("credentialFormat")?.is_some_and(|format| format != CREDENTIAL_FORMAT) {
        return Err(invalid("credentialFormat", "allowed is JSON_LD, the format of every credential"));
    }
    let present_as_linked_vp = match members.take("presentAsLinkedVp")? {
        None => None,
        Some(value) => Some(value.as_bool().ok_or_else(|| invalid("presentAsLinkedVp", "it is not true or false"))?),
    };
    let mut time = |name: &str| take_time(members, name).map(|time| time.map(|millis| millis / 1_000));
    Ok(CredentialTerms {
        valid_from: time("credentialValidFrom")?,
        valid_until: time("credentialValidUntil")?,
        present_as_linked_vp,
    })
}

/// A page of the flows, in the order of their beginnings.
#[utoipa::path(get, path = "/v2/vt/flows", operation_id = "listFlows", tag = "flows",
    params(("limit" = Option<u16>, Query, minimum = 1, maximum = 500, description = "Items of the page; 100 when absent."),
        ("cursor" = Option<String>, Query, description = "nextCursor of the page before."),
        ("role" = Option<String>, Query, description = "applicant or validator."),
        ("connectionState" = Option<String>, Query, description = "NOT_CONNECTED, ESTABLISHED or TERMINATED."),
        ("flowState" = Option<String>, Query, description = "A state of flows."),
        ("peerDid" = Option<String>, Query, description = "DID of the peer."),
        ("applicantParticipantId" = Option<String>, Query, description = "The applicant's participant."),
        ("validatorParticipantId" = Option<String>, Query, description = "The validator's participant."),
        ("schemaId" = Option<String>, Query, description = "The schema."),
        ("participantSessionId" = Option<String>, Query, description = "The session, also one of before.")),
    responses((status = 200, body = Page<Flow>), ReadRefusals))]
pub(in crate::admin) async fn list_flows(State(api): State<AdminApi>, request: Request) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let answer = async || -> Answer<Page<Record>> {
        let mut query = QueryParameters::parse(query.as_deref())?;
        let (limit, cursor) = (query.take_limit()?, query.take("cursor"));
        let states: Vec<&str> = FlowState::ALL.iter().map(|state| state.as_str()).collect();
        let connections: Vec<&str> = FlowConnectionState::ALL.iter().map(|state| state.as_str()).collect();
        let role = take_word(&mut query, "role", &["applicant", "validator"])?;
        let state = take_word(&mut query, "flowState", &states)?;
        let connection = take_word(&mut query, "connectionState", &connections)?;
        let mut id = |name: &str| query.take(name).map(|text| parse_id(name, &text)).transpose();
        let filter = FlowFilter {
            applicant_participant_id: id("applicantParticipantId")?,
            validator_participant_id: id("validatorParticipantId")?,
            schema_id: id("schemaId")?,
            side: role.map(|role| if role == "applicant" { FlowSide::Applicant } else { FlowSide::Validator }),
            connection_state: connection.and_then(|state| FlowConnectionState::parse(&state)),
            state: state.and_then(|state| FlowState::parse(&state)),
            peer_did: query.take("peerDid"),
            session_id: query.take("participantSessionId"),
            is_live: None,
        };
        query.finish(
            "limit, cursor, role, connectionState, flowState, peerDid, applicantParticipantId, validatorParticipantId, schemaId, \
             participantSessionId",
        )?;
        let list = format!("listFlows {filter:?}");
        let last = parse_cursor(cursor.as_deref(), &list)?;
        let found = api.agent.flows().list(&filter, last.as_deref(), limit + 1).await?;
        Ok(page(found, limit, &list, |one| one.id.clone()))
    };
    to_response(answer().await)
}

/// Opens a flow of this agent as applicant: of a participant of its DID, or for a credential without an onboarding.
#[utoipa::path(post, path = "/v2/vt/flows", operation_id = "openFlow", tag = "flows", request_body = NewFlow,
    responses((status = 200, body = Flow), ReadRefusals, BodyRefusals, PeerRefusals))]
pub(in crate::admin) async fn open_flow(State(api): State<AdminApi>, request: Request) -> Response {
    let answer = async || -> Answer<Record> {
        QueryParameters::parse(request.uri().query())?.finish("none")?;
        let mut members = BodyMembers::read(request).await?;
        let id = |members: &mut BodyMembers, name: &str| -> Result<Option<u64>, Refusal> {
            members.take_text(name)?.map(|text| parse_id(name, &text)).transpose()
        };
        let asked = FlowRequest {
            participant_id: id(&mut members, "participantId")?,
            schema_id: id(&mut members, "schemaId")?,
            did: members.take_text("did")?,
            claims: take_claims(&mut members)?,
        };
        members.finish("participantId, did, schemaId, claims")?;
        Ok(api.agent.flows().open(asked).await?.into())
    };
    to_response(answer().await)
}

/// A flow, by its session.
#[utoipa::path(get, path = "/v2/vt/flows/{participantSessionId}", operation_id = "getFlow", tag = "flows",
    params(("participantSessionId" = String, Path, description = "Session of the flow, also one of before.")),
    responses((status = 200, body = Flow), ReadRefusals, PeerRefusals))]
pub(in crate::admin) async fn get_flow(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let answer = async || -> Answer<Record> {
        QueryParameters::parse(query.as_deref())?.finish("none")?;
        Ok(api.agent.flows().get(&parse_path(path)?).await?.into())
    };
    to_response(answer().await)
}

/// Performs a call whose body is read by `parse`. `is_optional` takes a request without a body.
async fn call(
    api: &AdminApi,
    path: Result<Path<String>, PathRejection>,
    request: Request,
    is_optional: bool,
    parse: impl FnOnce(BodyMembers) -> Result<FlowCall, Refusal>,
) -> Answer<Record> {
    let session = parse_path(path)?;
    QueryParameters::parse(request.uri().query())?.finish("none")?;
    let members =
        if is_optional { BodyMembers::read_optional(request).await? } else { BodyMembers::read(request).await? };
    Ok(api.agent.flows().call(&session, &parse(members)?).await?.into())
}

/// Replaces the claims of the credential. The answer is the claims as they are stored; the schema judges them with the validation.
#[utoipa::path(put, path = "/v2/vt/flows/{participantSessionId}/claims", operation_id = "editCredentialClaims", tag = "flows",
    params(("participantSessionId" = String, Path, description = "Session of the flow.")), request_body = NewClaims,
    responses((status = 200, body = Object), ReadRefusals, BodyRefusals, PeerRefusals))]
pub(in crate::admin) async fn edit_claims(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let answer = async || -> Answer<Value> {
        let parse = |mut members: BodyMembers| {
            let claims = take_claims(&mut members)?.ok_or_else(|| invalid("claims", "it is missing"))?;
            members.finish("claims")?;
            Ok(FlowCall::EditClaims(claims))
        };
        Ok(call(&api, path, request, false, parse).await?.into_member("claims"))
    };
    to_response(answer().await)
}

/// Sends the applicant to a link.
#[utoipa::path(post, path = "/v2/vt/flows/{participantSessionId}/oob-link", operation_id = "sendOobLink", tag = "flows",
    params(("participantSessionId" = String, Path, description = "Session of the flow.")), request_body = NewFlowLink,
    responses((status = 200, body = Flow), ReadRefusals, BodyRefusals, PeerRefusals))]
pub(in crate::admin) async fn send_oob_link(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let parse = |mut members: BodyMembers| {
        let url = members.require_text("url")?;
        let description = match members.take_text("message")? {
            None => members.require_text("description")?,
            Some(message) => match members.take_text("description")? {
                Some(description) if description != message => {
                    return Err(invalid("message", "it is another name of description, and differs from it"));
                }
                _ => message,
            },
        };
        let expires_at = take_time(&mut members, "expiresAt")?;
        members.finish("url, description, expiresAt, message")?;
        Ok(FlowCall::SendOobLink { url, description, expires_at })
    };
    to_response(call(&api, path, request, false, parse).await)
}

/// Goes on behind a link.
#[utoipa::path(post, path = "/v2/vt/flows/{participantSessionId}/start-validation", operation_id = "startValidation",
    tag = "flows", params(("participantSessionId" = String, Path, description = "Session of the flow.")),
    request_body(content = FlowComment, description = "May be absent."),
    responses((status = 200, body = Flow), ReadRefusals, BodyRefusals, PeerRefusals))]
pub(in crate::admin) async fn start_validation(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let parse = |mut members: BodyMembers| {
        let comment = members.take_text("comment")?;
        members.finish("comment")?;
        Ok(FlowCall::StartValidation { comment })
    };
    to_response(call(&api, path, request, true, parse).await)
}

/// Validates the applicant, or has its credential issued. The answer does not wait for a block; a transaction that would fail is
/// VALIDATION_TX_FAILED in the record.
#[utoipa::path(post, path = "/v2/vt/flows/{participantSessionId}/validate", operation_id = "validateFlow", tag = "flows",
    params(("participantSessionId" = String, Path, description = "Session of the flow.")),
    request_body(content = FlowTerms, description = "May be absent."),
    responses((status = 200, body = Flow), ReadRefusals, BodyRefusals, PeerRefusals))]
pub(in crate::admin) async fn validate_flow(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let answer = async || -> Answer<Record> {
        let session = parse_path(path)?;
        QueryParameters::parse(request.uri().query())?.finish("none")?;
        let mut members = BodyMembers::read_optional(request).await?;
        let fee = |members: &mut BodyMembers, name: &str| match members.take(name)? {
            None => Ok(None),
            // The chain takes no more; a whole number may be written with a fraction of zero.
            Some(value) => {
                let of_float =
                    |number: f64| (number.fract() == 0.0 && (0.0..9e15).contains(&number)).then_some(number as u64);
                let fee = value.as_u64().or_else(|| value.as_f64().and_then(of_float));
                let fee = fee.filter(|fee| i64::try_from(*fee).is_ok());
                fee.map(Some).ok_or_else(|| invalid(name, "it is no whole number of 0 or more"))
            }
        };
        let discount = |members: &mut BodyMembers, name: &str| match members.take(name)? {
            None => Ok(None),
            Some(value) => {
                let parts = value.as_f64().filter(|part| (0.0..=1.0).contains(part));
                let parts = parts.map(|part| (part * DISCOUNT_PARTS).round() as u64);
                parts.map(Some).ok_or_else(|| invalid(name, "it is no number from 0 to 1"))
            }
        };
        let terms = ValidationTerms {
            validation_fees: fee(&mut members, "validationFees")?,
            issuance_fees: fee(&mut members, "issuanceFees")?,
            verification_fees: fee(&mut members, "verificationFees")?,
            issuance_fee_discount: discount(&mut members, "issuanceFeeDiscount")?,
            verification_fee_discount: discount(&mut members, "verificationFeeDiscount")?,
            effective_until: take_time(&mut members, "effectiveUntil")?.map(|millis| millis / 1_000),
            op_summary_digest: members.take_text("opSummaryDigest")?,
            credential: take_credential_terms(&mut members)?,
        };
        members.finish(
            "validationFees, issuanceFees, verificationFees, issuanceFeeDiscount, verificationFeeDiscount, effectiveUntil, opSummaryDigest, \
             credentialFormat, presentAsLinkedVp, credentialValidFrom, credentialValidUntil",
        )?;
        Ok(api.agent.flows().validate(&session, &terms).await?.into())
    };
    to_response(answer().await)
}

/// Rejects the request of the applicant. No transaction is sent.
#[utoipa::path(post, path = "/v2/vt/flows/{participantSessionId}/reject", operation_id = "rejectFlow", tag = "flows",
    params(("participantSessionId" = String, Path, description = "Session of the flow.")), request_body = FlowRejection,
    responses((status = 200, body = Flow), ReadRefusals, BodyRefusals, PeerRefusals))]
pub(in crate::admin) async fn reject_flow(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let parse = |mut members: BodyMembers| {
        let (description, code) = (members.require_text("description")?, members.take_text("code")?);
        members.finish("description, code")?;
        Ok(FlowCall::Reject { description, code })
    };
    to_response(call(&api, path, request, false, parse).await)
}

/// Sends the opening message once more: in its thread, or with other claims in one of its own.
#[utoipa::path(post, path = "/v2/vt/flows/{participantSessionId}/resend", operation_id = "resendFlow", tag = "flows",
    params(("participantSessionId" = String, Path, description = "Session of the flow.")),
    request_body(content = FlowRepetition, description = "May be absent."),
    responses((status = 200, body = Flow), ReadRefusals, BodyRefusals, PeerRefusals))]
pub(in crate::admin) async fn resend_flow(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let parse = |mut members: BodyMembers| {
        let claims = take_claims(&mut members)?;
        members.finish("claims")?;
        Ok(FlowCall::Resend { claims })
    };
    to_response(call(&api, path, request, true, parse).await)
}

/// Ends a flow of this agent as applicant.
#[utoipa::path(post, path = "/v2/vt/flows/{participantSessionId}/end", operation_id = "endFlow", tag = "flows",
    params(("participantSessionId" = String, Path, description = "Session of the flow.")),
    request_body(content = FlowEnd, description = "May be absent."),
    responses((status = 200, body = Flow), ReadRefusals, BodyRefusals, PeerRefusals))]
pub(in crate::admin) async fn end_flow(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let parse = |mut members: BodyMembers| {
        let description = members.take_text("description")?;
        members.finish("description")?;
        Ok(FlowCall::End { description })
    };
    to_response(call(&api, path, request, true, parse).await)
}
