//! Peers that talk DIDComm: connections, invitations, basic messages.

use std::time::Duration;

use axum::{
    extract::{Path, Request, State, rejection::PathRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use svc_agent::{
    BasicMessageFilter, ConnectionFilter, ConnectionRole, InvitationRequest, MessageRole, PROTOCOLS, Refusal,
    RefusalCode,
};

use crate::admin::{
    api::AdminApi,
    format::{
        answer::{Answer, no_store, refuse, to_response},
        page::{growing_page, page, parse_cursor},
        request::{BodyMembers, QueryParameters, parse_path},
        schema::{BodyRefusals, Page, ReadRefusals},
    },
    peers::conversation_bodies::{
        BasicMessage, Connection, Invitation, NewBasicMessage, NewConnection, NewInvitation, PeerRefusals,
        ProtocolModule, Record, SentMessage,
    },
};

/// Longest wait for a basic message, in seconds.
const MAX_WAIT: u64 = 60;

/// The protocols that are served, by module.
#[utoipa::path(get, path = "/v2/didcomm/protocols", operation_id = "listProtocols", tag = "peers",
    responses((status = 200, body = Vec<ProtocolModule>), ReadRefusals))]
pub(in crate::admin) async fn list_protocols(request: Request) -> Response {
    let answer = || -> Answer<Vec<ProtocolModule>> {
        QueryParameters::parse(request.uri().query())?.finish("none")?;
        let module = |(module, protocols): &(&'static str, &'static [&'static str])| ProtocolModule {
            module,
            protocols: protocols.to_vec(),
        };
        Ok(PROTOCOLS.iter().map(module).collect())
    };
    to_response(answer())
}

/// A page of the connections, in the order of their ids.
#[utoipa::path(get, path = "/v2/didcomm/connections", operation_id = "listConnections", tag = "peers",
    params(("limit" = Option<u16>, Query, minimum = 1, maximum = 500, description = "Items of the page; 100 when absent."),
        ("cursor" = Option<String>, Query, description = "nextCursor of the page before."),
        ("outOfBandId" = Option<String>, Query, description = "The invitation."),
        ("parentConnectionId" = Option<String>, Query, description = "The connection of the invitation."),
        ("state" = Option<String>, Query, description = "A state of connections; only completed and abandoned have any."),
        ("role" = Option<String>, Query, description = "requester or responder."),
        ("did" = Option<String>, Query, description = "DID of this agent."),
        ("theirDid" = Option<String>, Query, description = "Present or public DID of the peer."),
        ("threadId" = Option<String>, Query, description = "Thread of the peer's first message."),
        ("invitationDid" = Option<String>, Query, description = "DID of this agent in the invitation."),
        ("didcommVersion" = Option<String>, Query, description = "v1, which no connection has, or v2."),
        ("mediatorId" = Option<String>, Query, description = "A mediator, which no connection has.")),
    responses((status = 200, body = Page<Connection>), ReadRefusals))]
pub(in crate::admin) async fn list_connections(State(api): State<AdminApi>, request: Request) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let answer = async || -> Answer<Page<Record>> {
        const STATES: [&str; 9] = [
            "start",
            "invitation-sent",
            "invitation-received",
            "request-sent",
            "request-received",
            "response-sent",
            "response-received",
            "abandoned",
            "completed",
        ];
        let mut query = QueryParameters::parse(query.as_deref())?;
        let (limit, cursor) = (query.take_limit()?, query.take("cursor"));
        let state = take_word(&mut query, "state", &STATES)?;
        let role = take_word(&mut query, "role", &["requester", "responder"])?;
        let version = take_word(&mut query, "didcommVersion", &["v1", "v2"])?;
        let mediator = query.take("mediatorId");
        let filter = ConnectionFilter {
            out_of_band_id: query.take("outOfBandId"),
            parent_id: query.take("parentConnectionId"),
            has_ended: state.as_deref().map(|state| state == "abandoned"),
            role: role.as_deref().and_then(ConnectionRole::from_word),
            did: query.take("did"),
            their_did: query.take("theirDid"),
            thread_id: query.take("threadId"),
            invitation_did: query.take("invitationDid"),
        };
        query.finish(
            "limit, cursor, outOfBandId, parentConnectionId, state, role, did, theirDid, threadId, invitationDid, didcommVersion, mediatorId",
        )?;
        let list = format!("listConnections {filter:?} {state:?} {version:?} {mediator:?}");
        let last = parse_cursor(cursor.as_deref(), &list)?;
        let is_served = state.as_deref().is_none_or(|state| matches!(state, "completed" | "abandoned"));
        if !is_served || version.as_deref() == Some("v1") || mediator.is_some() {
            return Ok(page(Vec::<svc_agent::StoredConnection>::new(), limit, &list, |_| String::new()));
        }
        let found = api.agent.peers().connections(&filter, last.as_deref(), limit + 1).await?;
        Ok(page(found, limit, &list, |one| one.connection.id.clone()))
    };
    to_response(answer().await)
}

