//! The client's side of a stream: its requests, and the meaning of its texts. Pure.

use std::time::Duration;

/// The protocol of a stream. A link reads each connection with a fresh clone.
pub trait StreamProtocol: Clone + Send + Sync + 'static {
    /// A text, as the owner of the link receives it.
    type Frame: Send + 'static;

    /// Reason of the end when a patience with the stream has elapsed.
    const SILENCE: &'static str = "the server sends no frames";

    /// Whether the owner decides about such a silence: it receives [`LinkEvent::Silent`](super::LinkEvent::Silent) after each patience, and the
    /// connection goes on.
    const REPORTS_SILENCE: bool = false;

    /// The requests that are sent as soon as a connection is open. A server that speaks first gets its requests from
    /// [`StreamProtocol::read`].
    fn requests(&self) -> Vec<String> {
        Vec::new()
    }

    /// Reads a text of the server.
    ///
    /// # Errors
    /// When the text breaks the protocol, or refuses the subscription: the reason of the connection's end.
    fn read(&mut self, text: &str) -> Result<Reading<Self::Frame>, String>;
}

/// The meaning of a text.
#[derive(Debug, PartialEq, Eq)]
pub struct Reading<F> {
    /// The frame for the owner.
    pub frame: Option<F>,
    /// A request that follows from the text.
    pub request: Option<String>,
    /// Whether the subscription is in force.
    pub is_confirmed: bool,
    /// The silence that may follow.
    pub patience: Option<Patience>,
}

impl<F> Default for Reading<F> {
    fn default() -> Self {
        Self { frame: None, request: None, is_confirmed: false, patience: None }
    }
}

impl<F> From<F> for Reading<F> {
    /// A text that is a frame and nothing else.
    fn from(frame: F) -> Self {
        Self { frame: Some(frame), ..Self::default() }
    }
}

/// A silence that ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Silence of the socket: the answer to a ping ends it.
    Socket(Duration),
    /// Silence of the stream: only a text with a patience ends it. A server may answer pings and send no frames.
    Stream(Duration),
}
