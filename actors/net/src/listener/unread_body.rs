//! The part of a request that its service has left unread. A client that has not sent all of its body when the answer comes would find
//! the connection closed at its next request: a short rest is read first, and the answer to a longer one says that the connection ends.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Buf;
use http::{HeaderMap, HeaderValue, header};
use hyper::body::{Body, Incoming};
use tokio::time::timeout;

use super::connection::ClientConnection;

/// Longest rest that is read for a connection's next request.
const MAX_UNREAD_BYTES: u64 = 64 * 1024;

/// Where a request's body is put when the service drops it before its end.
#[derive(Debug, Clone, Default)]
pub(super) struct UnreadBody(Arc<Mutex<Option<Incoming>>>);

impl UnreadBody {
    pub fn put(&self, body: Incoming) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
    }

    /// Reads the rest for at most `patience`, before the answer with these headers is sent.
    pub async fn settle(
        &self,
        connection: &ClientConnection,
        waits_for_continue: bool,
        patience: Duration,
        answer: &mut HeaderMap,
    ) {
        let Some(rest) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        // Reading would ask the client to send its body. The time is this one alone: that of the body may be over, and the answer is there.
        let is_read = !waits_for_continue
            && connection.hold_during(timeout(patience, read_to_the_end(rest))).await.unwrap_or(false);
        if !is_read {
            connection.leave_unread();
            answer.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

/// Whether the end came within the bound.
async fn read_to_the_end(rest: Incoming) -> bool {
    let mut left = MAX_UNREAD_BYTES;
    if rest.size_hint().lower() > left {
        return false;
    }
    let mut rest = pin!(rest);
    while let Some(frame) = poll_fn(|cx| rest.as_mut().poll_frame(cx)).await {
        let Ok(frame) = frame else { return false };
        let bytes = frame.data_ref().map_or(0, Buf::remaining) as u64;
        match left.checked_sub(bytes) {
            Some(fewer) => left = fewer,
            None => return false,
        }
    }
    true
}
