//! The server side of a WebSocket upgrade, on the WebSocket library of the client side.

use std::{future::Future, io};

use bytes::Bytes;
use futures::SinkExt;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        handshake::derive_accept_key,
        protocol::{
            Role, WebSocketConfig,
            frame::{
                Frame,
                coding::{Data, OpCode},
            },
        },
    },
};

/// An accepted WebSocket.
pub type ServerSocket = WebSocketStream<TokioIo<Upgraded>>;

/// Read buffer of a connection. Clients send little, and a server has many of them.
const READ_BUFFER_BYTES: usize = 1024;

/// Returns a text message as the bytes of one server frame. They are the same for every client, so all clients share them.
pub fn text_frame(text: &str) -> Bytes {
    let frame = Frame::message(text.as_bytes().to_vec(), OpCode::Data(Data::Text), true);
    let mut bytes = Vec::with_capacity(frame.len());
    // Writing to memory cannot fail.
    let _ = frame.format(&mut bytes);
    bytes.into()
}

/// Sends a frame that [`text_frame`] made. It is not cancel safe: after a partial frame the connection is not usable.
///
/// # Errors
/// When the connection has ended.
pub async fn send_frame(socket: &mut ServerSocket, frame: &Bytes) -> io::Result<()> {
    // Frames of the library itself, such as the answer to a ping, go first.
    socket.flush().await.map_err(io::Error::other)?;
    let stream = socket.get_mut();
    stream.write_all(frame).await?;
    stream.flush().await
}

/// Answers an upgrade request with 101 and runs `serve` on the socket. A request that is no upgrade gets 400 or 426.
pub fn accept<B, F>(
    request: &mut Request<B>,
    max_message_bytes: usize,
    serve: impl FnOnce(ServerSocket) -> F + Send + 'static,
) -> Response<String>
where
    F: Future<Output = ()> + Send,
{
    let limits = WebSocketConfig::default()
        .max_message_size(Some(max_message_bytes))
        .max_frame_size(Some(max_message_bytes))
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0);
    accept_stream(request, move |stream| async move {
        serve(WebSocketStream::from_raw_socket(stream, Role::Server, Some(limits)).await).await;
    })
}

/// Answers an upgrade request with 101 and runs `serve` on the bytes behind it. A request that is no upgrade gets 400 or 426.
pub fn accept_stream<B, F>(
    request: &mut Request<B>,
    serve: impl FnOnce(TokioIo<Upgraded>) -> F + Send + 'static,
) -> Response<String>
where
    F: Future<Output = ()> + Send,
{
    let refuse = |status: StatusCode| {
        let mut response = Response::new(String::new());
        *response.status_mut() = status;
        response
    };
    let headers = request.headers();
    let is_upgrade = request.method() == Method::GET
        && has_token(headers, header::CONNECTION, "upgrade")
        && has_token(headers, header::UPGRADE, "websocket");
    if !is_upgrade {
        return refuse(StatusCode::BAD_REQUEST);
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return refuse(StatusCode::UPGRADE_REQUIRED);
    }
    let Some(key) = headers.get(header::SEC_WEBSOCKET_KEY).cloned() else {
        return refuse(StatusCode::BAD_REQUEST);
    };
    let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() else {
        return refuse(StatusCode::UPGRADE_REQUIRED);
    };
    // The upgrade completes after the server has written the 101.
    tokio::spawn(async move {
        if let Ok(upgraded) = upgrade.await {
            serve(TokioIo::new(upgraded)).await;
        }
    });
    let mut response = refuse(StatusCode::SWITCHING_PROTOCOLS);
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}

/// Whether the headers of a request ask for an upgrade to WebSocket.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    has_token(headers, header::UPGRADE, "websocket")
}

fn has_token(headers: &HeaderMap, name: header::HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|part| part.trim().eq_ignore_ascii_case(token))
}
