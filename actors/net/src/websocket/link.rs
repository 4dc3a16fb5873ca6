//! A WebSocket client that reconnects for ever, owned by an actor.
//!
//! Every event carries the epoch of its connection: the owner can ignore events of an earlier connection. Events are delivered
//! with back-pressure: a slow owner slows the socket, and the memory does not grow.

use std::{future::Future, sync::Arc, time::Duration};

use futures::{SinkExt, StreamExt};
use svc_kit::backoff::Backoff;
use svc_otel::metrics;
use tokio::{
    net::TcpStream,
    sync::{Notify, mpsc, watch},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async_with_config,
    tungstenite::{Error as WsError, Message, protocol::WebSocketConfig},
};
use tokio_util::task::AbortOnDropHandle;

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
            max_message_bytes: 16 * 1024 * 1024,
        }
    }

    /// Returns the `ws://` or `wss://` URL of the current target.
    fn url(&self) -> String {
        let origin = match &self.target {
            LinkTarget::Fixed(origin) => origin.as_str(),
            LinkTarget::Current(endpoints) => endpoints.current().origin(),
        };
        let origin = origin.trim_end_matches('/');
        match origin.strip_prefix("http") {
            Some(rest) => format!("ws{rest}{}", self.path),
            None => format!("{origin}{}", self.path),
        }
    }
}

/// An event of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEvent {
    /// A connection is open.
    Up {
        /// The connection.
        epoch: ConnectionEpoch,
    },
    /// A text message has arrived.
    Text {
        /// The connection.
        epoch: ConnectionEpoch,
        /// The message.
        text: String,
    },
    /// A connection has ended, or an attempt has failed; the next attempt follows.
    Down {
        /// The connection.
        epoch: ConnectionEpoch,
        /// Reason of the end.
        reason: String,
    },
}

enum LinkCommand {
    Send { epoch: ConnectionEpoch, text: String },
    Reconnect { epoch: ConnectionEpoch, reason: String },
}

/// A running link; its drop closes the connection for good.
pub struct WebSocketLink {
    commands: mpsc::Sender<LinkCommand>,
    liveness_timeout: watch::Sender<Duration>,
    wake: Arc<Notify>,
    _task: AbortOnDropHandle<()>,
}

/// Commands of the owner that may wait for the socket.
const COMMAND_QUEUE_LIMIT: usize = 64;
/// Timeout of an attempt to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl WebSocketLink {
    /// Opens a link. `deliver` sends an event to the owner; it returns false when the owner has ended, which closes the link.
    pub fn open<D, F>(config: LinkConfig, deliver: D) -> Self
    where
        D: Fn(LinkEvent) -> F + Send + Sync + 'static,
        F: Future<Output = bool> + Send + 'static,
    {
        let (commands, inbox) = mpsc::channel(COMMAND_QUEUE_LIMIT);
        let (liveness, watched) = watch::channel(config.liveness_timeout);
        let wake = Arc::new(Notify::new());
        let task = tokio::spawn(run(config, Arc::new(deliver), inbox, watched, Arc::clone(&wake)));
        Self { commands, liveness_timeout: liveness, wake, _task: AbortOnDropHandle::new(task) }
    }

    /// Sends a text over the connection of `epoch`, and drops the text when that connection has ended. False when too many commands
    /// are waiting.
    pub fn send(&self, epoch: ConnectionEpoch, text: String) -> bool {
        self.commands.try_send(LinkCommand::Send { epoch, text }).is_ok()
    }

    /// Closes the connection of `epoch` and opens the next.
    pub fn reconnect(&self, epoch: ConnectionEpoch, reason: impl Into<String>) {
        // A full queue means that the socket is stuck; then the liveness timeout closes it.
        let _ = self.commands.try_send(LinkCommand::Reconnect { epoch, reason: reason.into() });
    }

    /// Ends the pause before the next attempt to connect: the server has answered in another way.
    pub fn wake(&self) {
        self.wake.notify_waiters();
    }

    /// Changes the silence after which a connection is closed.
    pub fn set_liveness_timeout(&self, liveness: Duration) {
        self.liveness_timeout.send_replace(liveness);
    }
}

