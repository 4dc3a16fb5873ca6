//! The WebSocket `/v4/indexer/subscribe`.

use std::{collections::BTreeSet, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::Response,
    routing::get,
};
use futures::{SinkExt, StreamExt};
use serde_json::Value;
use svc_indexer::{Filter, Join, Outgoing};
use svc_kit::ws::{self, ServerSocket};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_tungstenite::tungstenite::{
    Error as WsError, Message,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

use super::Front;

/// Longest control message.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;
/// A close reason may hold so many bytes.
const MAX_REASON_BYTES: usize = 123;
/// Pings; a client that has not ponged by the next one is dropped.
const PING: Duration = Duration::from_secs(30);

pub(super) fn routes() -> Router<Front> {
    Router::new().route("/v4/indexer/subscribe", get(subscribe))
}

async fn subscribe(State(front): State<Front>, mut request: Request) -> Response {
    ws::accept(&mut request, MAX_MESSAGE_BYTES, move |socket| serve(socket, front)).map(Body::from)
}

async fn serve(mut socket: ServerSocket, front: Front) {
    let Ok(_place) = front.places.clone().try_acquire_owned() else {
        close(&mut socket, CloseCode::Again, "Server overloaded").await;
        return;
    };
    let Ok(Join { id, queue }) = front.hub.join().await else {
        close(&mut socket, CloseCode::Again, "Server restarting").await;
        return;
    };
    session(&mut socket, &front, id, queue).await;
    front.hub.leave(id);
}

async fn session(socket: &mut ServerSocket, front: &Front, id: u64, mut queue: tokio::sync::mpsc::Receiver<Outgoing>) {
    let mut pings = interval_at(Instant::now() + PING, PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_alive = true;
    loop {
        tokio::select! {
            outgoing = queue.recv() => match outgoing {
                Some(Outgoing::Text(text)) => {
                    if socket.send(Message::text(&*text)).await.is_err() {
                        return;
                    }
                }
                // The hub gave this connection up: it was too slow, or the hub is restarting.
                None => {
                    close(socket, CloseCode::Error, "Server overloaded").await;
                    return;
                }
            },
            incoming = socket.next() => match incoming {
                Some(Ok(Message::Text(text))) => {
                    if !control(socket, front, id, text.as_str()).await {
                        return;
                    }
                }
                Some(Ok(Message::Binary(bytes))) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    if !control(socket, front, id, &text).await {
                        return;
                    }
                }
                Some(Ok(Message::Pong(_))) => is_alive = true,
                Some(Ok(Message::Ping(_) | Message::Close(_) | Message::Frame(_))) => {}
                Some(Err(WsError::Capacity(_))) => {
                    close(socket, CloseCode::Size, "").await;
                    return;
                }
                Some(Err(_)) | None => return,
            },
            _ = pings.tick() => {
                if !is_alive || socket.send(Message::Ping(Vec::new().into())).await.is_err() {
                    return;
                }
                is_alive = false;
            }
        }
    }
}

/// Obeys a control message; false when the connection was closed for it.
async fn control(socket: &mut ServerSocket, front: &Front, id: u64, text: &str) -> bool {
    let told = match parse(text) {
        Ok(Control::Subscribe(filter)) => front.hub.subscribe(id, filter),
        Ok(Control::Unsubscribe) => front.hub.unsubscribe(id),
        Err(reason) => {
            close(socket, CloseCode::Policy, &reason).await;
            return false;
        }
    };
    if told.is_err() {
        close(socket, CloseCode::Again, "Server restarting").await;
    }
    told.is_ok()
}

async fn close(socket: &mut ServerSocket, code: CloseCode, reason: &str) {
    let frame = CloseFrame { code, reason: cut(reason).into() };
    if socket.close(Some(frame)).await.is_ok() {
        // The client's answer completes the closing handshake; one that does not answer is not waited for.
        let _ = tokio::time::timeout(Duration::from_secs(1), async { while let Some(Ok(_)) = socket.next().await {} })
            .await;
    }
}

fn cut(reason: &str) -> &str {
    let mut end = reason.len().min(MAX_REASON_BYTES);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    &reason[..end]
}

#[derive(Debug, PartialEq, Eq)]
enum Control {
    Subscribe(Filter),
    Unsubscribe,
}

/// Reads a control message; the error is the close reason.
fn parse(text: &str) -> Result<Control, String> {
    let value: Value = serde_json::from_str(text).map_err(|_| "Invalid JSON".to_owned())?;
    let unknown = || "Unknown action. Expected 'subscribe' or 'unsubscribe'".to_owned();
    let members = match &value {
        Value::Object(members) => members,
        Value::Array(_) => return Err(unknown()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Err("Control message must be an object".to_owned());
        }
    };
    match members.get("action").and_then(Value::as_str) {
        Some("unsubscribe") => Ok(Control::Unsubscribe),
        Some("subscribe") => {
            let corporation_id = corporation_id(members.get("corporationId"))?;
            Ok(Control::Subscribe(Filter { dids: dids(members.get("dids"))?, corporation_id }))
        }
        _ => Err(unknown()),
    }
}

/// A positive integer; as in the reference, numeric text and `true` count as numbers.
fn corporation_id(value: Option<&Value>) -> Result<Option<u64>, String> {
    let number = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(number)) => number.as_u64(),
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(Value::Bool(true)) => Some(1),
        Some(Value::Bool(false) | Value::Array(_) | Value::Object(_)) => None,
    };
    let shown = match value {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    number
        .filter(|id| *id > 0)
        .map(Some)
        .ok_or_else(|| format!("'corporationId' must be a positive integer; got {shown}"))
}

