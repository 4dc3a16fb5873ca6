//! The WebSockets, one per stream. Each connects its client to the hub of the stream.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::Response,
    routing::{MethodRouter, get},
};
use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use svc_indexer::{ControlMessage, FrameReceiver, HubConnection, HubHandle, HubTopic, MAX_CONTROL_MESSAGE_BYTES};
use svc_net::websocket::server::{self as websocket_server, ServerSocket};
use svc_otel::metrics;
use tokio::{
    sync::Semaphore,
    time::{Instant, MissedTickBehavior, interval_at, timeout},
};
use tokio_tungstenite::tungstenite::{
    Error as WsError, Message,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

use super::{api::IndexerApi, rest::not_found};

/// Time between pings. A client that has not answered a ping by the next one is dropped, and so is one that reads nothing for
/// this long.
const PING_INTERVAL: Duration = Duration::from_secs(30);

pub(super) fn routes(api: &IndexerApi) -> Router<IndexerApi> {
    Router::new()
        .route("/v4/indexer/subscribe", subscription_route(&api.hub, &api.block_connections))
        .route("/v4/verifiable-trust/subscribe", subscription_route(&api.trust_hub, &api.trust_connections))
}

fn subscription_route<T: HubTopic>(hub: &HubHandle<T>, permits: &Arc<Semaphore>) -> MethodRouter<IndexerApi> {
    let (hub, permits) = (hub.clone(), Arc::clone(permits));
    get(|State(api): State<IndexerApi>, request: Request| subscribe(api, hub, permits, request))
}

async fn subscribe<T: HubTopic>(
    api: IndexerApi,
    hub: HubHandle<T>,
    permits: Arc<Semaphore>,
    mut request: Request,
) -> Response {
    if !websocket_server::is_upgrade(request.headers()) {
        return not_found(request.uri().clone()).await;
    }
    websocket_server::accept(&mut request, MAX_CONTROL_MESSAGE_BYTES, move |socket| async move {
        serve_connection(socket, &api, &hub, permits).await
    })
    .map(Body::from)
}

async fn serve_connection<T: HubTopic>(
    mut socket: ServerSocket,
    api: &IndexerApi,
    hub: &HubHandle<T>,
    permits: Arc<Semaphore>,
) {
    let Ok(_permit) = permits.try_acquire_owned() else {
        close_connection::<T>(&mut socket, CloseCode::Again, "Server overloaded").await;
        return;
    };
    let Ok(HubConnection { id, frames: queue }) = hub.join().await else {
        close_connection::<T>(&mut socket, CloseCode::Again, "Server overloaded").await;
        return;
    };
    if let Some((code, reason)) = run_connection(&mut socket, api, hub, id, queue).await {
        close_connection::<T>(&mut socket, code, &reason).await;
    }
    hub.leave(id);
}

/// Serves a connection until it ends. Returns the close code and its reason, or `None` for a lost connection, which takes no
/// close frame.
async fn run_connection<T: HubTopic>(
    socket: &mut ServerSocket,
    api: &IndexerApi,
    hub: &HubHandle<T>,
    id: u64,
    mut queue: FrameReceiver,
) -> Option<(CloseCode, String)> {
    let mut pings = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_alive = true;
    loop {
        tokio::select! {
            frame = queue.next() => {
                // The queue ends when this connection was too slow or the hub restarts.
                let Some(frame) = frame else { return Some((CloseCode::Error, "Server overloaded".to_owned())) };
                send_frame(socket, &queue, frame).await?;
            },
            incoming = socket.next() => match incoming {
                Some(Ok(Message::Text(text))) => {
                    if let Some(end) = apply_control(hub, id, text.as_str()).await {
                        return Some(end);
                    }
                }
                Some(Ok(Message::Binary(bytes))) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    if let Some(end) = apply_control(hub, id, &text).await {
                        return Some(end);
                    }
                }
                Some(Ok(Message::Pong(_))) => is_alive = true,
                Some(Ok(Message::Ping(_) | Message::Close(_) | Message::Frame(_))) => {}
                Some(Err(WsError::Capacity(_))) => return Some((CloseCode::Size, String::new())),
                Some(Err(WsError::Utf8(_))) => return Some((CloseCode::Invalid, String::new())),
                Some(Err(WsError::Protocol(_))) => return Some((CloseCode::Protocol, String::new())),
                Some(Err(_)) | None => return None,
            },
            // The contract has no close code for a server that stops.
            () = api.shutdown.cancelled() => {
                let _ = timeout(Duration::from_secs(1), socket.close(None)).await;
                return None;
            }
            _ = pings.tick() => {
                if !is_alive {
                    return None;
                }
                timeout(PING_INTERVAL, socket.send(Message::Ping(Bytes::new()))).await.ok()?.ok()?;
                is_alive = false;
            }
        }
    }
}

/// Sends a frame; `None` when the connection is lost or its client reads nothing.
async fn send_frame(socket: &mut ServerSocket, queue: &FrameReceiver, frame: Bytes) -> Option<()> {
    timeout(PING_INTERVAL * 2, websocket_server::send_frame(socket, &frame)).await.ok()?.ok()?;
    queue.mark_sent(&frame);
    Some(())
}

/// Applies a control message; returns the close code and its reason when that fails.
async fn apply_control<T: HubTopic>(hub: &HubHandle<T>, id: u64, text: &str) -> Option<(CloseCode, String)> {
    match ControlMessage::parse(text) {
        Err(reason) => Some((CloseCode::Policy, reason)),
        Ok(control) => match hub.send_control(id, control).await {
            Ok(()) => None,
            Err(_) => Some((CloseCode::Again, "Server overloaded".to_owned())),
        },
    }
}

async fn close_connection<T: HubTopic>(socket: &mut ServerSocket, code: CloseCode, reason: &str) {
    metrics::record_subscriber_close(T::STREAM, code.into());
    let frame = CloseFrame { code, reason: reason.into() };
    // The client's answer completes the closing handshake. The timeout bounds the wait for it.
    let _ = timeout(Duration::from_secs(1), async {
        if socket.close(Some(frame)).await.is_ok() {
            while let Some(Ok(_)) = socket.next().await {}
        }
    })
    .await;
}
