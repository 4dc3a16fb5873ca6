//! A WebSocket that is opened again for ever, owned by an actor.
//!
//! Everything it reports carries the epoch of the connection it happened on, so that an owner can tell the late from the
//! current. Frames are delivered with back-pressure: an owner that is slow slows the socket, not the heap.

use std::{future::Future, sync::Arc, time::Duration};

use futures::{SinkExt, StreamExt};
use svc_otel::metrics;
use tokio::{
    net::TcpStream,
    sync::{mpsc, watch},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async_with_config,
    tungstenite::{Error as WsError, Message, protocol::WebSocketConfig},
};
use tokio_util::task::AbortOnDropHandle;

use crate::{backoff::Backoff, upstream::Endpoints};

/// Number of a connection; grows with every attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, serde::Serialize)]
pub struct Epoch(u64);

/// Where a link leads.
#[derive(Clone)]
enum Target {
    /// To one server.
    Fixed(String),
    /// To whichever server is in use when it is opened.
    Current(Endpoints),
}

/// How a link behaves.
#[derive(Clone)]
pub struct LinkConfig {
    /// Bounded telemetry label: `rpc`, `indexer`, `graph`.
    pub endpoint: &'static str,
    target: Target,
    path: &'static str,
    /// Delays between attempts.
    pub backoff: Backoff,
    /// Silence after which the connection is given up; pings and pongs count as life. A ping goes out at a third of it.
    pub liveness: Duration,
    /// Longest message taken.
    pub max_message_bytes: usize,
}

impl LinkConfig {
    /// The usual link to `origin` (`http` or `https`) with `path`.
    pub fn new(endpoint: &'static str, origin: &str, path: &'static str) -> Self {
        Self::to(endpoint, Target::Fixed(origin.to_owned()), path)
    }

    /// The usual link to whichever of `endpoints` is in use when it is opened.
    pub fn over(endpoint: &'static str, endpoints: Endpoints, path: &'static str) -> Self {
        Self::to(endpoint, Target::Current(endpoints), path)
    }

    fn to(endpoint: &'static str, target: Target, path: &'static str) -> Self {
        Self {
            endpoint,
            target,
            path,
            backoff: Backoff::LINK,
            liveness: Duration::from_secs(30),
            max_message_bytes: 16 * 1024 * 1024,
        }
    }
}

impl LinkConfig {
    /// `ws://` or `wss://` URL to open now.
    fn url(&self) -> String {
        let origin = match &self.target {
            Target::Fixed(origin) => origin.as_str(),
            Target::Current(endpoints) => endpoints.current().origin(),
        };
        let origin = origin.trim_end_matches('/');
        match origin.strip_prefix("http") {
            Some(rest) => format!("ws{rest}{}", self.path),
            None => format!("{origin}{}", self.path),
        }
    }
}

/// What a link reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEvent {
    /// A connection is open.
    Up(Epoch),
    /// A text message came.
    Text(Epoch, String),
    /// The connection, or the attempt to open one, has ended; the next attempt follows by itself.
    Down(Epoch, String),
}

enum Command {
    Send(Epoch, String),
    Reconnect(Epoch, String),
}

/// A running link; dropping it closes the connection for good.
pub struct Link {
    commands: mpsc::Sender<Command>,
    liveness: watch::Sender<Duration>,
    _task: AbortOnDropHandle<()>,
}

/// Requests of an owner that may wait for the socket.
const COMMANDS: usize = 64;
/// How long opening a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl Link {
    /// Opens a link. `deliver` hands an event to the owner and tells whether the owner is still there.
    pub fn open<D, F>(config: LinkConfig, deliver: D) -> Self
    where
        D: Fn(LinkEvent) -> F + Send + Sync + 'static,
        F: Future<Output = bool> + Send + 'static,
    {
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let (liveness, watched) = watch::channel(config.liveness);
        let task = tokio::spawn(run(config, Arc::new(deliver), inbox, watched));
        Self { commands, liveness, _task: AbortOnDropHandle::new(task) }
    }

    /// Sends a text over the connection of `epoch`; dropped if that connection is gone. False when too much is waiting.
    pub fn send(&self, epoch: Epoch, text: String) -> bool {
        self.commands.try_send(Command::Send(epoch, text)).is_ok()
    }

    /// Gives up the connection of `epoch` and opens the next.
    pub fn reconnect(&self, epoch: Epoch, why: impl Into<String>) {
        // A full queue means the socket is stuck, and then its liveness ends it.
        let _ = self.commands.try_send(Command::Reconnect(epoch, why.into()));
    }

    /// Changes the silence after which a connection is given up.
    pub fn set_liveness(&self, liveness: Duration) {
        self.liveness.send_replace(liveness);
    }
}

