//! The sending side: POST and WebSocket to the endpoints of peers.

use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, SinkExt, StreamExt};
use http::header;
use tokio::{
    net::TcpStream,
    time::{Instant, timeout},
};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, client_async_tls_with_config,
    tungstenite::{
        Message,
        protocol::{CloseFrame, WebSocketConfig, frame::coding::CloseCode},
    },
};
use url::Url;

use crate::{
    fetch::HttpClientError,
    host_policy::{HostError, HostPolicy, lookup},
    upstream::innermost_cause,
};

/// Time for name resolution, connection, encryption and upgrade.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time from the last byte of a message to its answer: the receiver may have to resolve a DID, and to ask for a verdict.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Silence after which a socket proves that it is alive before it carries a message.
const TRUSTED_SILENCE: Duration = Duration::from_secs(5);
/// Time for that proof.
const PROOF_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a message that comes on a socket of ours.
const MAX_MESSAGE_BYTES: usize = 5 * 1024 * 1024;

/// Result of sending a message once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendResult {
    /// The answer to a POST.
    Status {
        /// HTTP status.
        status: u16,
        /// Seconds after which the receiver wants to be asked again.
        retry_after: Option<u64>,
    },
    /// The receiver has answered the ping behind the message.
    Answered,
    /// No byte of the message can have arrived.
    NotSent(String),
    /// The receiver does not take messages of this size.
    TooLarge,
    /// Bytes went out, and there is no answer.
    Unknown(String),
}

/// Sends to endpoints that documents of other parties name. Cheap to clone.
#[derive(Debug, Clone)]
pub struct OutboundClient {
    http: reqwest::Client,
    policy: HostPolicy,
}

impl OutboundClient {
    /// Makes a client that contacts hosts under a policy and follows no redirect.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn new(policy: HostPolicy) -> Result<Self, HttpClientError> {
        let http = policy.client_builder().connect_timeout(CONNECT_TIMEOUT).timeout(ANSWER_TIMEOUT).build()?;
        Ok(Self { http, policy })
    }

    /// Returns the policy for hosts.
    pub fn policy(&self) -> HostPolicy {
        self.policy
    }

    /// Posts a message. A receiver of an older kind takes another content type only, and is asked once more with that.
    pub async fn post(&self, uri: &str, envelope: &str) -> SendResult {
        let url = match self.policy.check_url(uri) {
            Ok(url) => url,
            Err(error) => return SendResult::NotSent(error.to_string()),
        };
        let first = self.post_as(&url, envelope, "application/didcomm-encrypted+json").await;
        match first {
            SendResult::Status { status: 415, .. } => {
                self.post_as(&url, envelope, "application/didcomm-envelope-enc").await
            }
            other => other,
        }
    }

    async fn post_as(&self, url: &Url, envelope: &str, content_type: &str) -> SendResult {
        let request = self.http.post(url.clone()).header(header::CONTENT_TYPE, content_type).body(envelope.to_owned());
        match request.send().await {
            Ok(response) => {
                let retry_after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
                let retry_after = retry_after.and_then(|text| text.trim().parse().ok());
                SendResult::Status { status: response.status().as_u16(), retry_after }
            }
            Err(error) if error.is_connect() => SendResult::NotSent(innermost_cause(&error)),
            Err(error) => SendResult::Unknown(innermost_cause(&error)),
        }
    }

    /// Opens a WebSocket.
    ///
    /// # Errors
    /// With the reason, when there is none in time or the policy forbids the host.
    pub async fn connect(&self, uri: &str) -> Result<PeerSocket, String> {
        let opened = timeout(CONNECT_TIMEOUT, self.open(uri)).await;
        opened.unwrap_or_else(|_| Err(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs())))
    }

    async fn open(&self, uri: &str) -> Result<PeerSocket, String> {
        let rest = uri.split_once("://").map_or(uri, |(_, rest)| rest);
        let scheme = if uri.to_ascii_lowercase().starts_with("wss://") { "https" } else { "http" };
        let url = self.policy.check_url(&format!("{scheme}://{rest}")).map_err(|error| error.to_string())?;
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = url.port_or_known_default().unwrap_or(443);
        let found = lookup(&host, port).await.map_err(|error| error.to_string())?.into_iter();
        let mut last = HostError::PrivateAddress(host.clone()).to_string();
        for address in found.filter(|address| self.policy.allows_address(address.ip())) {
            match TcpStream::connect(address).await {
                Ok(stream) => return PeerSocket::upgrade(uri, stream).await,
                Err(error) => last = error.to_string(),
            }
        }
        Err(last)
    }
}

/// A WebSocket to a peer, which carries one message at a time.
#[derive(Debug)]
pub struct PeerSocket {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    used_at: Instant,
    pings: u64,
}

