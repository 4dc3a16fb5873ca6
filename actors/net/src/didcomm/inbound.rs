//! The receiving side: POST and WebSocket. A message counts as taken once its receiver says so; the next frame of a socket is read
//! after that, so that the answer to a ping behind a message says that the message was taken.

use std::{future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::{HeaderMap, Request, Response, StatusCode, header};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use super::{
    budget::{BudgetShare, ByteBudget, MeteredStream, STEP},
    sockets::{SocketPlace, SocketTable},
};
use svc_otel::metrics;

use crate::websocket::server;

/// Read buffer of an accepted socket. There may be many.
const READ_BUFFER_BYTES: usize = 4 * 1024;
/// Time that a message gets to arrive whole.
const MESSAGE_TIME: Duration = Duration::from_secs(30);
/// Time between two looks at a socket that says nothing.
const LOOK: Duration = Duration::from_secs(5);
/// Time that a peer gets to take a close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Seconds after which a sender may come back, where nothing more is known.
const RETRY_SECONDS: u64 = 5;

/// The answer to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receipt {
    /// Stored, or dropped on purpose: the sender is done with it.
    Taken,
    /// It fails a check. The sender learns no reason.
    Refused,
    /// Its sender sends too much.
    Busy {
        /// Seconds after which it may come back.
        retry_after: u64,
    },
    /// The receiver cannot decide or store now.
    Unavailable {
        /// Seconds after which the sender may come back.
        retry_after: u64,
    },
}

/// Takes messages.
pub trait MessageReceiver: Send + Sync + 'static {
    /// Takes a message.
    fn receive(&self, envelope: Bytes) -> impl Future<Output = Receipt> + Send;
}

/// Limits of a door.
#[derive(Debug, Clone, Copy)]
pub struct InboundLimits {
    /// Bytes of one message.
    pub message_bytes: usize,
    /// Accepted WebSockets.
    pub sockets: usize,
    /// Bytes of all messages that are being received.
    pub inflight_bytes: usize,
    /// Silence after which an accepted socket is closed.
    pub silence: Duration,
}

/// Whether a content type is one of encrypted messages. Parameters are allowed.
pub fn is_message_type(content_type: &str) -> bool {
    const TYPES: [&str; 3] =
        ["application/didcomm-encrypted+json", "application/didcomm-envelope-enc", "application/ssi-agent-wire"];
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    TYPES.iter().any(|known| known.eq_ignore_ascii_case(essence))
}

/// Receives messages for one receiver. Clones share its limits.
pub struct InboundDoor<R> {
    receiver: Arc<R>,
    limits: InboundLimits,
    budget: ByteBudget,
    sockets: SocketTable,
}

/// The body of a POST that is being read. It takes its part of the budget as it arrives.
#[derive(Debug)]
pub struct PostBody {
    bytes: Vec<u8>,
    shares: Vec<BudgetShare>,
    budget: ByteBudget,
    limit: usize,
}

impl PostBody {
    /// Time that it gets to arrive whole.
    pub const TIME: Duration = MESSAGE_TIME;

    /// Takes a part of the body.
    ///
    /// # Errors
    /// With the answer, when the body is too large, or there is no room for it.
    pub fn extend(&mut self, part: &[u8]) -> Result<(), Box<Response<String>>> {
        if self.bytes.len() + part.len() > self.limit {
            return Err(Box::new(answer(StatusCode::PAYLOAD_TOO_LARGE, None)));
        }
        while self.bytes.len() + part.len() > self.shares.len() * STEP {
            let share = self.budget.try_take(STEP);
            let busy = || Box::new(answer(StatusCode::SERVICE_UNAVAILABLE, Some(RETRY_SECONDS)));
            self.shares.push(share.ok_or_else(busy)?);
        }
        self.bytes.extend_from_slice(part);
        Ok(())
    }
}

impl<R> Clone for InboundDoor<R> {
    fn clone(&self) -> Self {
        let (receiver, budget, sockets) = (Arc::clone(&self.receiver), self.budget.clone(), self.sockets.clone());
        Self { receiver, limits: self.limits, budget, sockets }
    }
}

impl<R: MessageReceiver> InboundDoor<R> {
    /// Makes a door.
    pub fn new(receiver: R, limits: InboundLimits) -> Self {
        let (budget, sockets) = (ByteBudget::new(limits.inflight_bytes), SocketTable::new(limits.sockets));
        Self { receiver: Arc::new(receiver), limits, budget, sockets }
    }

    /// Accepted sockets now.
    pub fn open_sockets(&self) -> usize {
        self.sockets.len()
    }

    fn record_sizes(&self) {
        metrics::record_peer_sockets(self.sockets.len(), self.budget.in_use());
    }

    /// Decides by the headers of a POST whether its body is read.
    pub fn admit_post(&self, headers: &HeaderMap) -> Result<PostBody, Box<Response<String>>> {
        let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if !is_message_type(content_type) {
            return Err(Box::new(answer(StatusCode::UNSUPPORTED_MEDIA_TYPE, None)));
        }
        let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        if length.is_some_and(|length| length > self.limits.message_bytes) {
            return Err(Box::new(answer(StatusCode::PAYLOAD_TOO_LARGE, None)));
        }
        let (budget, limit) = (self.budget.clone(), self.limits.message_bytes);
        Ok(PostBody { bytes: Vec::new(), shares: Vec::new(), budget, limit })
    }