async fn run<D, F>(
    config: LinkConfig,
    deliver: Arc<D>,
    mut inbox: mpsc::Receiver<Command>,
    mut liveness: watch::Receiver<Duration>,
) where
    D: Fn(LinkEvent) -> F + Send + Sync + 'static,
    F: Future<Output = bool> + Send + 'static,
{
    let mut epoch = Epoch::default();
    let mut failures = 0;
    loop {
        epoch = Epoch(epoch.0 + 1);
        let reason = match connect(&config).await {
            Ok(socket) => {
                metrics::ws_connected(config.endpoint, true);
                tracing::info!(endpoint = config.endpoint, "link is up");
                if !deliver(LinkEvent::Up(epoch)).await {
                    return;
                }
                let opened = Instant::now();
                let reason = match serve(socket, epoch, &deliver, &mut inbox, &mut liveness).await {
                    Some(reason) => reason,
                    None => return,
                };
                metrics::ws_connected(config.endpoint, false);
                // A connection that lived is not a failed attempt: start the curve anew.
                if opened.elapsed() >= config.backoff.max {
                    failures = 0;
                }
                reason
            }
            Err(reason) => reason,
        };
        tracing::warn!(endpoint = config.endpoint, reason, "link is down");
        if !deliver(LinkEvent::Down(epoch, reason)).await {
            return;
        }
        sleep(config.backoff.delay(failures, fastrand::f64())).await;
        failures = failures.saturating_add(1);
        metrics::ws_reconnect(config.endpoint);
    }
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn connect(config: &LinkConfig) -> Result<Socket, String> {
    let limits = WebSocketConfig::default()
        .max_message_size(Some(config.max_message_bytes))
        .max_frame_size(Some(config.max_message_bytes));
    match timeout(CONNECT_TIMEOUT, connect_async_with_config(config.url(), Some(limits), true)).await {
        Ok(Ok((socket, _))) => Ok(socket),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no connection within {CONNECT_TIMEOUT:?}")),
    }
}

/// Serves one connection; the text says why it ended, `None` that the owner is gone.
async fn serve<D, F>(
    mut socket: Socket,
    epoch: Epoch,
    deliver: &Arc<D>,
    inbox: &mut mpsc::Receiver<Command>,
    liveness: &mut watch::Receiver<Duration>,
) -> Option<String>
where
    D: Fn(LinkEvent) -> F + Send + Sync + 'static,
    F: Future<Output = bool> + Send + 'static,
{
    let mut last_life = Instant::now();
    let mut next_ping = last_life + *liveness.borrow() / 3;
    loop {
        let patience = *liveness.borrow_and_update();
        tokio::select! {
            frame = socket.next() => {
                last_life = Instant::now();
                match frame {
                    Some(Ok(Message::Text(text))) => {
                        if !deliver(LinkEvent::Text(epoch, text.as_str().to_owned())).await {
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
                Some(Command::Send(wanted, text)) if wanted == epoch => {
                    if let Err(error) = socket.send(Message::text(text)).await {
                        return Some(error.to_string());
                    }
                }
                Some(Command::Reconnect(wanted, why)) if wanted == epoch => {
                    let _ = socket.close(None).await;
                    return Some(why);
                }
                // Meant for a connection that is gone.
                Some(Command::Send(..) | Command::Reconnect(..)) => {}
                None => return None,
            },
            _ = liveness.changed() => {}
            () = sleep_until(last_life + patience) => return Some(format!("silent for {patience:?}")),
            () = sleep_until(next_ping) => {
                next_ping = Instant::now() + patience / 3;
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
