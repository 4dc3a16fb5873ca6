//! The export of the store, for trusted callers.

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::{Request, State},
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use futures::stream;
use svc_agent::{AgentPart, ExportError, Refusal, RefusalCode, StoreExport};
use tokio_util::sync::CancellationToken;

use crate::admin::{
    api::AdminApi,
    caller::Caller,
    format::{
        answer::{no_store, refuse},
        request::QueryParameters,
        schema::{ErrorBody, ReadRefusals},
    },
};

/// The refusals of an export.
#[derive(utoipa::IntoResponses)]
#[allow(dead_code)]
pub(in crate::admin) enum ExportRefusals {
    /// INVALID_STATE: another export runs.
    #[response(status = 409)]
    Conflict(ErrorBody),
}

/// The store as it is now, as JSON lines: `svc agent import` makes an empty store of them. Private keys stay encrypted. The last line has
/// the authentication code; an answer without it broke off.
#[utoipa::path(get, path = "/v2/agent/export", operation_id = "exportStore", tag = "agent",
    responses((status = 200, body = String, content_type = "application/jsonl", description = "The export."), ReadRefusals, ExportRefusals))]
pub(in crate::admin) async fn export(
    State(api): State<AdminApi>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let begin = async || -> Result<(Bytes, StoreExport), Refusal> {
        if caller != Caller::Trusted {
            let message =
                "the store is exported to callers of ADMIN_API_TRUSTED_NETWORKS alone; svc agent export is one";
            return Err(Refusal::new(RefusalCode::Forbidden, message));
        }
        QueryParameters::parse(query.as_deref())?.finish("none")?;
        let mut export = api.agent.store().export().map_err(|error| refusal_of(&error))?;
        // A store that cannot be read is an answer of its own, and no stream that breaks off.
        let first = export.next_chunk().await.unwrap_or(Err(ExportError::Closed));
        Ok((first.map_err(|error| refusal_of(&error))?, export))
    };
    match begin().await {
        Err(refusal) => refuse(refusal),
        Ok((first, export)) => {
            let body = Body::from_stream(chunks(first, export, api.shutdown_token()));
            no_store(([(CONTENT_TYPE, "application/jsonl")], body).into_response())
        }
    }
}

fn refusal_of(error: &ExportError) -> Refusal {
    match error {
        ExportError::Busy => Refusal::new(RefusalCode::InvalidState, error.to_string()),
        ExportError::LongRow { .. } | ExportError::Encoding(_) => {
            tracing::error!(%error, "the store cannot be exported");
            Refusal::new(RefusalCode::Internal, error.to_string())
        }
        ExportError::Empty
        | ExportError::Store(_)
        | ExportError::Stalled(_)
        | ExportError::Abandoned
        | ExportError::Closed => {
            tracing::error!(%error, "the store cannot be exported now");
            Refusal::not_ready(AgentPart::Store, "the store cannot be exported now", 5)
        }
    }
}

/// The chunks of an answer. After an error the connection ends without the end of the answer, so that the caller notices it.
fn chunks(
    first: Bytes,
    export: StoreExport,
    shutdown: CancellationToken,
) -> impl futures::Stream<Item = Result<Bytes, ExportError>> {
    // An error is the last chunk: without an export there is no further one.
    stream::unfold((Some(first), Some(export)), move |(first, export)| {
        let shutdown = shutdown.clone();
        async move {
            let mut export = export?;
            if let Some(first) = first {
                return Some((Ok(first), (None, Some(export))));
            }
            let next = shutdown.run_until_cancelled(export.next_chunk()).await;
            match next.unwrap_or(Some(Err(ExportError::Closed)))? {
                Ok(chunk) => Some((Ok(chunk), (None, Some(export)))),
                Err(error) => Some((Err(error), (None, None))),
            }
        }
    })
}
