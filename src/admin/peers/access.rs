//! Access to endpoints: the grants of this agent, and its own requests to peers.

use std::time::Duration;

use axum::{
    extract::{Path, Request, State, rejection::PathRejection},
    response::Response,
};
use serde_json::{Value, json};
use svc_agent::{
    AccessGrantFilter, GrantState, GrantedMaterial, PeerAccessRequest, PeerGrant, Refusal, RefusalCode, StoredGrant,
};
use svc_kit::wall_clock;
use svc_wire::endpoint_access::Material;

use crate::admin::{
    api::AdminApi,
    format::{
        answer::{Answer, iso_seconds, to_response},
        page::{page, parse_cursor},
        request::{BodyMembers, QueryParameters, parse_path},
        schema::{BodyRefusals, Page, ReadRefusals},
    },
    peers::{
        access_bodies::{
            AccessGrant, AccessMaterial, AccessPresentation, AccessRefusals, NewAccessPresentation, NewAccessRequest,
            RevocationReason, TokenKey,
        },
        conversation_bodies::{PeerRefusals, Record},
        conversations::take_word,
        resolution_bodies::{PeerResolutionBody, ResolvedDid},
    },
};

/// Longest reason of a revocation, in characters.
const MAX_REASON: usize = 500;

impl From<StoredGrant> for Record {
    fn from(grant: StoredGrant) -> Self {
        Self::of(grant.to_json(wall_clock::now().seconds))
    }
}

fn invalid(path: &str, rule: &str) -> Refusal {
    Refusal::of_member(RefusalCode::InvalidInput, path, rule)
}

/// Takes a list of texts.
fn take_list<T>(
    members: &mut BodyMembers,
    name: &str,
    rule: &str,
    item: impl Fn(&str) -> Option<T>,
) -> Result<Option<Vec<T>>, Refusal> {
    match members.take(name)? {
        None => Ok(None),
        Some(Value::Array(items)) if items.len() <= 16 => {
            let read = items.iter().map(|one| one.as_str().and_then(&item)).collect::<Option<Vec<T>>>();
            read.map(Some).ok_or_else(|| invalid(name, rule))
        }
        Some(_) => Err(invalid(name, rule)),
    }
}

/// The material of a grant, for the caller that asked for it. Nothing else shows it.
fn material_json(grant: &PeerGrant) -> Value {
    let mut material = json!({
        "requestId": grant.id,
        "endpoint": grant.endpoint,
        "url": grant.url,
        "material": grant.material.kind().as_str(),
        "scopes": grant.scopes,
        "expiresAt": grant.expires_at.map(iso_seconds),
    });
    match &grant.material {
        GrantedMaterial::None => {}
        GrantedMaterial::Bearer { token } => material["token"] = json!(token.expose_secret()),
        GrantedMaterial::Key { header, value } => {
            material["header"] = json!(header);
            material["value"] = json!(value.expose_secret());
        }
        GrantedMaterial::Credential { schema_id, issuer } => {
            material["schemaId"] = json!(schema_id);
            material["issuer"] = json!(issuer);
        }
    }
    material
}

/// Obtains the material that an endpoint of a peer needs: decides about the peer, asks it over its session, and checks the grant. A grant
/// that is held is used until a minute before its end.
#[utoipa::path(post, path = "/v2/vt/access-requests", operation_id = "requestAccess", tag = "access", request_body = NewAccessRequest,
    responses((status = 200, body = AccessMaterial), ReadRefusals, BodyRefusals, PeerRefusals, AccessRefusals))]
pub(in crate::admin) async fn request_access(State(api): State<AdminApi>, request: Request) -> Response {
    let answer = async || -> Answer<Value> {
        QueryParameters::parse(request.uri().query())?.finish("none")?;
        let mut members = BodyMembers::read(request).await?;
        let timeout = match members.take("timeoutMs")? {
            None => None,
            Some(value) => {
                let millis = value.as_u64().filter(|millis| (1_000..=120_000).contains(millis));
                let millis =
                    millis.ok_or_else(|| invalid("timeoutMs", "allowed is a whole number from 1000 to 120000"))?;
                Some(Duration::from_millis(millis))
            }
        };
        let materials = "allowed are none, bearer, key and credential";
        let asked = PeerAccessRequest {
            endpoint: members.require_text("endpoint")?,
            scopes: take_list(&mut members, "scopes", "it is no list of at most 16 texts", |one| Some(one.to_owned()))?,
            accept: take_list(&mut members, "accept", materials, Material::from_name)?,
            timeout,
            replaces: members.take_text("replaces")?,
        };
        members.finish("endpoint, scopes, accept, timeoutMs, replaces")?;
        let granted = api.agent.peers().request_access(asked).await?;
        Ok(material_json(&granted))
    };
    to_response(answer().await)
}

/// Presents the credential that a grant of material credential asks for: a `vp+jwt` for the endpoint's URL, which the endpoint takes once.
#[utoipa::path(post, path = "/v2/vt/access-presentations", operation_id = "presentForAccess", tag = "access",
    request_body = NewAccessPresentation,
    responses((status = 200, body = AccessPresentation), ReadRefusals, BodyRefusals, PeerRefusals))]