async fn run<D, F>(
    config: LinkConfig,
    deliver: Arc<D>,
    mut inbox: mpsc::Receiver<LinkCommand>,
    mut liveness: watch::Receiver<Duration>,
    wake: Arc<Notify>,
) where
    D: Fn(LinkEvent) -> F + Send + Sync + 'static,
    F: Future<Output = bool> + Send + 'static,
{
    let mut epoch = ConnectionEpoch::default();
    let mut failures = 0;
    loop {
        epoch = ConnectionEpoch(epoch.0 + 1);
        let reason = match connect(&config).await {
            Ok(socket) => {
                metrics::record_ws_connected(config.endpoint, true);
                tracing::info!(endpoint = config.endpoint, "link is up");
                if !deliver(LinkEvent::Up { epoch }).await {
                    return;
                }
                let opened = Instant::now();
                let reason = match serve(socket, epoch, &deliver, &mut inbox, &mut liveness).await {
                    Some(reason) => reason,
                    None => return,
                };
                metrics::record_ws_connected(config.endpoint, false);
                // A connection that lasted is no failed attempt: the backoff starts again.
                if opened.elapsed() >= config.backoff.max {
                    failures = 0;
                }
                reason
            }
            Err(reason) => reason,
        };
        tracing::warn!(endpoint = config.endpoint, reason, "link is down");
        if !deliver(LinkEvent::Down { epoch, reason }).await {
            return;
        }
        tokio::select! {
            () = sleep(config.backoff.delay(failures, fastrand::f64())) => {}
            () = wake.notified() => {}
            () = config.target.recovered() => {}
        }
        failures = failures.saturating_add(1);
        metrics::record_ws_reconnect(config.endpoint);
    }
}

type ClientSocket = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn connect(config: &LinkConfig) -> Result<ClientSocket, String> {
    let limits = WebSocketConfig::default()
        .max_message_size(Some(config.max_message_bytes))
        .max_frame_size(Some(config.max_message_bytes));
    match timeout(CONNECT_TIMEOUT, connect_async_with_config(config.url(), Some(limits), true)).await {
        Ok(Ok((socket, _))) => Ok(socket),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no connection within {CONNECT_TIMEOUT:?}")),
    }
}

