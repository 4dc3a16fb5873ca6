//! The answer to a request for access, in the transaction of its message.

use serde_json::json;
use sqlx::{AnyConnection, AssertSqlSafe, Row};
use svc_agent_core::access::{AccessOutcome, GrantDetails, StoredGrant};
use svc_didcomm::{
    Message,
    access::{Denied, GrantCounts, GrantLimits, GrantTerms, KnownGrant, judge_row},
    protocol::{
        basic_message,
        endpoint_access::{AccessDenial, AccessRequest, frame_message},
    },
};
use uuid::Uuid;

use super::types::read_grant;

use super::types::COLUMNS;
use crate::{
    columns::{from_column, to_column},
    error::AgentStoreError,
};

/// Member of the body of a queued message that stands for the frame of a grant. The frame is made when the message is sent, so that no
/// store has a token.
const GRANT_MEMBER: &str = "access_grant";
/// Seconds for which a denial is worth sending.
const DENIAL_SECONDS: i64 = 60;

/// The part of access in a message.
#[derive(Debug, Clone)]
pub struct AccessPart {
    /// Id of the request.
    pub request_id: String,
    /// The request; none when it could not be read.
    pub request: Option<AccessRequest>,
    /// The decision by the facts of the moment.
    pub decision: Result<OfferedGrant, Denied>,
}

/// A grant that the facts of the moment allow.
#[derive(Debug, Clone)]
pub struct OfferedGrant {
    /// Its conditions.
    pub terms: GrantTerms,
    /// The part of its material that is no secret.
    pub details: GrantDetails,
    /// The bounds of valid grants.
    pub limits: GrantLimits,
}

/// The answer to a request.
pub struct AccessAnswer {
    /// Its message, whose frame may still be to be made.
    pub message: Message,
    /// A grant that is new, whose row is still to be written.
    pub grant: Option<StoredGrant>,
    /// The decision.
    pub outcome: AccessOutcome,
}

/// The id of the grant whose frame a queued message is to carry.
pub fn grant_of_message(message: &Message) -> Option<&str> {
    message.body.get(GRANT_MEMBER)?.as_str()
}

/// Answers a request of a peer over a connection, in the thread of its message. `now` is in seconds since the epoch.
pub async fn answer_request(
    connection: &mut AnyConnection,
    part: &AccessPart,
    (peer, connection_id, thread): (&str, &str, &str),
    now: i64,
) -> Result<AccessAnswer, AgentStoreError> {
    let decision = match (&part.request, &part.decision) {
        (Some(request), Ok(offered)) => grant(connection, request, offered, (peer, connection_id), now).await?,
        (_, Err(denied)) => GrantDecision::Denied(denied.clone()),
        (None, Ok(_)) => return Err(AgentStoreError::CorruptRow("a grant without a request".to_owned())),
    };
    let id = Uuid::new_v4().to_string();
    Ok(match decision {
        GrantDecision::New(grant) => AccessAnswer {
            message: grant_message(id, &grant, thread, now),
            grant: Some(grant),
            outcome: AccessOutcome::Granted,
        },
        GrantDecision::Known(grant) => AccessAnswer {
            message: grant_message(id, &grant, thread, now),
            grant: None,
            outcome: AccessOutcome::Granted,
        },
        GrantDecision::Denied(denied) => {
            let denial = AccessDenial {
                id: part.request_id.clone(),
                endpoint: part.request.as_ref().map(|request| request.endpoint.clone()),
                code: denied.code,
                message: denied.message,
                retry_after: denied.retry_after,
            };
            let message = frame_message(&id, &denial.to_content(), Some(thread), now, Some(now + DENIAL_SECONDS));
            AccessAnswer { message, grant: None, outcome: AccessOutcome::Denied(denied.code) }
        }
    })
}

