//! basicmessage/2.0: a text from one agent's backend to another's.

use serde_json::json;

use super::body::{ContentError, body_text};
use crate::{limits, message::Message};

/// The only type of the protocol.
pub const MESSAGE: &str = "https://didcomm.org/basicmessage/2.0/message";

/// A text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasicMessage {
    /// The text.
    pub content: String,
}

impl BasicMessage {
    /// Makes the message; `now` in seconds since the epoch.
    pub fn to_message(&self, id: &str, now: i64) -> Message {
        Message { created_time: Some(now), ..Message::new(id, MESSAGE, json!({"content": self.content})) }
    }

    pub(super) fn read(message: &Message) -> Result<Self, ContentError> {
        Ok(Self { content: body_text(message, "content", limits::MAX_BASIC_MESSAGE_BYTES)? })
    }
}
