//! Credentials that peers offer outside of flows.

use axum::{
    extract::{Path, Request, State, rejection::PathRejection},
    response::Response,
};
use svc_agent::{ExchangeFilter, ExchangeState, Refusal, RefusalCode};

use crate::admin::{
    api::AdminApi,
    format::{
        answer::{Answer, to_response},
        page::{page, parse_cursor},
        request::{BodyMembers, QueryParameters, parse_path},
        schema::{BodyRefusals, Page, ReadRefusals},
    },
    peers::{
        conversation_bodies::{CredentialExchange, Decline, NewCredentialOffer, PeerRefusals, Record},
        conversations::{no_content, take_word},
    },
};

/// A page of exchanges, in the order of their ids.
#[utoipa::path(get, path = "/v2/didcomm/credential-exchanges", operation_id = "listCredentialExchanges", tag = "peers",
    params(("limit" = Option<u16>, Query, minimum = 1, maximum = 500, description = "Items of the page; 100 when absent."),
        ("cursor" = Option<String>, Query, description = "nextCursor of the page before."),
        ("connectionId" = Option<String>, Query, description = "The connection."),
        ("threadId" = Option<String>, Query, description = "The thread."),
        ("role" = Option<String>, Query, description = "holder, or issuer, which none has."),
        ("state" = Option<String>, Query, description = "A state of exchanges.")),
    responses((status = 200, body = Page<CredentialExchange>), ReadRefusals))]
pub(in crate::admin) async fn list_exchanges(State(api): State<AdminApi>, request: Request) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let answer = async || -> Answer<Page<Record>> {
        const STATES: [&str; 9] = [
            "offer-sent",
            "offer-received",
            "request-sent",
            "request-received",
            "credential-issued",
            "credential-received",
            "declined",
            "abandoned",
            "done",
        ];
        let mut query = QueryParameters::parse(query.as_deref())?;
        let (limit, cursor) = (query.take_limit()?, query.take("cursor"));
        let role = take_word(&mut query, "role", &["issuer", "holder"])?;
        let state = take_word(&mut query, "state", &STATES)?;
        let filter = ExchangeFilter {
            connection_id: query.take("connectionId"),
            thread_id: query.take("threadId"),
            state: state.as_deref().and_then(ExchangeState::from_word),
        };
        query.finish("limit, cursor, connectionId, threadId, role, state")?;
        let list = format!("listCredentialExchanges {filter:?} {role:?} {state:?}");
        let last = parse_cursor(cursor.as_deref(), &list)?;
        // The states of an issuer belong to flows.
        if role.as_deref() == Some("issuer") || state.is_some() != filter.state.is_some() {
            return Ok(page(Vec::<svc_agent::StoredExchange>::new(), limit, &list, |_| String::new()));
        }
        let found = api.agent.peers().exchanges(&filter, last.as_deref(), limit + 1).await?;
        Ok(page(found, limit, &list, |one| one.id.clone()))
    };
    to_response(answer().await)
}

/// An exchange.
#[utoipa::path(get, path = "/v2/didcomm/credential-exchanges/{credentialExchangeId}", operation_id = "getCredentialExchange",
    tag = "peers", params(("credentialExchangeId" = String, Path, description = "Id of the exchange.")),
    responses((status = 200, body = CredentialExchange), ReadRefusals, PeerRefusals))]
pub(in crate::admin) async fn get_exchange(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let answer = async || -> Answer<Record> {
        QueryParameters::parse(query.as_deref())?.finish("none")?;
        Ok(api.agent.peers().exchange(&parse_path(path)?).await?.into())
    };
    to_response(answer().await)
}

/// Removes an exchange; a stored credential stays.
#[utoipa::path(delete, path = "/v2/didcomm/credential-exchanges/{credentialExchangeId}",
    operation_id = "deleteCredentialExchange", tag = "peers",
    params(("credentialExchangeId" = String, Path, description = "Id of the exchange.")),
    responses((status = 204, description = "Removed."), ReadRefusals, PeerRefusals))]
pub(in crate::admin) async fn delete_exchange(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let removed = async || -> Result<(), Refusal> {
        QueryParameters::parse(query.as_deref())?.finish("none")?;
        api.agent.peers().delete_exchange(&parse_path(path)?).await
    };
    no_content(removed().await)
}

/// Requests the offered credential. The peer must be trusted.
#[utoipa::path(post, path = "/v2/didcomm/credential-exchanges/{credentialExchangeId}/accept-offer",
    operation_id = "acceptCredentialOffer", tag = "peers",
    params(("credentialExchangeId" = String, Path, description = "Id of the exchange.")),
    responses((status = 200, body = CredentialExchange), ReadRefusals, BodyRefusals, PeerRefusals))]
