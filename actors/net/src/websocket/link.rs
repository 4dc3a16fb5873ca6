//! The link task: a WebSocket client that reconnects for ever, owned by an actor. Every stream client has one.
//!
//! The task connects, sends the requests of the stream, reads its texts by a [`StreamProtocol`], and ends a connection whose subscription
//! is not confirmed in time, whose text breaks the protocol, which is silent for longer than its server announces, or whose server is not in
//! use any more. The owner receives frames.
//!
//! Every event carries the epoch of its connection, and [`WebSocketLink::accept`] drops the frames of a connection that the owner has given
//! up. Events are delivered with back-pressure: a slow owner slows the socket, and the memory does not grow. The time that the owner
//! takes is no silence of the server.

#[cfg(test)]
mod tests;
mod waits;

use std::{future::Future, sync::Arc, time::Duration};

use futures::{SinkExt, StreamExt};
use svc_kit::{ActorMessage, Mailbox, backoff::Backoff};
use svc_otel::metrics;
use tokio::{
    net::TcpStream,
    sync::{Notify, watch},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async_with_config,
    tungstenite::{Error as WsError, Message, Utf8Bytes, protocol::WebSocketConfig},
};
use tokio_util::task::AbortOnDropHandle;

use self::waits::{Waits, until};
use super::stream::{Reading, StreamProtocol};
use crate::upstream::UpstreamEndpoints;

/// Number of a connection; it grows with every attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, serde::Serialize)]
pub struct ConnectionEpoch(u64);

/// Server of a link.
#[derive(Clone)]
enum LinkTarget {
    /// One server.
    Fixed(String),
    /// The server that is current when the link connects.
    Current(UpstreamEndpoints),
}

impl LinkTarget {
    /// Waits until another server is used than the one at `origin`; for ever where there is no other one.
    async fn replaced(self, origin: String) {
        match self {
            Self::Fixed(_) => std::future::pending().await,
            Self::Current(endpoints) => endpoints.replaced(&origin).await,
        }
    }

    /// Waits until the server answers a request over HTTP after it had failed to; for ever where no such requests are made.
    async fn recovered(&self) {
        match self {
            Self::Fixed(_) => std::future::pending().await,
            Self::Current(endpoints) => endpoints.recovered().await,
        }
    }
}

/// Settings of a link.
#[derive(Clone)]
pub struct LinkConfig {
    /// Bounded telemetry label: `rpc`, `indexer`, `graph`.
    pub endpoint: &'static str,
    target: LinkTarget,
    path: &'static str,
    /// Delays between attempts.
    pub backoff: Backoff,
    /// Silence after which the connection is closed; pings and pongs end a silence. The link sends a ping after a third of it.
    pub liveness_timeout: Duration,
    /// Time from the opening of a connection to the confirmation of its subscription.
    pub confirmation_timeout: Duration,
    /// Patience with the stream until its server announces one; none by default.
    pub stream_patience: Option<Duration>,
    /// Longest accepted message.
    pub max_message_bytes: usize,
}

impl LinkConfig {
    /// Makes the usual settings for `path` at `origin` (`http` or `https`).
    pub fn new(endpoint: &'static str, origin: &str, path: &'static str) -> Self {
        Self::with_target(endpoint, LinkTarget::Fixed(origin.to_owned()), path)
    }

    /// Makes the usual settings for `path` at the endpoint that is current when the link connects.
    pub fn with_endpoints(endpoint: &'static str, endpoints: UpstreamEndpoints, path: &'static str) -> Self {
        Self::with_target(endpoint, LinkTarget::Current(endpoints), path)
    }

    fn with_target(endpoint: &'static str, target: LinkTarget, path: &'static str) -> Self {
        Self {
            endpoint,
            target,
            path,
            backoff: Backoff::CONNECTION,
            liveness_timeout: Duration::from_secs(30),
            confirmation_timeout: Duration::from_secs(30),
            stream_patience: None,
            max_message_bytes: 16 * 1024 * 1024,
        }
    }

