//! Tests of connections over real sockets.

#[cfg(feature = "did")]
mod did;
pub(crate) mod link;
mod listener;
mod long_answers;
mod unverified_client;
mod whole_lists;
