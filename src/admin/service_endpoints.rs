//! The service entries of the DID Document: list, add, update, delete.

use axum::{
    extract::{Path, Request, State, rejection::PathRejection},
    response::Response,
};
use serde_json::Value;
use svc_agent::{
    Refusal, RefusalCode,
    document::{ServiceChange, ServiceEntry, ServiceIdPath, ServiceUpdate},
};

use super::{
    answer::{Answer, to_response},
    api::AdminApi,
    page::{page, parse_cursor},
    request::{BodyMembers, QueryParameters, parse_path},
};

/// A page of the entries of the published document, in the order of their ids. A managed one is marked.
pub(super) async fn list(State(api): State<AdminApi>, request: Request) -> Response {
    let answer = || -> Answer {
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
        Ok(page(entries, limit, &list, |entry| entry.id.clone(), listed_entry))
    };
    to_response(answer())
}

fn listed_entry(entry: &ServiceEntry) -> Value {
    let mut listed = entry.to_json();
    if entry.is_managed() {
        listed["managed"] = true.into();
    }
    listed
}

pub(super) async fn add(State(api): State<AdminApi>, request: Request) -> Response {
    let answer = async || -> Answer {
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

pub(super) async fn update(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let answer = async || -> Answer {
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

pub(super) async fn delete(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    // A body that is not read may not be shared with another thread.
    let query = request.uri().query().map(str::to_owned);
    let answer = async || -> Answer {
        let id = ServiceIdPath::new(parse_path(path)?);
        QueryParameters::parse(query.as_deref())?.finish("none")?;
        change_document(&api, ServiceChange::Delete { id }).await
    };
    to_response(answer().await)
}

async fn change_document(api: &AdminApi, change: ServiceChange) -> Answer {
    api.agent.keeper().change(change).await.map(|entry| entry.to_json())
}