/// Serves one connection and returns the reason of its end; `None` when the owner has ended.
async fn serve<D, F>(
    mut socket: ClientSocket,
    epoch: ConnectionEpoch,
    deliver: &Arc<D>,
    inbox: &mut mpsc::Receiver<LinkCommand>,
    liveness: &mut watch::Receiver<Duration>,
) -> Option<String>
where
    D: Fn(LinkEvent) -> F + Send + Sync + 'static,
    F: Future<Output = bool> + Send + 'static,
{
    let mut last_frame_at = Instant::now();
    let mut next_ping = last_frame_at + *liveness.borrow() / 3;
    loop {
        let silence_limit = *liveness.borrow_and_update();
        tokio::select! {
            frame = socket.next() => {
                last_frame_at = Instant::now();
                match frame {
                    Some(Ok(Message::Text(text))) => {
                        if !deliver(LinkEvent::Text { epoch, text: text.as_str().to_owned() }).await {
                            return None;
                        }
                    }
                    Some(Ok(Message::Close(frame))) => {
                        let reason = frame.map(|frame| format!("closed by the server: {} {}", u16::from(frame.code), frame.reason));
                        return Some(reason.unwrap_or_else(|| "closed by the server".to_owned()));
                    }
                    Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                    Some(Err(WsError::ConnectionClosed)) | None => return Some("closed".to_owned()),
                    Some(Err(error)) => return Some(error.to_string()),
                }
            }
            command = inbox.recv() => match command {
                Some(LinkCommand::Send { epoch: target, text }) if target == epoch => {
                    if let Err(error) = socket.send(Message::text(text)).await {
                        return Some(error.to_string());
                    }
                }
                Some(LinkCommand::Reconnect { epoch: target, reason }) if target == epoch => {
                    let _ = socket.close(None).await;
                    return Some(reason);
                }
                // A command for an earlier connection.
                Some(LinkCommand::Send { .. } | LinkCommand::Reconnect { .. }) => {}
                None => return None,
            },
            _ = liveness.changed() => {}
            () = sleep_until(last_frame_at + silence_limit) => return Some(format!("silent for {silence_limit:?}")),
            () = sleep_until(next_ping) => {
                next_ping = Instant::now() + silence_limit / 3;
                if let Err(error) = socket.send(Message::Ping(Vec::new().into())).await {
                    return Some(error.to_string());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::{UpstreamKind, UpstreamOrigins};

    #[tokio::test]
    async fn a_link_in_backoff_connects_at_once_when_it_is_woken() {
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = free.local_addr().expect("bound");
        drop(free);
        let pause = Duration::from_secs(3_600);
        let backoff = Backoff { initial: pause, max: pause, factor: 1.0, jitter: 0.0 };
        let config = LinkConfig { backoff, ..LinkConfig::new("rpc", &format!("http://{address}"), "/websocket") };
        let (events, mut heard) = mpsc::channel(8);
        let link = WebSocketLink::open(config, move |event| {
            let events = events.clone();
            async move { events.send(event).await.is_ok() }
        });
        assert!(matches!(heard.recv().await, Some(LinkEvent::Down { .. })), "there is no server");
        let server = tokio::net::TcpListener::bind(address).await.expect("the port is free");
        let accepted = tokio::spawn(async move {
            let (stream, _) = server.accept().await.expect("a connection");
            tokio_tungstenite::accept_async(stream).await.expect("a handshake")
        });
        let up = async {
            loop {
                link.wake();
                tokio::select! {
                    event = heard.recv() => return event,
                    () = tokio::task::yield_now() => {}
                }
            }
        };
        let up = timeout(Duration::from_secs(10), up).await.expect("long before the pause is over");
        assert!(matches!(up, Some(LinkEvent::Up { .. })), "{up:?}");
        accepted.await.expect("accepted");
    }

    #[tokio::test]
    async fn a_link_in_backoff_connects_at_once_when_the_server_answers_again() {
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = free.local_addr().expect("bound");
        drop(free);
        let origins = UpstreamOrigins::from(format!("http://{address}"));
        let endpoints = UpstreamEndpoints::new(UpstreamKind::Indexer, &origins).expect("a client");
        endpoints.current().get("test", "/", http::HeaderMap::new()).await.expect_err("there is no server");
        let pause = Duration::from_secs(3_600);
        let backoff = Backoff { initial: pause, max: pause, factor: 1.0, jitter: 0.0 };
        let config = LinkConfig { backoff, ..LinkConfig::with_endpoints("indexer", endpoints.clone(), "/stream") };
        let (events, mut heard) = mpsc::channel(8);
        let _link = WebSocketLink::open(config, move |event| {
            let events = events.clone();
            async move { events.send(event).await.is_ok() }
        });
        assert!(matches!(heard.recv().await, Some(LinkEvent::Down { .. })));
        let server = tokio::net::TcpListener::bind(address).await.expect("the port is free");
        let _server = AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                let (mut stream, _) = server.accept().await.expect("a connection");
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 4_096]).await;
                let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await;
            }
        }));
        endpoints.current().get("test", "/", http::HeaderMap::new()).await.expect("it answers");
        // The next attempt fails too, since this server has no WebSocket; it is made long before the pause is over.
        let attempt = timeout(Duration::from_secs(10), heard.recv()).await.expect("in time");
        assert!(matches!(attempt, Some(LinkEvent::Down { .. })), "{attempt:?}");
    }

    #[test]
    fn an_http_origin_becomes_a_websocket_url() {
        for (origin, url) in [
            ("http://127.0.0.1:26657", "ws://127.0.0.1:26657/websocket"),
            ("https://node.example/", "wss://node.example/websocket"),
            ("https://node.example/rpc/", "wss://node.example/rpc/websocket"),
        ] {
            assert_eq!(LinkConfig::new("rpc", origin, "/websocket").url(), url);
        }
    }
}
