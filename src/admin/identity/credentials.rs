//! The credentials that the DID presents, those that it has issued, and those of its schemas.

use axum::{
    extract::{Path, Request, State, rejection::PathRejection},
    response::Response,
};
use serde_json::Value;
use svc_agent::{
    AgentPart, AgentStoreError, CredentialKind, CredentialTerms, IssueRequest, Refusal, RefusalCode, StoredCredential,
};
use svc_wire::timestamp;

use crate::admin::{
    api::AdminApi,
    format::{
        answer::{Answer, to_response},
        page::{page, parse_cursor},
        request::{BodyMembers, QueryParameters, parse_path},
        schema::{BodyRefusals, Page, ReadRefusals},
    },
    identity::credential_bodies::{
        CredentialRefusals, HeldCredential, IssuedCredential, ListedCredential, NewHeldCredential, NewIssuedCredential,
    },
};

fn store_failed(error: &AgentStoreError) -> Refusal {
    Refusal::not_ready(AgentPart::Store, error.to_string(), 5)
}

/// A page of credentials of some kinds, in the order of their ids.
async fn list_held(
    api: &AdminApi,
    query: Option<&str>,
    list: &str,
    is_listed: fn(&StoredCredential) -> bool,
) -> Answer<Page<ListedCredential>> {
    let mut query = QueryParameters::parse(query)?;
    let (limit, cursor) = (query.take_limit()?, query.take("cursor"));
    query.finish("limit, cursor")?;
    let last = parse_cursor(cursor.as_deref(), list)?;
    let mut held = api.agent.store().held_credentials().await.map_err(|error| store_failed(&error))?;
    held.retain(|one| is_listed(one) && last.as_ref().is_none_or(|last| one.id > *last));
    held.sort_by(|one, other| one.id.cmp(&other.id));
    held.truncate(limit + 1);
    Ok(page(held, limit, list, |one| one.id.clone()))
}

/// A page of the credentials that the DID presents or is about to present.
#[utoipa::path(get, path = "/v2/vt/linked-credentials", operation_id = "listLinkedCredentials", tag = "credentials",
    params(("limit" = Option<u16>, Query, minimum = 1, maximum = 500, description = "Items of the page; 100 when absent."),
        ("cursor" = Option<String>, Query, description = "nextCursor of the page before.")),
    responses((status = 200, body = Page<ListedCredential>), ReadRefusals))]
pub(in crate::admin) async fn list_linked(State(api): State<AdminApi>, request: Request) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let listed = |one: &StoredCredential| one.kind != CredentialKind::Schema;
    to_response(list_held(&api, query.as_deref(), "listLinkedCredentials", listed).await)
}

/// Presents a credential that another DID has issued to this one. The answer comes when the document with it is served.
#[utoipa::path(post, path = "/v2/vt/linked-credentials", operation_id = "addLinkedCredential", tag = "credentials",
    request_body = NewHeldCredential,
    responses((status = 200, body = HeldCredential), ReadRefusals, BodyRefusals, CredentialRefusals))]
pub(in crate::admin) async fn import(State(api): State<AdminApi>, request: Request) -> Response {
    let answer = async || -> Answer<HeldCredential> {
        QueryParameters::parse(request.uri().query())?.finish("none")?;
        let mut members = BodyMembers::read(request).await?;
        let credential = members.require("credential")?;
        members.finish("credential")?;
        if !credential.is_object() {
            return Err(Refusal::of_member(RefusalCode::InvalidInput, "credential", "it is no JSON object"));
        }
        Ok(HeldCredential::from(api.agent.credentials().import(credential).await?))
    };
    to_response(answer().await)
}

/// Presents a received credential no more.
#[utoipa::path(delete, path = "/v2/vt/linked-credentials/{credentialId}", operation_id = "removeLinkedCredential",
    tag = "credentials", params(("credentialId" = String, Path, description = "Id of the credential, percent-encoded.")),
    responses((status = 200, body = HeldCredential), ReadRefusals, CredentialRefusals))]
pub(in crate::admin) async fn remove(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let answer = async || -> Answer<HeldCredential> {
        let id = parse_path(path)?;
        QueryParameters::parse(query.as_deref())?.finish("none")?;
        Ok(HeldCredential::from(api.agent.credentials().remove(id).await?))
    };
    to_response(answer().await)
}

/// A page of the credentials that the DID has issued, to itself and to others.
#[utoipa::path(get, path = "/v2/vt/issued-credentials", operation_id = "listIssuedCredentials", tag = "credentials",
    params(("limit" = Option<u16>, Query, minimum = 1, maximum = 500, description = "Items of the page; 100 when absent."),
        ("cursor" = Option<String>, Query, description = "nextCursor of the page before.")),
    responses((status = 200, body = Page<ListedCredential>), ReadRefusals))]