    /// Returns the `ws://` or `wss://` URL at an origin.
    fn url(&self, origin: &str) -> String {
        let origin = origin.trim_end_matches('/');
        match origin.strip_prefix("http") {
            Some(rest) => format!("ws{rest}{}", self.path),
            None => format!("{origin}{}", self.path),
        }
    }
}

/// An event of a link; `F` is a frame of its stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEvent<F> {
    /// A connection is open.
    Up {
        /// The connection.
        epoch: ConnectionEpoch,
        /// Origin of the server that the connection leads to.
        origin: String,
    },
    /// The server has confirmed the subscription. The confirming frame comes before it.
    Ready {
        /// The connection.
        epoch: ConnectionEpoch,
    },
    /// A frame has arrived.
    Frame {
        /// The connection.
        epoch: ConnectionEpoch,
        /// The frame.
        frame: F,
    },
    /// The stream has been silent for longer than its patience; only of a protocol that [reports it](StreamProtocol::REPORTS_SILENCE).
    Silent {
        /// The connection.
        epoch: ConnectionEpoch,
    },
    /// A connection has ended, or an attempt has failed; the next attempt follows.
    Down {
        /// The connection.
        epoch: ConnectionEpoch,
        /// Reason of the end.
        reason: String,
    },
}

/// A connection that the owner has given up, and the reason.
type GivenUp = Option<(ConnectionEpoch, String)>;

/// A running link; its drop closes the connection for good.
pub struct WebSocketLink {
    epoch: ConnectionEpoch,
    is_given_up: bool,
    given_up: watch::Sender<GivenUp>,
    wake: Arc<Notify>,
    _task: AbortOnDropHandle<()>,
}

/// Reason of the end of a connection to a server that is not used any more.
pub(crate) const REPLACED: &str = "another server is used";
/// Timeout of an attempt to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the farewell to a server.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

impl WebSocketLink {
    /// Opens the link of an actor, which receives each event as a message and passes it to [`WebSocketLink::accept`].
    pub fn open<S: StreamProtocol, M: ActorMessage>(
        config: LinkConfig,
        stream: S,
        mailbox: Mailbox<M>,
        message: fn(LinkEvent<S::Frame>) -> M,
    ) -> Self {
        Self::open_with(config, stream, move |event| {
            let mailbox = mailbox.clone();
            async move { mailbox.send_with_backpressure(message(event)).await }
        })
    }

    /// Opens a link. `deliver` sends an event to the owner; it returns false when the owner has ended, which closes the link.
    pub fn open_with<S, D, F>(config: LinkConfig, stream: S, deliver: D) -> Self
    where
        S: StreamProtocol,
        D: Fn(LinkEvent<S::Frame>) -> F + Send + Sync + 'static,
        F: Future<Output = bool> + Send + 'static,
    {
        let (given_up, watched) = watch::channel(None);
        let wake = Arc::new(Notify::new());
        let task = LinkTask { config, stream, deliver, given_up: watched, wake: Arc::clone(&wake), was_silent: false };
        let task = AbortOnDropHandle::new(tokio::spawn(task.run()));
        Self { epoch: ConnectionEpoch::default(), is_given_up: true, given_up, wake, _task: task }
    }

    /// Takes an event of this link; `None` for a late one, of a connection that has ended or was given up. The owner calls it with each
    /// event, in their order.
    pub fn accept<F>(&mut self, event: LinkEvent<F>) -> Option<LinkEvent<F>> {
        match &event {
            LinkEvent::Up { epoch, .. } => (self.epoch, self.is_given_up) = (*epoch, false),
            LinkEvent::Down { epoch, .. } => (self.epoch, self.is_given_up) = (*epoch, true),
            LinkEvent::Ready { epoch } | LinkEvent::Frame { epoch, .. } | LinkEvent::Silent { epoch } => {
                return (*epoch == self.epoch && !self.is_given_up).then_some(event);
            }
        }
        Some(event)
    }

    /// The connection of the last accepted event.
    pub fn epoch(&self) -> ConnectionEpoch {
        self.epoch
    }

