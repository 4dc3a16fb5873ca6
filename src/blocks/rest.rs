//! The reads.

use axum::{
    Json, Router,
    extract::{FromRequestParts, Path, RawQuery, State},
    http::{HeaderMap, StatusCode, Uri, request::Parts},
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::{Value, json};
use svc_indexer::{Delegations, ReadError};
use svc_wire::instant;

use super::{Front, params::Params};

/// A failed read as the contract shapes it.
struct Failure(ReadError);

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match &self.0 {
            ReadError::Parameter(_) => StatusCode::BAD_REQUEST,
            ReadError::NotFound(_) => StatusCode::NOT_FOUND,
            ReadError::Store(error) => {
                tracing::error!(%error, "a read has failed");
                return answer(StatusCode::INTERNAL_SERVER_ERROR, "the indexer's store failed");
            }
        };
        answer(status, &self.0.to_string())
    }
}

fn answer(status: StatusCode, text: &str) -> Response {
    (status, Json(json!({"error": text, "code": status.as_u16()}))).into_response()
}

type Answer = Result<Response, Failure>;

/// Groups of reads below `/v4`.
const PREFIXES: [&str; 5] = ["corporation", "ecosystem", "governance-framework", "delegation", "indexer"];

/// What no route matches: one segment, a known prefix, or anything else, each in its own form.
pub(super) async fn not_found(uri: Uri) -> Response {
    let segments: Vec<&str> = uri.path().split('/').filter(|segment| !segment.is_empty()).collect();
    match segments[..] {
        [] | [_] => return (StatusCode::NOT_FOUND, "Not found").into_response(),
        ["v4", prefix, _, ..] if PREFIXES.contains(&prefix) => return answer(StatusCode::NOT_FOUND, "Not found"),
        _ => {}
    }
    let body = json!({"name": "NotFoundError", "message": "Not found", "code": 404, "type": "NOT_FOUND"});
    (StatusCode::NOT_FOUND, Json(body)).into_response()
}

pub(super) fn routes() -> Router<Front> {
    Router::new()
        .route("/v4/corporation/get/{id}", get(corporation))
        .route("/v4/corporation/list", get(corporations))
        .route("/v4/ecosystem/get/{id}", get(ecosystem))
        .route("/v4/ecosystem/list", get(ecosystems))
        .route("/v4/governance-framework/get/{id}", get(framework_version))
        .route("/v4/governance-framework/list", get(framework_versions))
        .route("/v4/delegation/operator-authorization/{id}", get(operator_authorization))
        .route("/v4/delegation/operator-authorizations", get(operator_authorizations))
        .route("/v4/delegation/vs-operator-authorization/{id}", get(vs_operator_authorization))
        .route("/v4/delegation/vs-operator-authorizations", get(vs_operator_authorizations))
        .route("/v4/delegation/fee-grants", get(fee_grants))
        .route("/v4/indexer/block-height", get(block_height))
        .route("/v4/indexer/status", get(status))
        .route("/v4/indexer/version", get(version))
        .route("/v4/indexer/events", get(events))
}

fn id(text: &str) -> Result<u64, ReadError> {
    let parsed = text.parse().ok().filter(|id| *id > 0);
    parsed.ok_or_else(|| ReadError::Parameter(format!("id: {text:?} is not a whole number of 1 or more")))
}

/// The height a read is about, from `At-Block-Height`.
struct At {
    height: u64,
    asked: Option<u64>,
}

/// What every read is asked with: the height, and the query.
struct Ask {
    at: At,
    params: Params,
}

impl FromRequestParts<Front> for Ask {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, front: &Front) -> Result<Self, Failure> {
        Ok(Self { at: At::read(front, &parts.headers).await?, params: Params::parse(parts.uri.query()) })
    }
}

impl At {
    async fn read(front: &Front, headers: &HeaderMap) -> Result<Self, ReadError> {
        let asked = match headers.get("at-block-height") {
            None => None,
            Some(value) => {
                let text = value.to_str().unwrap_or_default();
                let bad =
                    || ReadError::Parameter(format!("At-Block-Height: {text:?} is not a whole number of 0 or more"));
                Some(text.trim().parse().map_err(|_| bad())?)
            }
        };
        Ok(Self { height: front.reader.height(asked).await?, asked })
    }

