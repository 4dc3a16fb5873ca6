//! Tests of connections over real sockets.
#![allow(missing_docs, clippy::expect_used)]

#[cfg(feature = "did")]
mod did;
mod link;
mod listener;
