//! The WebSockets, one a stream; they differ in what their hub tells of.

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
use svc_indexer::{Control, HubHandle, Join, MAX_CONTROL_BYTES, Queue, Topic};
use svc_kit::ws::{self, ServerSocket};
use svc_otel::metrics;
use tokio::{
    sync::Semaphore,
    time::{Instant, MissedTickBehavior, interval_at, timeout},
};
use tokio_tungstenite::tungstenite::{
    Error as WsError, Message,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

use super::Front;

/// Pings; a client that has not ponged by the next one is dropped. One that takes nothing for as long is dropped too.
const PING: Duration = Duration::from_secs(30);

pub(super) fn routes(front: &Front) -> Router<Front> {
    Router::new()
        .route("/v4/indexer/subscribe", stream(&front.hub, &front.places))
        .route("/v4/verifiable-trust/subscribe", stream(&front.trust, &front.trust_places))
}

fn stream<T: Topic>(hub: &HubHandle<T>, places: &Arc<Semaphore>) -> MethodRouter<Front> {
    let (hub, places) = (hub.clone(), Arc::clone(places));
    get(|State(front): State<Front>, request: Request| subscribe(front, hub, places, request))
}

async fn subscribe<T: Topic>(
    front: Front,
    hub: HubHandle<T>,
    places: Arc<Semaphore>,
    mut request: Request,
) -> Response {
    if !ws::is_upgrade(request.headers()) {
        return super::rest::not_found(request.uri().clone()).await;
    }
    ws::accept(&mut request, MAX_CONTROL_BYTES, move |socket| async move { serve(socket, &front, &hub, places).await })
        .map(Body::from)
}

async fn serve<T: Topic>(mut socket: ServerSocket, front: &Front, hub: &HubHandle<T>, places: Arc<Semaphore>) {
    let Ok(_place) = places.try_acquire_owned() else {
        close::<T>(&mut socket, CloseCode::Again, "Server overloaded").await;
        return;
    };
    let Ok(Join { id, queue }) = hub.join().await else {
        close::<T>(&mut socket, CloseCode::Again, "Server overloaded").await;
        return;
    };
    if let Some((code, reason)) = session(&mut socket, front, hub, id, queue).await {
        close::<T>(&mut socket, code, &reason).await;
    }
    hub.leave(id);
}

/// Serves a connection until it ends; says how it is to be closed, if there is anybody to say it to.
async fn session<T: Topic>(
    socket: &mut ServerSocket,
    front: &Front,
    hub: &HubHandle<T>,
    id: u64,
    mut queue: Queue,
) -> Option<(CloseCode, String)> {
    let mut pings = interval_at(Instant::now() + PING, PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_alive = true;
    loop {
        tokio::select! {
            frame = queue.next() => {
                // None: this connection was too slow, or the hub is restarting.
                let Some(frame) = frame else { return Some((CloseCode::Error, "Server overloaded".to_owned())) };
                send(socket, &queue, frame).await?;
            },
            incoming = socket.next() => match incoming {
                Some(Ok(Message::Text(text))) => {
                    if let Some(end) = control(hub, id, text.as_str()).await {
                        return Some(end);
                    }
                }
                Some(Ok(Message::Binary(bytes))) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    if let Some(end) = control(hub, id, &text).await {
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
            // The farewell of a server that stops has no code.
            () = front.stopping.cancelled() => {
                let _ = timeout(Duration::from_secs(1), socket.close(None)).await;
                return None;
            }
            _ = pings.tick() => {
                if !is_alive {
                    return None;
                }
                timeout(PING, socket.send(Message::Ping(Bytes::new()))).await.ok()?.ok()?;
                is_alive = false;
            }
        }
    }
}

/// Sends a frame; none when the connection is lost or takes nothing any more.
async fn send(socket: &mut ServerSocket, queue: &Queue, frame: Bytes) -> Option<()> {
    timeout(PING * 2, ws::send_frame(socket, &frame)).await.ok()?.ok()?;
    queue.sent(&frame);
    Some(())
}

/// Obeys a control message; says how the connection is to be closed when it cannot be obeyed.
async fn control<T: Topic>(hub: &HubHandle<T>, id: u64, text: &str) -> Option<(CloseCode, String)> {
    match Control::parse(text) {
        Err(reason) => Some((CloseCode::Policy, reason)),
        Ok(control) => match hub.control(id, control).await {
            Ok(()) => None,
            Err(_) => Some((CloseCode::Again, "Server overloaded".to_owned())),
        },
    }
}

async fn close<T: Topic>(socket: &mut ServerSocket, code: CloseCode, reason: &str) {
    metrics::subscriber_closed(T::STREAM, code.into());
    let frame = CloseFrame { code, reason: reason.into() };
    // The client's answer completes the closing handshake; one that does not answer is not waited for.
    let _ = timeout(Duration::from_secs(1), async {
        if socket.close(Some(frame)).await.is_ok() {
            while let Some(Ok(_)) = socket.next().await {}
        }
    })
    .await;
}