    /// Takes the body of an admitted POST. The body of the answer is empty for every reason.
    pub async fn take_post(&self, body: PostBody) -> Response<String> {
        self.record_sizes();
        let PostBody { bytes, shares, .. } = body;
        let receipt = self.receiver.receive(bytes.into()).await;
        drop(shares);
        self.record_sizes();
        match receipt {
            Receipt::Taken => answer(StatusCode::ACCEPTED, None),
            Receipt::Refused => answer(StatusCode::BAD_REQUEST, None),
            Receipt::Busy { retry_after } => answer(StatusCode::TOO_MANY_REQUESTS, Some(retry_after)),
            Receipt::Unavailable { retry_after } => answer(StatusCode::SERVICE_UNAVAILABLE, Some(retry_after)),
        }
    }

    /// Answers an upgrade request and receives from the socket.
    pub fn accept<B>(&self, request: &mut Request<B>) -> Response<String> {
        let Some(place) = self.sockets.enter(Instant::now()) else {
            return answer(StatusCode::SERVICE_UNAVAILABLE, Some(RETRY_SECONDS));
        };
        self.record_sizes();
        let door = self.clone();
        server::accept_stream(request, move |stream| async move {
            let limits = WebSocketConfig::default()
                .max_message_size(Some(door.limits.message_bytes))
                .max_frame_size(Some(door.limits.message_bytes))
                .read_buffer_size(READ_BUFFER_BYTES)
                .write_buffer_size(0);
            let stream = MeteredStream::new(stream, door.budget.clone());
            let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(limits)).await;
            door.serve(socket, place).await;
            door.record_sizes();
        })
    }

    /// Reads messages until the peer, silence or a refusal ends it. Nothing but control frames is ever sent here: one text frame ends
    /// agents of another make.
    async fn serve<S>(&self, mut socket: WebSocketStream<MeteredStream<S>>, place: SocketPlace)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        let mut heard_at = Instant::now();
        let end = loop {
            let frame = tokio::select! {
                frame = timeout(LOOK, socket.next()) => frame,
                () = place.evicted.cancelled() => break close(CloseCode::Away, "other connections need the place"),
            };
            let bytes: Bytes = match frame {
                Err(_) if socket.get_ref().message_age().is_some_and(|age| age > MESSAGE_TIME) => {
                    break close(CloseCode::Again, "the message did not arrive in time");
                }
                Err(_) if heard_at.elapsed() >= self.limits.silence => break close(CloseCode::Away, "idle"),
                Err(_) => continue,
                Ok(None | Some(Ok(Message::Close(_)))) => return,
                Ok(Some(Err(error))) => break close_of_error(&error),
                Ok(Some(Ok(Message::Binary(bytes)))) => bytes,
                Ok(Some(Ok(Message::Text(text)))) => text.into(),
                Ok(Some(Ok(control))) => {
                    // The answer to a ping is written with the next read; a peer that waits for it sends nothing meanwhile. One that
                    // does not read is given up.
                    if !matches!(timeout(CLOSE_TIMEOUT, socket.flush()).await, Ok(Ok(()))) {
                        return;
                    }
                    socket.get_mut().release_control(control.len());
                    heard_at = Instant::now();
                    continue;
                }
            };
            heard_at = Instant::now();
            let receipt = self.receiver.receive(bytes).await;
            socket.get_mut().release();
            match receipt {
                Receipt::Taken => place.note_activity(Instant::now()),
                Receipt::Refused => {}
                Receipt::Busy { .. } => break close(CloseCode::Again, "too many messages"),
                Receipt::Unavailable { .. } => break close(CloseCode::Again, "try again later"),
            }
        };
        let _ = timeout(CLOSE_TIMEOUT, socket.close(Some(end))).await;
        let _ = timeout(CLOSE_TIMEOUT, socket.get_mut().discard()).await;
    }
}

fn close(code: CloseCode, reason: &'static str) -> CloseFrame {
    CloseFrame { code, reason: reason.into() }
}

fn close_of_error(error: &tokio_tungstenite::tungstenite::Error) -> CloseFrame {
    use tokio_tungstenite::tungstenite::Error;
    match error {
        Error::Capacity(_) => close(CloseCode::Size, "the message is too large"),
        Error::Io(_) => close(CloseCode::Again, "try again later"),
        _ => close(CloseCode::Protocol, "protocol error"),
    }
}

fn answer(status: StatusCode, retry_after: Option<u64>) -> Response<String> {
    let mut response = Response::new(String::new());
    *response.status_mut() = status;
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_of_messages_are_taken_with_parameters() {
        for (text, expected) in [
            ("application/didcomm-encrypted+json", true),
            ("application/didcomm-envelope-enc", true),
            ("application/ssi-agent-wire; charset=utf-8", true),
            ("Application/DIDComm-Encrypted+JSON", true),
            ("application/json", false),
            ("application/didcomm-plain+json", false),
            ("", false),
        ] {
            assert_eq!(is_message_type(text), expected, "{text}");
        }
    }
}
