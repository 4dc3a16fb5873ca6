//! The bodies of a request and of its answer, which report how far they are.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Instant;

use super::{connection::ClientConnection, unread_body::UnreadBody};

/// The body of a request.
#[derive(Debug)]
pub struct RequestBody {
    inner: Option<Incoming>,
    connection: ClientConnection,
    unread: UnreadBody,
}

impl RequestBody {
    pub(super) fn new(inner: Incoming, connection: ClientConnection, unread: UnreadBody) -> Self {
        Self { inner: Some(inner), connection, unread }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.connection.with_progress(|progress| progress.record_body(0, false, Instant::now()));
        if let Some(rest) = self.inner.take().filter(|body| !body.is_end_stream()) {
            self.unread.put(rest);
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let Some(inner) = &mut this.inner else { return Poll::Ready(None) };
        let polled = Pin::new(inner).poll_frame(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            this.inner = None;
        }
        let bytes = match &polled {
            Poll::Ready(Some(Ok(frame))) => frame.data_ref().map_or(0, Buf::remaining),
            _ => 0,
        };
        let is_waiting = polled.is_pending();
        this.connection.with_progress(|progress| progress.record_body(bytes as u64, is_waiting, Instant::now()));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

/// The body of an answer.
#[derive(Debug)]
pub struct ResponseBody<B> {
    inner: B,
    #[expect(dead_code, reason = "held until the answer was written")]
    exchange: OpenExchange,
}

/// A request that is being answered. Dropping it ends the request.
#[derive(Debug)]
pub(super) struct OpenExchange(ClientConnection);

impl OpenExchange {
    pub fn begin(connection: ClientConnection) -> Self {
        connection.with_progress(|progress| progress.begin_request(Instant::now()));
        Self(connection)
    }

    pub fn answer_with<B>(self, inner: B) -> ResponseBody<B> {
        ResponseBody { inner, exchange: self }
    }
}

impl Drop for OpenExchange {
    fn drop(&mut self) {
        self.0.with_progress(|progress| progress.end_request(Instant::now()));
    }
}

impl<B: Body + Unpin> Body for ResponseBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.get_mut().inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
