//! Streams that end before the answer, as when a connection is lost.

use axum::{body::Body, extract::Request, http::request::Parts, middleware::Next, response::Response};
use futures::StreamExt;
use rmcp::{RoleServer, service::RequestContext};
use tokio_util::sync::CancellationToken;

use super::is_modern;

#[derive(Clone)]
struct Cut(CancellationToken);

/// Middleware that lets a tool end the stream it is to be answered on. The client has to come back for the answer,
/// naming the event it saw last.
pub async fn cuttable(mut request: Request, next: Next) -> Response {
    let cut = CancellationToken::new();
    request.extensions_mut().insert(Cut(cut.clone()));
    let response = next.run(request).await;
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(cut.cancelled_owned())))
}

/// Ends the stream of a request in a session. Without sessions there is no way back to an answer.
pub(super) fn cut(context: &RequestContext<RoleServer>) {
    let parts = context.extensions.get::<Parts>().filter(|_| !is_modern(context));
    if let Some(Cut(cut)) = parts.and_then(|parts| parts.extensions.get()) {
        cut.cancel();
    }
}