    /// Whether the last accepted connection is open and was not given up.
    pub fn is_open(&self) -> bool {
        !self.is_given_up
    }

    /// Closes the connection and opens the next. Frames of this one that are on their way are dropped.
    pub fn reconnect(&mut self, reason: impl Into<String>) {
        if !std::mem::replace(&mut self.is_given_up, true) {
            self.given_up.send_replace(Some((self.epoch, reason.into())));
        }
    }

    /// Ends the pause before the next attempt to connect: the server has answered in another way.
    pub fn wake(&self) {
        self.wake.notify_waiters();
    }
}

type ClientSocket = WebSocketStream<MaybeTlsStream<TcpStream>>;

struct LinkTask<S, D> {
    config: LinkConfig,
    stream: S,
    deliver: D,
    given_up: watch::Receiver<GivenUp>,
    wake: Arc<Notify>,
    /// Whether the last connection was silent for longer than its patience.
    was_silent: bool,
}

/// End of a connection.
enum End {
    /// With a reason; the next attempt follows.
    Reason(String),
    /// The owner has ended.
    OwnerEnded,
}

impl End {
    fn of(reason: impl ToString) -> Self {
        Self::Reason(reason.to_string())
    }
}

impl<S, D, F> LinkTask<S, D>
where
    S: StreamProtocol,
    D: Fn(LinkEvent<S::Frame>) -> F + Send + Sync + 'static,
    F: Future<Output = bool> + Send + 'static,
{
    async fn run(mut self) {
        let mut epoch = ConnectionEpoch::default();
        let mut failures = 0;
        loop {
            epoch = ConnectionEpoch(epoch.0 + 1);
            let reason = match connect(&self.config).await {
                Ok((socket, origin)) => {
                    metrics::record_ws_connected(self.config.endpoint, true);
                    tracing::info!(endpoint = self.config.endpoint, "link is up");
                    let opened = Instant::now();
                    let end = self.serve(socket, epoch, origin).await;
                    metrics::record_ws_connected(self.config.endpoint, false);
                    let End::Reason(reason) = end else { return };
                    // A connection that lasted, or outlasted a patience, is no failed attempt: the backoff starts again.
                    if opened.elapsed() >= self.config.backoff.max || std::mem::take(&mut self.was_silent) {
                        failures = 0;
                    }
                    reason
                }
                Err(reason) => reason,
            };
            tracing::warn!(endpoint = self.config.endpoint, reason, "link is down");
            if !(self.deliver)(LinkEvent::Down { epoch, reason }).await {
                return;
            }
            tokio::select! {
                () = sleep(self.config.backoff.delay(failures, fastrand::f64())) => {}
                () = self.wake.notified() => {}
                () = self.config.target.recovered() => {}
            }
            failures = failures.saturating_add(1);
            metrics::record_ws_reconnect(self.config.endpoint);
        }
    }

    async fn deliver(&self, event: LinkEvent<S::Frame>) -> Result<(), End> {
        if (self.deliver)(event).await { Ok(()) } else { Err(End::OwnerEnded) }
    }

    /// Serves one connection to its end.
    async fn serve(&mut self, mut socket: ClientSocket, epoch: ConnectionEpoch, origin: String) -> End {
        let (stream, replaced) = (self.stream.clone(), self.config.target.clone().replaced(origin.clone()));
        if let Err(end) = self.deliver(LinkEvent::Up { epoch, origin }).await {
            return end;
        }
        match self.serve_stream(&mut socket, epoch, stream, replaced).await {
            Ok(reason) => {
                let _ = timeout(CLOSE_TIMEOUT, socket.close(None)).await;
                End::Reason(reason)
            }
            Err(end) => end,
        }
    }

    /// Serves one connection until this side ends it, which is the reason, or until it has ended, which is the error.
    async fn serve_stream(
        &mut self,
        socket: &mut ClientSocket,
        epoch: ConnectionEpoch,
        mut stream: S,
        replaced: impl Future<Output = ()>,
    ) -> Result<String, End> {
        tokio::pin!(replaced);
        let mut waits = Waits::new(&self.config, Instant::now());
        for request in stream.requests() {
            socket.send(Message::text(request)).await.map_err(End::of)?;
        }
        loop {
            tokio::select! {
                frame = socket.next() => {
                    let Some(text) = read_text(frame)? else {
                        waits.last_frame_at = Instant::now();
                        continue;
                    };
                    let Reading { frame, request, is_confirmed, patience } = match stream.read(&text) {
                        Ok(reading) => reading,
                        Err(reason) => return Ok(reason),
                    };
                    if let Some(request) = request {
                        socket.send(Message::text(request)).await.map_err(End::of)?;
                    }
                    if let Some(frame) = frame {
                        self.deliver(LinkEvent::Frame { epoch, frame }).await?;
                    }
                    if is_confirmed && waits.confirm_by.take().is_some() {
                        self.deliver(LinkEvent::Ready { epoch }).await?;
                    }
                    // The owner may have been busy for a while.
                    let now = Instant::now();
                    waits.last_frame_at = now;
                    waits.announce(patience, now);
                }
                change = self.given_up.changed() => {
                    change.map_err(|_| End::OwnerEnded)?;
                    let given_up = self.given_up.borrow_and_update().clone();
                    // Otherwise it was an earlier connection.
                    if let Some((_, reason)) = given_up.filter(|(target, _)| *target == epoch) {
                        return Ok(reason);
                    }
                }
                () = sleep_until(waits.last_frame_at + waits.liveness) => {
                    return Err(End::Reason(format!("silent for {:?}", waits.liveness)));
                }
                () = &mut replaced => return Ok(REPLACED.to_owned()),
                () = until(waits.silent_at) => {
                    if !S::REPORTS_SILENCE {
                        return Ok(S::SILENCE.to_owned());
                    }
                    self.was_silent = true;
                    self.deliver(LinkEvent::Silent { epoch }).await?;
                    waits.be_patient_again(Instant::now());
                }
                () = until(waits.confirm_by) => {
                    return Ok(format!("no subscription within {:?}", self.config.confirmation_timeout));
                }
                () = sleep_until(waits.next_ping) => {
                    waits.next_ping = Instant::now() + waits.liveness / 3;
                    socket.send(Message::Ping(Vec::new().into())).await.map_err(End::of)?;
                }
            }
        }
    }
}