/// Opens a connection with a trusted peer. Nothing is sent; one that is there is returned.
#[utoipa::path(post, path = "/v2/didcomm/connections", operation_id = "openConnection", tag = "peers",
    request_body = NewConnection, responses((status = 200, body = Connection), ReadRefusals, BodyRefusals, PeerRefusals))]
pub(in crate::admin) async fn open_connection(State(api): State<AdminApi>, request: Request) -> Response {
    let answer = async || -> Answer<Record> {
        QueryParameters::parse(request.uri().query())?.finish("none")?;
        let mut members = BodyMembers::read(request).await?;
        let did = members.require_text("did")?;
        members.finish("did")?;
        Ok(api.agent.peers().open_connection(&did).await?.into())
    };
    to_response(answer().await)
}

/// A connection.
#[utoipa::path(get, path = "/v2/didcomm/connections/{connectionId}", operation_id = "getConnection", tag = "peers",
    params(("connectionId" = String, Path, description = "Id of the connection.")),
    responses((status = 200, body = Connection), ReadRefusals, PeerRefusals))]
pub(in crate::admin) async fn get_connection(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let answer = async || -> Answer<Record> {
        QueryParameters::parse(query.as_deref())?.finish("none")?;
        Ok(api.agent.peers().connection(&parse_path(path)?).await?.into())
    };
    to_response(answer().await)
}

/// Removes a connection with its messages and exchanges. The peer hears nothing of it.
#[utoipa::path(delete, path = "/v2/didcomm/connections/{connectionId}", operation_id = "deleteConnection", tag = "peers",
    params(("connectionId" = String, Path, description = "Id of the connection.")),
    responses((status = 204, description = "Removed."), ReadRefusals, PeerRefusals))]
pub(in crate::admin) async fn delete_connection(
    State(api): State<AdminApi>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let removed = async || -> Result<(), Refusal> {
        QueryParameters::parse(query.as_deref())?.finish("none")?;
        api.agent.peers().delete_connection(&parse_path(path)?).await
    };
    no_content(removed().await)
}

/// Sends an invitation over a connection: to this agent under a DID made for it, or to another DID.
#[utoipa::path(post, path = "/v2/didcomm/invitations", operation_id = "sendInvitation", tag = "peers",
    request_body = NewInvitation, responses((status = 200, body = Invitation), ReadRefusals, BodyRefusals, PeerRefusals))]
pub(in crate::admin) async fn send_invitation(State(api): State<AdminApi>, request: Request) -> Response {
    let answer = async || -> Answer<Invitation> {
        QueryParameters::parse(request.uri().query())?.finish("none")?;
        let mut members = BodyMembers::read(request).await?;
        let asked = InvitationRequest {
            connection_id: members.require_text("connectionId")?,
            did: members.take_text("did")?,
            goal: take_short(&mut members, "goal", 1_024)?,
            goal_code: take_short(&mut members, "goalCode", 128)?,
        };
        let _ = (members.take_text("label")?, members.take_text("imageUrl")?);
        members.finish("connectionId, did, label, imageUrl, goal, goalCode")?;
        let sent = api.agent.peers().send_invitation(asked).await?;
        Ok(Invitation { id: sent.id, out_of_band_id: sent.out_of_band_id })
    };
    to_response(answer().await)
}

