//! The events that the agent delivers: dead letters, and the heights whose events were dropped.

use axum::{
    extract::{Path, Request, State, rejection::PathRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use svc_agent::{DeadLetter, EventGap, Refusal};

use super::{
    answer::{Answer, iso_seconds, no_store, to_response},
    api::AdminApi,
    page::{page, parse_cursor},
    request::{BodyMembers, QueryParameters, parse_path},
};

pub(super) async fn list_dead_letters(State(api): State<AdminApi>, request: Request) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let answer = async || -> Answer {
        let mut query = QueryParameters::parse(query.as_deref())?;
        let (limit, cursor) = (query.take_limit()?, query.take("cursor"));
        query.finish("limit, cursor")?;
        let last = parse_cursor(cursor.as_deref(), "listDeadLetters")?;
        let letters = api.agent.delivery().dead_letters(last.as_deref(), limit + 1).await?;
        Ok(page(letters, limit, "listDeadLetters", |letter| letter.event.id.clone(), letter_json))
    };
    to_response(answer().await)
}

fn letter_json(letter: &DeadLetter) -> Value {
    let body: Value = serde_json::from_str(&letter.event.body).unwrap_or_default();
    let mut shown = json!({
        "id": letter.event.id, "type": letter.event.kind, "timestamp": body["timestamp"], "data": body["data"],
        "attempts": letter.attempts, "movedAt": iso_seconds(letter.moved_at),
    });
    if let Some(status) = letter.last_status {
        shown["lastStatus"] = status.into();
    }
    if let Some(error) = &letter.last_error {
        shown["lastError"] = error.as_str().into();
    }
    shown
}

pub(super) async fn retry_dead_letter(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let answer = async || -> Answer {
        let id = parse_path(path)?;
        require_nothing(request).await?;
        Ok(letter_json(&api.agent.delivery().retry(&id).await?))
    };
    to_response(answer().await)
}

pub(super) async fn remove_dead_letter(
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
        Err(refusal) => to_response(Err(refusal)),
    }
}

pub(super) async fn list_gaps(State(api): State<AdminApi>, request: Request) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let answer = async || -> Answer {
        let mut query = QueryParameters::parse(query.as_deref())?;
        let (limit, cursor) = (query.take_limit()?, query.take("cursor"));
        query.finish("limit, cursor")?;
        let last = parse_cursor(cursor.as_deref(), "listEventGaps")?;
        let gaps = api.agent.delivery().gaps(last.and_then(|height| height.parse().ok()), limit + 1).await?;
        Ok(page(gaps, limit, "listEventGaps", |gap| gap.from_height.to_string(), gap_json))
    };
    to_response(answer().await)
}

fn gap_json(gap: &EventGap) -> Value {
    json!({"fromHeight": gap.from_height, "toHeight": gap.to_height, "count": gap.count})
}

pub(super) async fn refill_gaps(State(api): State<AdminApi>, request: Request) -> Response {
    let answer = async || -> Answer {
        require_nothing(request).await?;
        Ok(json!({"queued": api.agent.delivery().refill().await?}))
    };
    to_response(answer().await)
}

/// A request without parameters: no query, and no body or an empty object.
async fn require_nothing(request: Request) -> Result<(), Refusal> {
    QueryParameters::parse(request.uri().query())?.finish("none")?;
    BodyMembers::read_optional(request).await?.finish("none")
}
