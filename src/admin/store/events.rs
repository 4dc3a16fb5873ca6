//! The events that the agent delivers: dead letters, and the heights whose events were dropped.

use axum::{
    extract::{Path, Request, State, rejection::PathRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use svc_agent::Refusal;

use crate::admin::{
    api::AdminApi,
    format::{
        answer::{Answer, no_store, refuse, to_response},
        page::{page, parse_cursor},
        request::{BodyMembers, QueryParameters, parse_path},
        schema::{ChangeRefusals, DeadLetterEntry, GapEntry, Page, ReadRefusals, Refilled},
    },
};

/// A page of the events that could not be delivered.
#[utoipa::path(get, path = "/v2/events/dead-letters", operation_id = "listDeadLetters", tag = "events",
    params(("limit" = Option<u16>, Query, minimum = 1, maximum = 500, description = "Items of the page; 100 when absent."),
        ("cursor" = Option<String>, Query, description = "nextCursor of the page before.")),
    responses((status = 200, body = Page<DeadLetterEntry>), ReadRefusals))]
pub(in crate::admin) async fn list_dead_letters(State(api): State<AdminApi>, request: Request) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let answer = async || -> Answer<Page<DeadLetterEntry>> {
        let mut query = QueryParameters::parse(query.as_deref())?;
        let (limit, cursor) = (query.take_limit()?, query.take("cursor"));
        query.finish("limit, cursor")?;
        let last = parse_cursor(cursor.as_deref(), "listDeadLetters")?;
        let letters = api.agent.delivery().dead_letters(last.as_deref(), limit + 1).await?;
        Ok(page(letters, limit, "listDeadLetters", |letter| letter.event.id.clone()))
    };
    to_response(answer().await)
}

/// Queues a dead letter behind the newest event.
#[utoipa::path(post, path = "/v2/events/dead-letters/{id}/retry", operation_id = "retryDeadLetter", tag = "events",
    params(("id" = String, Path, description = "Id of the event.")),
    responses((status = 200, body = DeadLetterEntry), ReadRefusals, ChangeRefusals))]
pub(in crate::admin) async fn retry_dead_letter(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let answer = async || -> Answer<DeadLetterEntry> {
        let id = parse_path(path)?;
        require_nothing(request).await?;
        Ok(api.agent.delivery().retry(&id).await?.into())
    };
    to_response(answer().await)
}

/// Removes a dead letter.
#[utoipa::path(delete, path = "/v2/events/dead-letters/{id}", operation_id = "removeDeadLetter", tag = "events",
    params(("id" = String, Path, description = "Id of the event.")),
    responses((status = 204, description = "Removed."), ReadRefusals, ChangeRefusals))]
pub(in crate::admin) async fn remove_dead_letter(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let removed = async || -> Result<(), Refusal> {
        QueryParameters::parse(query.as_deref())?.finish("none")?;
        api.agent.delivery().remove(&parse_path(path)?).await
    };
    match removed().await {
        Ok(()) => no_store(StatusCode::NO_CONTENT.into_response()),
        Err(refusal) => refuse(refusal),
    }
}

/// A page of the heights whose events were dropped.
#[utoipa::path(get, path = "/v2/events/gaps", operation_id = "listGaps", tag = "events",
    params(("limit" = Option<u16>, Query, minimum = 1, maximum = 500, description = "Items of the page; 100 when absent."),
        ("cursor" = Option<String>, Query, description = "nextCursor of the page before.")),
    responses((status = 200, body = Page<GapEntry>), ReadRefusals))]
pub(in crate::admin) async fn list_gaps(State(api): State<AdminApi>, request: Request) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let answer = async || -> Answer<Page<GapEntry>> {
        let mut query = QueryParameters::parse(query.as_deref())?;
        let (limit, cursor) = (query.take_limit()?, query.take("cursor"));
        query.finish("limit, cursor")?;
        let last = parse_cursor(cursor.as_deref(), "listEventGaps")?;
        let gaps = api.agent.delivery().gaps(last.and_then(|height| height.parse().ok()), limit + 1).await?;
        Ok(page(gaps, limit, "listEventGaps", |gap| gap.from_height.to_string()))
    };
    to_response(answer().await)
}

/// Reads the events of the gaps from the indexer again, as many as there is room for.
#[utoipa::path(post, path = "/v2/events/gaps/refill", operation_id = "refillGaps", tag = "events",
    responses((status = 200, body = Refilled), ReadRefusals, ChangeRefusals))]
pub(in crate::admin) async fn refill_gaps(State(api): State<AdminApi>, request: Request) -> Response {
    let answer = async || -> Answer<Refilled> {
        require_nothing(request).await?;
        Ok(Refilled { queued: api.agent.delivery().refill().await? })
    };
    to_response(answer().await)
}

/// A request without parameters: no query, and no body or an empty object.
async fn require_nothing(request: Request) -> Result<(), Refusal> {
    QueryParameters::parse(request.uri().query())?.finish("none")?;
    BodyMembers::read_optional(request).await?.finish("none")
}
