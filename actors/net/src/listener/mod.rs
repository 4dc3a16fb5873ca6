//! The HTTP listener that every front end serves on.
//!
//! A client without a token can open sockets, begin requests and never end them. The listener bounds the cost: connections in all
//! and for each address, the time of a head, of a body and of an answer that is not read, the size of a head, and the descriptors of the
//! process, of which a part stays free for its own connections. When a limit is reached, a connection that waits for its client makes room
//! for the next one; one whose client has proven itself ([`ClientConnection::trust`]) never does.
//!
//! A connection that was upgraded to a WebSocket leaves these limits. It is counted where WebSockets are.
//!
//! The listener knows no routes: it takes any service of HTTP requests, such as an axum router in a [`TowerService`].

mod address_key;
mod admission;
mod client_stream;
mod connection;
mod connection_table;
mod descriptors;
mod exchange;
mod guarded_stream;
mod http_listener;
mod log_fold;
mod progress;
mod refusal;
mod refusal_log;
mod request_host;
mod settings;
mod tls;
mod unread_body;

pub use address_key::AddressKey;
pub use client_stream::{ClientStream, StreamChange};
pub use connection::ClientConnection;
pub use descriptors::{descriptor_budget, raise_descriptor_limit};
pub use exchange::{RequestBody, ResponseBody};
pub use http_listener::HttpListener;
pub use hyper_util::service::TowerToHyperService as TowerService;
pub use log_fold::LogFold;
pub use refusal::Refusal;
pub use request_host::{HostRefusal, HostRule};
pub use settings::{LimitNames, ListenerSettings};
pub use tls::{TlsError, TlsFiles, TlsIdentity};