    fn answer(&self, body: &Value) -> Response {
        let mut response = Json(body).into_response();
        let headers = response.headers_mut();
        headers.insert("x-height", self.height.into());
        if let Some(asked) = self.asked {
            headers.insert("at-block-height", asked.into());
        }
        response
    }
}

async fn corporation(State(front): State<Front>, Path(key): Path<String>, ask: Ask) -> Answer {
    let Ask { at, params } = ask;
    let body = front.reader.corporation(id(&key)?, at.height, params.show()?).await?;
    Ok(at.answer(&body))
}

async fn corporations(State(front): State<Front>, ask: Ask) -> Answer {
    let Ask { at, params } = ask;
    let (is_newer, did) = (params.modified_after()?, params.text("did")?);
    let addresses: Option<Vec<&str>> =
        params.text("policy_address")?.map(|text| text.split(',').map(str::trim).collect());
    if addresses.as_ref().is_some_and(|list| list.len() > 64 || list.contains(&"")) {
        return Err(ReadError::Parameter("policy_address: 1 to 64 addresses are allowed, none empty".to_owned()).into());
    }
    let is_wanted = |body: &Value| {
        let address = body["policy_address"].as_str().unwrap_or_default();
        is_newer(body)
            && did.is_none_or(|did| body["did"] == did)
            && addresses.as_ref().is_none_or(|list| list.contains(&address))
    };
    let body = front.reader.corporations(at.height, params.page()?, params.show()?, is_wanted).await?;
    Ok(at.answer(&body))
}

async fn ecosystem(State(front): State<Front>, Path(key): Path<String>, ask: Ask) -> Answer {
    let Ask { at, params } = ask;
    let body = front.reader.ecosystem(id(&key)?, at.height, params.show()?).await?;
    Ok(at.answer(&body))
}

async fn ecosystems(State(front): State<Front>, ask: Ask) -> Answer {
    let Ask { at, params } = ask;
    let (is_newer, corporation) = (params.modified_after()?, params.number("corporation_id", 1)?);
    let archived = match (params.flag("archived")?, params.flag("only_active")?) {
        (Some(archived), _) => Some(archived),
        (None, Some(true)) => Some(false),
        (None, _) => None,
    };
    let is_wanted = |body: &Value| {
        is_newer(body)
            && corporation.is_none_or(|id| body["corporation_id"] == id)
            && archived.is_none_or(|archived| archived != body["archived"].is_null())
    };
    let body = front.reader.ecosystems(at.height, params.page()?, params.show()?, is_wanted).await?;
    Ok(at.answer(&body))
}

async fn framework_version(State(front): State<Front>, Path(key): Path<String>, ask: Ask) -> Answer {
    let Ask { at, params } = ask;
    let body = front.reader.framework_version(id(&key)?, at.height, params.text("preferred_language")?).await?;
    Ok(at.answer(&body))
}

async fn framework_versions(State(front): State<Front>, ask: Ask) -> Answer {
    let Ask { at, params } = ask;
    let owner = (params.number("ecosystem_id", 1)?, params.number("corporation_id", 1)?);
    let is_active_only = params.flag("active_only")?.unwrap_or(false);
    let language = params.text("preferred_language")?;
    let body = front.reader.framework_versions(owner, at.height, params.page()?, is_active_only, language).await?;
    Ok(at.answer(&body))
}

async fn operator_authorization(State(front): State<Front>, Path(key): Path<String>, ask: Ask) -> Answer {
    let Ask { at, params: _ } = ask;
    let body = front.reader.operator_authorization(id(&key)?, at.height).await?;
    Ok(at.answer(&body))
}

async fn vs_operator_authorization(State(front): State<Front>, Path(key): Path<String>, ask: Ask) -> Answer {
    let Ask { at, params: _ } = ask;
    let body = front.reader.vs_operator_authorization(id(&key)?, at.height).await?;
    Ok(at.answer(&body))
}

/// Filters of the delegation lists. `Validity` is judged at the block the read is about.
struct Delegation {
    corporation: Option<u64>,
    account: Option<String>,
    msg_type: Option<String>,
    valid_at: Option<i128>,
}

impl Delegation {
    async fn read(
        front: &Front,
        at: &At,
        params: &Params,
        corporation: &str,
        account: &str,
    ) -> Result<Self, ReadError> {
        let valid_at = if params.flag("only_active")? == Some(true) {
            let time = front.reader.block_time(at.height).await?.unwrap_or_default();
            Some(instant::parse_rfc3339(&time).as_ref().map_or(0, instant::nanos))
        } else {
            None
        };
        Ok(Self {
            corporation: params.number(corporation, 1)?,
            account: params.text(account)?.map(str::to_owned),
            msg_type: params.text("msg_type")?.map(str::to_owned),
            valid_at,
        })
    }