pub(in crate::admin) async fn list_issued(State(api): State<AdminApi>, request: Request) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let answer = async || -> Answer<Page<ListedCredential>> {
        let mut query = QueryParameters::parse(query.as_deref())?;
        let (limit, cursor) = (query.take_limit()?, query.take("cursor"));
        query.finish("limit, cursor")?;
        let list = "listIssuedCredentials";
        let last = parse_cursor(cursor.as_deref(), list)?;
        let found = api.agent.store().issued_credentials(last.as_deref(), limit + 1).await;
        Ok(page(found.map_err(|error| store_failed(&error))?, limit, list, |one| one.id.clone()))
    };
    to_response(answer().await)
}

/// Issues a credential to a DID that has a HOLDER participant under the agent's. Equal claims have one credential. The answer comes when
/// its digest is at the node.
#[utoipa::path(post, path = "/v2/vt/issued-credentials", operation_id = "issueCredential", tag = "credentials",
    request_body = NewIssuedCredential,
    responses((status = 200, body = IssuedCredential), ReadRefusals, BodyRefusals, CredentialRefusals))]
pub(in crate::admin) async fn issue(State(api): State<AdminApi>, request: Request) -> Response {
    let answer = async || -> Answer<IssuedCredential> {
        QueryParameters::parse(request.uri().query())?.finish("none")?;
        let mut members = BodyMembers::read(request).await?;
        let did = members.require_text("did")?;
        let schema_id = parse_schema_id(&members.require("schemaId")?)?;
        let claims = match members.require("claims")? {
            Value::Object(claims) if claims.contains_key("id") => {
                return Err(Refusal::of_member(
                    RefusalCode::InvalidInput,
                    "claims.id",
                    "the member did names the subject",
                ));
            }
            Value::Object(claims) => claims,
            _ => return Err(Refusal::of_member(RefusalCode::InvalidInput, "claims", "they are no JSON object")),
        };
        let valid_until = members.take_text("validUntil")?.map(|text| parse_time(&text)).transpose()?;
        members.finish("did, schemaId, claims, validUntil")?;
        if !is_did(&did) {
            return Err(Refusal::of_member(RefusalCode::InvalidInput, "did", "it is no DID"));
        }
        let request = IssueRequest { did, schema_id, claims, valid_until, terms: CredentialTerms::default() };
        Ok(IssuedCredential::from(api.agent.credentials().issue(request).await?))
    };
    to_response(answer().await)
}

/// A page of the credentials of the schemas of ecosystems with this DID.
#[utoipa::path(get, path = "/v2/vt/schema-credentials", operation_id = "listSchemaCredentials", tag = "credentials",
    params(("limit" = Option<u16>, Query, minimum = 1, maximum = 500, description = "Items of the page; 100 when absent."),
        ("cursor" = Option<String>, Query, description = "nextCursor of the page before.")),
    responses((status = 200, body = Page<ListedCredential>), ReadRefusals))]
pub(in crate::admin) async fn list_schemas(State(api): State<AdminApi>, request: Request) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let listed = |one: &StoredCredential| one.kind == CredentialKind::Schema;
    to_response(list_held(&api, query.as_deref(), "listSchemaCredentials", listed).await)
}

/// Whether a text is a DID, without fragment and query.
fn is_did(text: &str) -> bool {
    let mut parts = text.splitn(3, ':');
    let (scheme, method, rest) = (parts.next(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let is_method = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_id = |byte: u8| byte.is_ascii_alphanumeric() || b"._:%-".contains(&byte);
    scheme == Some("did")
        && !method.is_empty()
        && method.bytes().all(is_method)
        && !rest.is_empty()
        && rest.bytes().all(is_id)
}

/// An id of the registry: a number, or its decimal text.
fn parse_schema_id(value: &Value) -> Result<u64, Refusal> {
    let id = value.as_u64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
    id.filter(|id| *id > 0)
        .ok_or_else(|| Refusal::of_member(RefusalCode::InvalidInput, "schemaId", "the id of a schema, such as \"7\""))
}

fn parse_time(text: &str) -> Result<i64, Refusal> {
    let parsed = timestamp::parse_rfc3339(text).map(|time| time.seconds);
    parsed.ok_or_else(|| {
        Refusal::of_member(RefusalCode::InvalidInput, "validUntil", "a time of RFC 3339, such as 2030-01-01T00:00:00Z")
    })
}
