//! The CometBFT RPC: JSON-RPC over HTTP POST and WebSocket, and URI GET.
//!
//! [`http`] is the listener. All transports parse parameters with `params` and answer with `call`, which runs the method.

mod call;
pub mod encode;
pub mod http;
mod methods;
mod params;
mod search;
mod target_escape;
mod tx_proof;
mod websocket;