    fn admits(&self, body: &Value, corporation: &str, account: &str) -> bool {
        let until = body["expiration"].as_str().and_then(instant::parse_rfc3339).as_ref().map(instant::nanos);
        let lists = |wanted: &str| match body["msg_types"].as_array() {
            Some(types) => types.iter().any(|listed| listed == wanted),
            None => false,
        };
        self.corporation.is_none_or(|id| body[corporation] == id)
            && self.account.as_deref().is_none_or(|wanted| body[account] == wanted)
            && self.msg_type.as_deref().is_none_or(lists)
            && self.valid_at.is_none_or(|now| until.is_none_or(|until| until > now))
    }
}

async fn operator_authorizations(State(front): State<Front>, ask: Ask) -> Answer {
    let Ask { at, params } = ask;
    let filter = Delegation::read(&front, &at, &params, "corporation_id", "operator").await?;
    let is_wanted = |body: &Value| filter.admits(body, "corporation_id", "operator");
    let body =
        front.reader.delegations(Delegations::OperatorAuthorizations, at.height, params.page()?, is_wanted).await?;
    Ok(at.answer(&body))
}

async fn vs_operator_authorizations(State(front): State<Front>, ask: Ask) -> Answer {
    let Ask { at, params } = ask;
    let (corporation, operator) = (params.number("corporation_id", 1)?, params.text("vs_operator")?);
    let participant = params.number("participant_id", 1)?;
    let is_wanted = |body: &Value| {
        let has_participant = |id: u64| {
            body["records"]
                .as_array()
                .is_some_and(|records| records.iter().any(|record| record["participant_id"] == id))
        };
        corporation.is_none_or(|id| body["corporation_id"] == id)
            && operator.is_none_or(|operator| body["vs_operator"] == operator)
            && participant.is_none_or(has_participant)
    };
    let body =
        front.reader.delegations(Delegations::VsOperatorAuthorizations, at.height, params.page()?, is_wanted).await?;
    Ok(at.answer(&body))
}

async fn fee_grants(State(front): State<Front>, ask: Ask) -> Answer {
    let Ask { at, params } = ask;
    let filter = Delegation::read(&front, &at, &params, "grantor_corporation_id", "grantee").await?;
    let is_wanted = |body: &Value| filter.admits(body, "grantor_corporation_id", "grantee");
    let body = front.reader.delegations(Delegations::FeeGrants, at.height, params.page()?, is_wanted).await?;
    Ok(at.answer(&body))
}

async fn block_height(State(front): State<Front>) -> Answer {
    Ok(Json(front.reader.block_height().await?).into_response())
}

async fn status(State(front): State<Front>) -> Response {
    let body = front.reader.status().await;
    let code = if body["is_running"] == true { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(body)).into_response()
}

async fn version(State(front): State<Front>) -> Response {
    Json(front.reader.version()).into_response()
}

async fn events(State(front): State<Front>, RawQuery(query): RawQuery) -> Answer {
    let params = Params::parse(query.as_deref());
    let after = params.number("after_block_height", 0)?.unwrap_or(0);
    let limit = params.number("limit", 1)?.unwrap_or(100);
    if limit > 500 {
        return Err(ReadError::Parameter(format!("limit: {limit} is not between 1 and 500")).into());
    }
    let cursor = match params.text("cursor")? {
        None => None,
        Some(text) => {
            let parts = text
                .split_once('.')
                .and_then(|(height, position)| Some((height.parse().ok()?, position.parse().ok()?)));
            Some(parts.ok_or_else(|| ReadError::Parameter(format!("cursor: {text:?} is not one this indexer gave")))?)
        }
    };
    let corporation = params.number("corporation_id", 1)?;
    let dids = params.text("dids")?;
    let valid: Vec<String> = dids.unwrap_or_default().split(',').filter_map(super::socket::normal_did).collect();
    // Given, but without a valid DID: an empty list, no error.
    let limit = if dids.is_some() && valid.is_empty() { 0 } else { usize::try_from(limit).unwrap_or(500) };
    let page = front.reader.events(valid, corporation, after, cursor, limit).await?;
    Ok(Json(page).into_response())
}
