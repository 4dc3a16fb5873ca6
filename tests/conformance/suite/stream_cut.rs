//! Streams that end before the answer, like a lost connection.

use axum::{body::Body, extract::Request, http::request::Parts, middleware::Next, response::Response};
use futures::StreamExt;
use rmcp::{RoleServer, service::RequestContext};
use tokio_util::sync::CancellationToken;

use super::protocol::is_stateless;

#[derive(Clone)]
struct StreamCutToken(CancellationToken);

/// Middleware that lets a tool end the stream of its answer. The client resumes the stream after the last event it received.
pub(super) async fn with_stream_cut(mut request: Request, next: Next) -> Response {
    let cut = CancellationToken::new();
    request.extensions_mut().insert(StreamCutToken(cut.clone()));
    let response = next.run(request).await;
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(cut.cancelled_owned())))
}

/// Ends the stream of a request in a session. Without a session the stream could not be resumed, so it continues.
pub(super) fn cut_stream(context: &RequestContext<RoleServer>) {
    let parts = context.extensions.get::<Parts>().filter(|_| !is_stateless(context));
    if let Some(StreamCutToken(cut)) = parts.and_then(|parts| parts.extensions.get()) {
        cut.cancel();
    }
}
