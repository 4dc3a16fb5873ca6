//! The connections that actors talk through.
//!
//! [`websocket`] keeps a WebSocket to a server open, and accepts WebSockets as a server. [`upstream`] is the HTTP client of the
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
//! An untrusted URL is checked, and a link reports each connection to its owner under a new epoch:
//! ```
//! use svc_net::{
//!     host_policy::HostPolicy,
//!     websocket::{LinkConfig, LinkEvent, WebSocketLink},
//! };
//! use tokio::{net::TcpListener, sync::mpsc};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! assert!(HostPolicy::PublicOnly.check_url("https://agent.example.org/did.json").is_ok());
//! assert!(HostPolicy::PublicOnly.check_url("https://192.168.0.1/did.json").is_err());
//!
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let origin = format!("http://{}", listener.local_addr()?);
//! let (sender, mut events) = mpsc::channel(8);
//! let link = WebSocketLink::open(LinkConfig::new("node", &origin, "/websocket"), move |event| {
//!     let sender = sender.clone();
//!     async move { sender.send(event).await.is_ok() }
//! });
//! let mut server = tokio_tungstenite::accept_async(listener.accept().await?.0).await?;
//! let Some(LinkEvent::Up { epoch }) = events.recv().await else { panic!("the link is not up") };
//! assert!(link.send(epoch, "ping".to_owned()));
//! let message = futures::StreamExt::next(&mut server).await.ok_or("no message")??;
//! assert_eq!(message.to_text()?, "ping");
//! # Ok(())
//! # }
//! ```

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
