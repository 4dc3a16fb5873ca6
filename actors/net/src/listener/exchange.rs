//! The bodies of a request and of its answer, which report how far they are.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Instant;

use super::connection::ClientConnection;

/// The body of a request.
#[derive(Debug)]
pub struct RequestBody {
    inner: Incoming,
    connection: ClientConnection,
}

impl RequestBody {
    pub(super) fn new(inner: Incoming, connection: ClientConnection) -> Self {
        Self { inner, connection }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.connection.with_progress(|progress| progress.record_body(0, false, Instant::now()));
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_frame(cx);
        let bytes = match &polled {
            Poll::Ready(Some(Ok(frame))) => frame.data_ref().map_or(0, Buf::remaining),
            _ => 0,
        };
        let is_waiting = polled.is_pending();
        this.connection.with_progress(|progress| progress.record_body(bytes as u64, is_waiting, Instant::now()));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
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