/// The text of a frame; `None` for a frame without one.
fn read_text(frame: Option<Result<Message, WsError>>) -> Result<Option<Utf8Bytes>, End> {
    match frame {
        Some(Ok(Message::Text(text))) => Ok(Some(text)),
        Some(Ok(Message::Close(frame))) => {
            let reason = frame.map(|frame| format!("closed by the server: {} {}", u16::from(frame.code), frame.reason));
            Err(End::Reason(reason.unwrap_or_else(|| "closed by the server".to_owned())))
        }
        Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(None),
        Some(Err(WsError::ConnectionClosed)) | None => Err(End::of("closed")),
        Some(Err(error)) => Err(End::of(error)),
    }
}

/// Connects to the server, which is returned with its origin. The server that is current may change meanwhile.
async fn connect(config: &LinkConfig) -> Result<(ClientSocket, String), String> {
    let origin = match &config.target {
        LinkTarget::Fixed(origin) => origin.clone(),
        LinkTarget::Current(endpoints) => {
            let current = endpoints.current();
            if let Some(reason) = current.left_out() {
                return Err(format!("the server is left out: {reason}"));
            }
            current.origin().to_owned()
        }
    };
    let limits = WebSocketConfig::default()
        .max_message_size(Some(config.max_message_bytes))
        .max_frame_size(Some(config.max_message_bytes));
    match timeout(CONNECT_TIMEOUT, connect_async_with_config(config.url(&origin), Some(limits), true)).await {
        Ok(Ok((socket, _))) => Ok((socket, origin)),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no connection within {CONNECT_TIMEOUT:?}")),
    }
}