/// The message that stands for the frame of a grant.
fn grant_message(id: String, grant: &StoredGrant, thread: &str, now: i64) -> Message {
    Message {
        created_time: Some(now),
        expires_time: Some(grant.expires_at),
        ..Message::new(id, basic_message::MESSAGE, json!({GRANT_MEMBER: grant.id})).in_thread(thread)
    }
}

/// The decision about a request by the rows of grants.
enum GrantDecision {
    /// Its grant is new.
    New(StoredGrant),
    /// The request was granted before.
    Known(StoredGrant),
    /// It is denied.
    Denied(Denied),
}

/// Decides about a request that the facts of the moment allow.
async fn grant(
    connection: &mut AnyConnection,
    request: &AccessRequest,
    offered: &OfferedGrant,
    (peer, connection_id): (&str, &str),
    now: i64,
) -> Result<GrantDecision, AgentStoreError> {
    let sql = format!("SELECT {COLUMNS} FROM access_grant WHERE peer = $1 AND request_id = $2");
    let query = sqlx::query(AssertSqlSafe(sql)).bind(peer.to_owned()).bind(request.id.clone());
    let row = query.fetch_optional(&mut *connection).await?;
    let known = row.as_ref().map(read_grant).transpose()?;
    let counts = counts(connection, (peer, &request.endpoint), offered.limits, now).await?;
    let sql = "SELECT valid_from FROM access_validity WHERE one = 1";
    let valid_from: i64 = sqlx::query_scalar(sql).fetch_one(&mut *connection).await?;
    let shown = known.as_ref().map(|known| KnownGrant {
        endpoint: known.endpoint.clone(),
        is_active: known.revoked_at.is_none() && known.expires_at > now && known.issued_at >= valid_from,
    });
    let is_known = match judge_row(request, shown.as_ref(), counts, offered.limits) {
        Ok(is_known) => is_known,
        Err(denied) => return Ok(GrantDecision::Denied(denied)),
    };
    if let (true, Some(known)) = (is_known, known) {
        return Ok(GrantDecision::Known(known));
    }
    // A token of the second in which all others became void is none of them.
    let issued_at = now.max(valid_from);
    let GrantTerms { url, scopes, material, seconds } = offered.terms.clone();
    let grant = StoredGrant {
        id: Uuid::now_v7().to_string(),
        peer: peer.to_owned(),
        request_id: request.id.clone(),
        connection_id: connection_id.to_owned(),
        endpoint: request.endpoint.clone(),
        url,
        material,
        details: offered.details.clone(),
        scopes,
        issued_at,
        expires_at: issued_at + seconds,
        revoked_at: None,
        reason: None,
    };
    Ok(GrantDecision::New(grant))
}

async fn counts(
    connection: &mut AnyConnection,
    (peer, endpoint): (&str, &str),
    limits: GrantLimits,
    now: i64,
) -> Result<GrantCounts, AgentStoreError> {
    let sql = "SELECT COUNT(*) AS of_peer, MIN(expires_at) AS first_end FROM access_grant \
               WHERE peer = $1 AND endpoint = $2 AND expires_at > $3 AND revoked_at IS NULL";
    let query = sqlx::query(sql).bind(peer.to_owned()).bind(endpoint.to_owned()).bind(now);
    let row = query.fetch_one(&mut *connection).await?;
    let (of_peer, first_end): (i64, Option<i64>) = (row.try_get("of_peer")?, row.try_get("first_end")?);
    // The bound itself bounds the rows that are counted.
    let sql = "SELECT COUNT(*) FROM (SELECT 1 AS one FROM access_grant WHERE expires_at > $1 AND revoked_at IS NULL LIMIT $2) AS valid";
    let query = sqlx::query_scalar(sql).bind(now).bind(to_column(limits.all));
    let all: i64 = query.fetch_one(connection).await?;
    let first_end = first_end.and_then(|end| u64::try_from(end - now).ok()).unwrap_or_default();
    Ok(GrantCounts { of_peer: from_column(of_peer), first_end, all: from_column(all) })
}
