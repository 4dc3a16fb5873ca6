//! The service entries of the DID Document: list, add, update, delete.

use axum::{
    extract::{Path, Request, State, rejection::PathRejection},
    response::Response,
};
use svc_agent::{
    Refusal, RefusalCode,
    document::{ServiceChange, ServiceIdPath, ServiceUpdate},
};

use crate::admin::{
    api::AdminApi,
    format::{
        answer::{Answer, to_response},
        page::{page, parse_cursor},
        request::{BodyMembers, QueryParameters, parse_path},
        schema::{
            BodyRefusals, ChangeRefusals, ListedServiceEndpoint, NewServiceEndpoint, Page, ReadRefusals,
            ServiceEndpoint, ServiceEndpointChange,
        },
    },
};

/// A page of the entries of the published document, in the order of their ids. A managed one is marked.
#[utoipa::path(get, path = "/v2/vt/service-endpoints", operation_id = "listServiceEndpoints", tag = "service endpoints",
    params(("limit" = Option<u16>, Query, minimum = 1, maximum = 500, description = "Items of the page; 100 when absent."),
        ("cursor" = Option<String>, Query, description = "nextCursor of the page before."),
        ("managed" = Option<bool>, Query, description = "Only entries that the agent writes itself, or only others.")),
    responses((status = 200, body = Page<ListedServiceEndpoint>), ReadRefusals))]
pub(in crate::admin) async fn list(State(api): State<AdminApi>, request: Request) -> Response {
    let answer = || -> Answer<Page<ListedServiceEndpoint>> {
        let mut query = QueryParameters::parse(request.uri().query())?;
        let (limit, cursor, managed) = (query.take_limit()?, query.take("cursor"), query.take_flag("managed")?);
        query.finish("limit, cursor, managed")?;
        let list = format!("listServiceEndpoints managed={managed:?}");
        let last = parse_cursor(cursor.as_deref(), &list)?;
        let mut entries = api.agent.keeper().published().document.services();
        entries.sort_by(|one, other| one.id.cmp(&other.id));
        entries.retain(|entry| {
            last.as_ref().is_none_or(|last| entry.id > *last)
                && managed.is_none_or(|managed| entry.is_managed() == managed)
        });
        entries.truncate(limit + 1);
        Ok(page(entries, limit, &list, |entry| entry.id.clone()))
    };
    to_response(answer())
}

/// Adds an entry. The answer comes when the changed document is served.
#[utoipa::path(post, path = "/v2/vt/service-endpoints", operation_id = "addServiceEndpoint", tag = "service endpoints",
    request_body = NewServiceEndpoint,
    responses((status = 200, body = ServiceEndpoint), ReadRefusals, BodyRefusals, ChangeRefusals))]
pub(in crate::admin) async fn add(State(api): State<AdminApi>, request: Request) -> Response {
    let answer = async || -> Answer<ServiceEndpoint> {
        QueryParameters::parse(request.uri().query())?.finish("none")?;
        let mut members = BodyMembers::read(request).await?;
        let change = ServiceChange::Add {
            id: members.take_text("id")?.map(ServiceIdPath::new),
            kind: members.require_text("type")?,
            endpoint: members.require("serviceEndpoint")?,
        };
        members.finish("id, type, serviceEndpoint")?;
        change_document(&api, change).await
    };
    to_response(answer().await)
}

/// Changes an entry; a given member is replaced whole.
#[utoipa::path(patch, path = "/v2/vt/service-endpoints/{serviceEndpointId}", operation_id = "updateServiceEndpoint",
    tag = "service endpoints", params(("serviceEndpointId" = String, Path, pattern = r"^#?[A-Za-z0-9._~!$&'()*+,;=:@/?-]{1,128}$",
        description = "Fragment of RFC 3986, with or without #; the whole DID URL is taken too.")),
    request_body = ServiceEndpointChange,
    responses((status = 200, body = ServiceEndpoint), ReadRefusals, BodyRefusals, ChangeRefusals))]
pub(in crate::admin) async fn update(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let answer = async || -> Answer<ServiceEndpoint> {
        let id = ServiceIdPath::new(parse_path(path)?);
        QueryParameters::parse(request.uri().query())?.finish("none")?;
        let mut members = BodyMembers::read(request).await?;
        let update = ServiceUpdate { kind: members.take_text("type")?, endpoint: members.take("serviceEndpoint")? };
        members.finish("type, serviceEndpoint")?;
        if update == ServiceUpdate::default() {
            let rule = "it changes nothing; type, serviceEndpoint, or both are needed";
            return Err(Refusal::of_member(RefusalCode::InvalidInput, "body", rule));
        }
        change_document(&api, ServiceChange::Update { id, update }).await
    };
    to_response(answer().await)
}

/// Removes an entry, and answers with it.
#[utoipa::path(delete, path = "/v2/vt/service-endpoints/{serviceEndpointId}", operation_id = "deleteServiceEndpoint",
    tag = "service endpoints", params(("serviceEndpointId" = String, Path, pattern = r"^#?[A-Za-z0-9._~!$&'()*+,;=:@/?-]{1,128}$",
        description = "Fragment of RFC 3986, with or without #; the whole DID URL is taken too.")),
    responses((status = 200, body = ServiceEndpoint), ReadRefusals, ChangeRefusals))]
pub(in crate::admin) async fn delete(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    // A body that is not read may not be shared with another thread.
    let query = request.uri().query().map(str::to_owned);
    let answer = async || -> Answer<ServiceEndpoint> {
        let id = ServiceIdPath::new(parse_path(path)?);
        QueryParameters::parse(query.as_deref())?.finish("none")?;
        change_document(&api, ServiceChange::Delete { id }).await
    };
    to_response(answer().await)
}

async fn change_document(api: &AdminApi, change: ServiceChange) -> Answer<ServiceEndpoint> {
    api.agent.keeper().change(change).await.map(ServiceEndpoint::from)
}
