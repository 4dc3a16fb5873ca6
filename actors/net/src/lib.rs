//! The connections that actors talk through.
//!
//! [`websocket`] keeps a stream of a server open, and accepts WebSockets as a server; [`block_subscription`] follows the blocks of an
//! indexer. [`upstream`] is the HTTP client of the
//! servers that a system depends on, with limits, a circuit breaker and a choice of endpoints; [`webhook`] sends events to a configured
//! URL.
//!
//! URLs from documents of other parties are untrusted: [`host_policy`] decides which hosts may be contacted, [`fetch`] reads one
//! body within limits of time, size and memory, [`json_memory`] estimates the memory of JSON, `did`, a feature, resolves DID
//! Documents, and `evidence`, another one, fetches those that an evaluation of trust needs.
//!
//! [`client_tls`] begins every HTTP client.
//!
//! [`didcomm`] carries messages of DIDComm in and out.
//!
//! [`listener`] is the HTTP listener of all front ends: it bounds connections, heads, bodies and time.
//!
//! This crate serves no routes, it knows no tools, of the registry only the generations of its nodes, and it does not decide which DIDs are
//! trusted.
//!
//! # Example
//! An untrusted URL is checked, and a link sends the requests of its stream and reports the frames:
//! ```
//! use svc_net::{
//!     host_policy::HostPolicy,
//!     websocket::{LinkConfig, LinkEvent, Reading, StreamProtocol, WebSocketLink},
//! };
//! use tokio::{net::TcpListener, sync::mpsc};
//!
//! /// A stream of heights.
//! #[derive(Clone)]
//! struct Heights;
//!
//! impl StreamProtocol for Heights {
//!     type Frame = u64;
//!
//!     fn requests(&self) -> Vec<String> {
//!         vec!["heights".to_owned()]
//!     }
//!
//!     fn read(&mut self, text: &str) -> Result<Reading<u64>, String> {
//!         let height: u64 = text.parse().map_err(|_| format!("{text:?} is not a height"))?;
//!         Ok(Reading { is_confirmed: true, ..Reading::from(height) })
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! assert!(HostPolicy::PublicOnly.check_url("https://agent.example.org/did.json").is_ok());
//! assert!(HostPolicy::PublicOnly.check_url("https://192.168.0.1/did.json").is_err());
//!
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let origin = format!("http://{}", listener.local_addr()?);
//! let (sender, mut events) = mpsc::channel(8);
//! let config = LinkConfig::new("node", &origin, "/websocket");
//! let mut link = WebSocketLink::open_with(config, Heights, move |event| {
//!     let sender = sender.clone();
//!     async move { sender.send(event).await.is_ok() }
//! });
//! let mut server = tokio_tungstenite::accept_async(listener.accept().await?.0).await?;
//! let request = futures::StreamExt::next(&mut server).await.ok_or("no request")??;
//! assert_eq!(request.to_text()?, "heights");
//! futures::SinkExt::send(&mut server, "7".into()).await?;
//! let mut height = None;
//! while let Some(event) = events.recv().await {
//!     match link.accept(event) {
//!         Some(LinkEvent::Frame { frame, .. }) => height = Some(frame),
//!         Some(LinkEvent::Ready { .. }) => break,
//!         _ => {}
//!     }
//! }
//! assert_eq!(height, Some(7));
//! # Ok(())
//! # }
//! ```

pub mod block_subscription;
pub mod client_tls;
#[cfg(feature = "did")]
pub mod did;
pub mod didcomm;
#[cfg(feature = "evidence")]
pub mod evidence;
mod excerpt;
pub mod fetch;
pub mod host_policy;
pub mod json_memory;
pub mod listener;
pub mod plaintext;
#[cfg(test)]
mod tests;
pub mod unverified_client;
pub mod upstream;
pub mod webhook;
pub mod websocket;