pub(in crate::admin) async fn present_for_access(State(api): State<AdminApi>, request: Request) -> Response {
    let answer = async || -> Answer<Value> {
        QueryParameters::parse(request.uri().query())?.finish("none")?;
        let mut members = BodyMembers::read(request).await?;
        let id = members.require_text("requestId")?;
        members.finish("requestId")?;
        let made = api.agent.peers().present_for_grant(&id).await?;
        Ok(json!({"url": made.url, "presentation": made.presentation.expose_secret()}))
    };
    to_response(answer().await)
}

/// Decides about a DID now, and describes its endpoints with their requirements.
#[utoipa::path(post, path = "/v2/vt/peer-resolutions", operation_id = "resolvePeer", tag = "access", request_body = ResolvedDid,
    responses((status = 200, body = PeerResolutionBody), ReadRefusals, BodyRefusals))]
pub(in crate::admin) async fn resolve_peer(State(api): State<AdminApi>, request: Request) -> Response {
    let answer = async || -> Answer<PeerResolutionBody> {
        QueryParameters::parse(request.uri().query())?.finish("none")?;
        let mut members = BodyMembers::read(request).await?;
        let did = members.require_text("did")?;
        members.finish("did")?;
        Ok(api.agent.peers().resolve_peer(&did).await?.into())
    };
    to_response(answer().await)
}

/// A page of the grants of this agent, in the order of their begins. No grant shows a token or a key.
#[utoipa::path(get, path = "/v2/vt/access-grants", operation_id = "listAccessGrants", tag = "access",
    params(("limit" = Option<u16>, Query, minimum = 1, maximum = 500, description = "Items of the page; 100 when absent."),
        ("cursor" = Option<String>, Query, description = "nextCursor of the page before."),
        ("peerDid" = Option<String>, Query, description = "DID of the peer."),
        ("endpoint" = Option<String>, Query, description = "DID URL of the service entry."),
        ("state" = Option<String>, Query, description = "active, expired or revoked.")),
    responses((status = 200, body = Page<AccessGrant>), ReadRefusals))]
pub(in crate::admin) async fn list_grants(State(api): State<AdminApi>, request: Request) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let answer = async || -> Answer<Page<Record>> {
        let mut query = QueryParameters::parse(query.as_deref())?;
        let (limit, cursor) = (query.take_limit()?, query.take("cursor"));
        let states = GrantState::ALL.map(GrantState::as_str);
        let state = take_word(&mut query, "state", &states)?;
        let filter = AccessGrantFilter {
            peer: query.take("peerDid"),
            endpoint: query.take("endpoint"),
            state: state.and_then(|state| GrantState::from_name(&state)),
        };
        query.finish("limit, cursor, peerDid, endpoint, state")?;
        let list = format!("listAccessGrants {filter:?}");
        let last = parse_cursor(cursor.as_deref(), &list)?;
        let found = api.agent.access().grants(&filter, last.as_deref(), limit + 1).await?;
        Ok(page(found, limit, &list, |one| one.id.clone()))
    };
    to_response(answer().await)
}

/// Takes an active grant back: its token is void. That is durable, and in the public list, before the answer.
#[utoipa::path(post, path = "/v2/vt/access-grants/{accessGrantId}/revoke", operation_id = "revokeAccessGrant", tag = "access",
    params(("accessGrantId" = String, Path, description = "Id of the grant.")), request_body = Option<RevocationReason>,
    responses((status = 200, body = AccessGrant), ReadRefusals, BodyRefusals, PeerRefusals))]
pub(in crate::admin) async fn revoke_grant(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let answer = async || -> Answer<Record> {
        let id = parse_path(path)?;
        QueryParameters::parse(request.uri().query())?.finish("none")?;
        let mut members = BodyMembers::read_optional(request).await?;
        let reason = members.take_text("reason")?;
        members.finish("reason")?;
        let reason = reason.unwrap_or_else(|| "revoked by the operator".to_owned());
        let is_text = (1..=MAX_REASON).contains(&reason.chars().count()) && !reason.chars().any(char::is_control);
        if !is_text {
            return Err(invalid("reason", "allowed are 1 to 500 characters, none of them a control character"));
        }
        Ok(api.agent.access().revoke(&id, &reason).await?.into())
    };
    to_response(answer().await)
}

/// Makes every token of before void, and ends its grants.
#[utoipa::path(post, path = "/v2/vt/access-grants/void", operation_id = "voidAccessTokens", tag = "access",
    responses((status = 200, description = "Every token of before is void."), ReadRefusals))]
pub(in crate::admin) async fn void_tokens(State(api): State<AdminApi>, request: Request) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let answer = async || -> Answer<Value> {
        QueryParameters::parse(query.as_deref())?.finish("none")?;
        api.agent.access().void().await?;
        Ok(json!({}))
    };
    to_response(answer().await)
}

/// Publishes another key of tokens, which is used a minute later. The old one leaves the document when its last token has ended.
#[utoipa::path(post, path = "/v2/vt/access-keys/rotate", operation_id = "rotateAccessKey", tag = "access",
    responses((status = 200, body = TokenKey), ReadRefusals, PeerRefusals))]
pub(in crate::admin) async fn rotate_key(State(api): State<AdminApi>, request: Request) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let answer = async || -> Answer<Value> {
        QueryParameters::parse(query.as_deref())?.finish("none")?;
        Ok(json!({"verificationMethod": api.agent.access().rotate_key().await?}))
    };
    to_response(answer().await)
}
