//! The stream of a client, as a server may change it before its requests are read.

use tokio::io::{AsyncRead, AsyncWrite};

/// A stream of a client.
pub trait ClientStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ClientStream for S {}

/// A change of the streams of a listener: the requests are read from the stream that it returns.
pub type StreamChange = fn(Box<dyn ClientStream>) -> Box<dyn ClientStream>;