impl PeerSocket {
    async fn upgrade(uri: &str, stream: TcpStream) -> Result<Self, String> {
        let _ = stream.set_nodelay(true);
        let limits = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES))
            .read_buffer_size(4 * 1024);
        let upgraded = client_async_tls_with_config(uri, stream, Some(limits), None).await;
        let (socket, _) = upgraded.map_err(|error| error.to_string())?;
        Ok(Self { socket, used_at: Instant::now(), pings: 0 })
    }

    /// Time since the socket was used.
    pub fn idle(&self) -> Duration {
        self.used_at.elapsed()
    }

    /// Whether the socket can carry a message: its end would have arrived, or it answers after a longer silence.
    pub async fn is_alive(&mut self, arrived: &mut Vec<Bytes>) -> bool {
        for _ in 0..=MAX_UNASKED {
            let Some(frame) = self.socket.next().now_or_never() else { break };
            match frame {
                Some(Ok(Message::Binary(bytes))) => keep(arrived, bytes),
                Some(Ok(Message::Text(text))) => keep(arrived, text.into()),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return false,
                Some(Ok(_)) => {}
            }
        }
        if self.idle() < TRUSTED_SILENCE {
            return true;
        }
        let proven = timeout(PROOF_TIMEOUT, self.ping_pong(arrived)).await;
        matches!(proven, Ok(Ok(())))
    }

    /// Whether the peer answers a ping.
    pub async fn answers(&mut self) -> bool {
        matches!(timeout(PROOF_TIMEOUT, self.ping_pong(&mut Vec::new())).await, Ok(Ok(())))
    }

    /// Sends a message with a ping behind it, and waits for the pong. Messages that come meanwhile are put aside. After any result but
    /// [`SendResult::Answered`] the socket is not usable.
    pub async fn send(&mut self, envelope: &str, arrived: &mut Vec<Bytes>) -> SendResult {
        let message = Message::Binary(Bytes::copy_from_slice(envelope.as_bytes()));
        let sent = async {
            self.socket.feed(message).await.map_err(failed)?;
            self.ping_pong(arrived).await
        };
        match timeout(ANSWER_TIMEOUT, sent).await {
            Ok(Ok(())) => {
                self.used_at = Instant::now();
                SendResult::Answered
            }
            Ok(Err(SendEnd::Closed(Some(frame)))) if frame.code == CloseCode::Again => {
                SendResult::NotSent(format!("closed with 1013: {}", frame.reason))
            }
            Ok(Err(SendEnd::Closed(Some(frame)))) if frame.code == CloseCode::Size => SendResult::TooLarge,
            Ok(Err(SendEnd::Closed(frame))) => {
                let code = frame.map_or_else(|| "without a code".to_owned(), |frame| format!("with {}", frame.code));
                SendResult::Unknown(format!("the socket was closed {code}"))
            }
            Ok(Err(SendEnd::Failed(reason))) => SendResult::Unknown(reason),
            Err(_) => SendResult::Unknown(format!("no answer within {} s", ANSWER_TIMEOUT.as_secs())),
        }
    }

    async fn ping_pong(&mut self, arrived: &mut Vec<Bytes>) -> Result<(), SendEnd> {
        self.pings += 1;
        let payload = Bytes::copy_from_slice(&self.pings.to_be_bytes());
        self.socket.send(Message::Ping(payload.clone())).await.map_err(failed)?;
        let mut unasked = 0;
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Pong(answer))) if answer == payload => return Ok(()),
                Some(Ok(Message::Binary(bytes))) => {
                    unasked += 1;
                    keep(arrived, bytes);
                }
                Some(Ok(Message::Text(text))) => {
                    unasked += 1;
                    keep(arrived, text.into());
                }
                Some(Ok(Message::Close(frame))) => return Err(SendEnd::Closed(frame)),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(failed(error)),
                None => return Err(SendEnd::Closed(None)),
            }
            // A peer that answers with messages instead of the pong has a bound too.
            if unasked > MAX_UNASKED {
                return Err(SendEnd::Failed("the peer sends messages instead of an answer".to_owned()));
            }
        }
    }

    /// Closes the socket.
    pub async fn close(mut self) {
        let _ = timeout(Duration::from_secs(1), self.socket.close(None)).await;
    }
}

/// Messages that are kept while an answer is awaited. None was asked for.
const MAX_ARRIVED: usize = 1;
/// Messages after which such a peer is given up.
const MAX_UNASKED: usize = 16;

fn keep(arrived: &mut Vec<Bytes>, message: Bytes) {
    if arrived.len() < MAX_ARRIVED {
        arrived.push(message);
    }
}

enum SendEnd {
    Closed(Option<CloseFrame>),
    Failed(String),
}

fn failed(error: tokio_tungstenite::tungstenite::Error) -> SendEnd {
    SendEnd::Failed(error.to_string())
}