/// Stores a text for a peer. Its record says whether it was delivered.
#[utoipa::path(post, path = "/v2/didcomm/basic-messages", operation_id = "sendBasicMessage", tag = "peers",
    request_body = NewBasicMessage,
    responses((status = 200, body = SentMessage), ReadRefusals, BodyRefusals, PeerRefusals))]
pub(in crate::admin) async fn send_basic_message(State(api): State<AdminApi>, request: Request) -> Response {
    let answer = async || -> Answer<SentMessage> {
        QueryParameters::parse(request.uri().query())?.finish("none")?;
        let mut members = BodyMembers::read(request).await?;
        let (connection_id, content) = (members.require_text("connectionId")?, members.require_text("content")?);
        members.finish("connectionId, content")?;
        let stored = api.agent.peers().send_basic_message(&connection_id, &content).await?;
        Ok(SentMessage { id: stored.id })
    };
    to_response(answer().await)
}

/// A page of texts, the oldest first. With `wait` an empty page is answered only after that time, and nextCursor always leads behind the newest.
#[utoipa::path(get, path = "/v2/didcomm/basic-messages", operation_id = "listBasicMessages", tag = "peers",
    params(("limit" = Option<u16>, Query, minimum = 1, maximum = 500, description = "Items of the page; 100 when absent."),
        ("cursor" = Option<String>, Query, description = "nextCursor of the page before."),
        ("connectionId" = Option<String>, Query, description = "The connection."),
        ("role" = Option<String>, Query, description = "sender or receiver."),
        ("wait" = Option<u16>, Query, minimum = 0, maximum = 60, description = "Seconds to wait for the first item.")),
    responses((status = 200, body = Page<BasicMessage>), ReadRefusals))]
pub(in crate::admin) async fn list_basic_messages(State(api): State<AdminApi>, request: Request) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let answer = async || -> Answer<Page<Record>> {
        let mut query = QueryParameters::parse(query.as_deref())?;
        let (limit, cursor) = (query.take_limit()?, query.take("cursor"));
        let role = take_word(&mut query, "role", &["sender", "receiver"])?;
        let wait = query.take("wait").map(|text| {
            let seconds = text.parse().ok().filter(|seconds| (0..=MAX_WAIT).contains(seconds));
            let rule = format!("allowed is a whole number from 0 to {MAX_WAIT}");
            seconds.ok_or_else(|| Refusal::of_member(RefusalCode::InvalidInput, "wait", rule))
        });
        let wait = wait.transpose()?.map(Duration::from_secs);
        let filter = BasicMessageFilter {
            connection_id: query.take("connectionId"),
            role: role.as_deref().and_then(MessageRole::from_word),
        };
        query.finish("limit, cursor, connectionId, role, wait")?;
        let list = format!("listBasicMessages {filter:?}");
        let last = parse_cursor(cursor.as_deref(), &list)?;
        let peers = api.agent.peers();
        let found = peers.basic_messages(&filter, last.as_deref(), limit + 1, wait.unwrap_or_default()).await?;
        // A caller that waits asks for messages behind the newest.
        Ok(match wait {
            None => page(found, limit, &list, |one| one.id.clone()),
            Some(_) => growing_page(found, limit, (&list, cursor), |one| one.id.clone()),
        })
    };
    to_response(answer().await)
}

/// A parameter that is one of some words.
pub(in crate::admin) fn take_word(
    query: &mut QueryParameters,
    name: &str,
    words: &[&str],
) -> Result<Option<String>, Refusal> {
    match query.take(name) {
        None => Ok(None),
        Some(word) if words.contains(&word.as_str()) => Ok(Some(word)),
        Some(_) => {
            Err(Refusal::of_member(RefusalCode::InvalidInput, name, format!("allowed are {}", words.join(", "))))
        }
    }
}

fn take_short(members: &mut BodyMembers, name: &str, most: usize) -> Result<Option<String>, Refusal> {
    match members.take_text(name)? {
        Some(text) if text.chars().count() > most => {
            Err(Refusal::of_member(RefusalCode::InvalidInput, name, format!("it has more than {most} characters")))
        }
        text => Ok(text),
    }
}

pub(in crate::admin) fn no_content(removed: Result<(), Refusal>) -> Response {
    match removed {
        Ok(()) => no_store(StatusCode::NO_CONTENT.into_response()),
        Err(refusal) => refuse(refusal),
    }
}