fn dids(value: Option<&Value>) -> Result<BTreeSet<String>, String> {
    let items = match value {
        None | Some(Value::Null) => return Ok(BTreeSet::new()),
        Some(Value::Array(items)) => items,
        Some(_) => return Err("'dids' must be an array of DID strings".to_owned()),
    };
    items
        .iter()
        .map(|item| {
            let shown = item.as_str().map_or_else(|| item.to_string(), str::to_owned);
            item.as_str().and_then(normal_did).ok_or_else(|| format!("Invalid DID in 'dids': {shown}"))
        })
        .collect()
}

/// A DID trimmed and percent-decoded where that is possible; `None` when it is none.
pub(super) fn normal_did(text: &str) -> Option<String> {
    let decoded = percent_decode(text.trim());
    let lower = decoded.to_ascii_lowercase();
    let (method, specific) = lower.strip_prefix("did:")?.split_once(':')?;
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_method && !specific.is_empty()).then_some(decoded)
}

fn percent_decode(text: &str) -> String {
    // A plus sign is itself in a DID, not a blank.
    let pairs = format!("x={}", text.replace('+', "%2B").replace('&', "%26"));
    url::form_urlencoded::parse(pairs.as_bytes()).next().map(|(_, value)| value.into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_messages_are_read_as_the_contract_says() {
        let subscribe = |dids: &[&str], corporation_id| {
            Control::Subscribe(Filter { dids: dids.iter().map(|did| (*did).to_owned()).collect(), corporation_id })
        };
        for (text, expected) in [
            (r#"{"action":"subscribe"}"#, subscribe(&[], None)),
            (r#"{"action":"subscribe","dids":[],"corporationId":null,"x":1}"#, subscribe(&[], None)),
            (r#"{"action":"subscribe","corporationId":"42"}"#, subscribe(&[], Some(42))),
            (r#"{"action":"subscribe","corporationId":true}"#, subscribe(&[], Some(1))),
            (r#"{"action":"subscribe","dids":[" did:web:a%3A8 ","did:web:a:8"]}"#, subscribe(&["did:web:a:8"], None)),
            (r#"{"action":"unsubscribe"}"#, Control::Unsubscribe),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn bad_control_messages_close_with_their_reason() {
        let unknown = "Unknown action. Expected 'subscribe' or 'unsubscribe'";
        for (text, reason) in [
            ("{", "Invalid JSON"),
            ("null", "Control message must be an object"),
            ("1", "Control message must be an object"),
            ("[]", unknown),
            ("{}", unknown),
            (r#"{"action":"pause"}"#, unknown),
            (
                r#"{"action":"subscribe","corporationId":0,"dids":1}"#,
                "'corporationId' must be a positive integer; got 0",
            ),
            (r#"{"action":"subscribe","corporationId":1.5}"#, "'corporationId' must be a positive integer; got 1.5"),
            (r#"{"action":"subscribe","corporationId":""}"#, "'corporationId' must be a positive integer; got "),
            (r#"{"action":"subscribe","dids":"did:web:a"}"#, "'dids' must be an array of DID strings"),
            (r#"{"action":"subscribe","dids":["x"]}"#, "Invalid DID in 'dids': x"),
        ] {
            assert_eq!(parse(text), Err(reason.to_owned()), "{text}");
        }
        assert_eq!(cut(&"é".repeat(100)).len(), 122, "a long reason is cut between characters");
    }
}