pub(in crate::admin) async fn accept_offer(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let answer = async || -> Answer<Record> {
        let id = read_nothing(path, request).await?;
        Ok(api.agent.peers().accept_offer(&id).await?.into())
    };
    to_response(answer().await)
}

/// Refused: exchanges in which this agent issues belong to flows.
#[utoipa::path(post, path = "/v2/didcomm/credential-exchanges/{credentialExchangeId}/accept-request",
    operation_id = "acceptCredentialRequest", tag = "peers",
    params(("credentialExchangeId" = String, Path, description = "Id of the exchange.")),
    responses((status = 200, body = CredentialExchange), ReadRefusals, BodyRefusals, PeerRefusals))]
pub(in crate::admin) async fn accept_request(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let answer = async || -> Answer<Record> {
        let id = read_nothing(path, request).await?;
        api.agent.peers().exchange(&id).await?;
        let message = "this agent is the holder of the exchange; exchanges in which it issues belong to flows";
        Err(Refusal::new(RefusalCode::InvalidState, message))
    };
    to_response(answer().await)
}

/// Verifies the received credential, presents it, and acknowledges it to the peer.
#[utoipa::path(post, path = "/v2/didcomm/credential-exchanges/{credentialExchangeId}/accept-credential",
    operation_id = "acceptCredential", tag = "peers",
    params(("credentialExchangeId" = String, Path, description = "Id of the exchange.")),
    responses((status = 200, body = CredentialExchange), ReadRefusals, BodyRefusals, PeerRefusals))]
pub(in crate::admin) async fn accept_credential(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let answer = async || -> Answer<Record> {
        let id = read_nothing(path, request).await?;
        Ok(api.agent.peers().accept_credential(&id, api.agent.credentials()).await?.into())
    };
    to_response(answer().await)
}

/// Declines an offer or a credential, and tells the peer.
#[utoipa::path(post, path = "/v2/didcomm/credential-exchanges/{credentialExchangeId}/decline",
    operation_id = "declineCredentialExchange", tag = "peers",
    params(("credentialExchangeId" = String, Path, description = "Id of the exchange.")), request_body = Decline,
    responses((status = 200, body = CredentialExchange), ReadRefusals, BodyRefusals, PeerRefusals))]
pub(in crate::admin) async fn decline(
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
        Ok(api.agent.peers().decline_exchange(&id, reason).await?.into())
    };
    to_response(answer().await)
}

/// Refused: only AnonCreds are offered by a definition, and this agent has none.
#[utoipa::path(post, path = "/v2/didcomm/credential-offer", operation_id = "createCredentialOffer", tag = "peers",
    request_body = NewCredentialOffer, responses(ReadRefusals, BodyRefusals, PeerRefusals))]
pub(in crate::admin) async fn offer(State(api): State<AdminApi>, request: Request) -> Response {
    let answer = async || -> Answer<Record> {
        QueryParameters::parse(request.uri().query())?.finish("none")?;
        let mut members = BodyMembers::read(request).await?;
        let definition = members.require_text("credentialDefinitionId")?;
        let claims = members.require("claims")?;
        let is_claim = |claim: &serde_json::Value| claim["name"].is_string() && claim["value"].is_string();
        if !claims.as_array().is_some_and(|claims| claims.iter().all(is_claim)) {
            let rule = "it is a list of objects with the texts name and value";
            return Err(Refusal::of_member(RefusalCode::InvalidInput, "claims", rule));
        }
        for name in ["revocationRegistryDefinitionId", "connectionId", "didcommVersion"] {
            members.take_text(name)?;
        }
        members.take("revocationRegistryIndex")?;
        let _ = (members.take_flag("autoAccept")?, members.take_flag("useLegacyDid")?);
        members.finish(
            "credentialDefinitionId, claims, revocationRegistryDefinitionId, revocationRegistryIndex, connectionId, autoAccept, \
             useLegacyDid, didcommVersion",
        )?;
        Err(api.agent.peers().refuse_definition(&definition))
    };
    to_response(answer().await)
}

/// A request without parameters, about one exchange.
async fn read_nothing(path: Result<Path<String>, PathRejection>, request: Request) -> Result<String, Refusal> {
    let id = parse_path(path)?;
    QueryParameters::parse(request.uri().query())?.finish("none")?;
    BodyMembers::read_optional(request).await?.finish("none")?;
    Ok(id)
}
