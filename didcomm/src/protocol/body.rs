//! Members of a body, and the error of a message that cannot be understood.

use serde_json::Value;

use crate::message::Message;

/// A message cannot be understood. Its sender gets a problem report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// No protocol that is served has this type.
    #[error("messages of this type are not served")]
    Unknown,
    /// A member is missing, of another type, or beyond its bound.
    #[error("{0}")]
    Member(String),
}

impl ContentError {
    pub(super) fn member(name: &str, rule: &str) -> Self {
        Self::Member(format!("{name} {rule}"))
    }
}

/// A text of the body with at most `max_bytes` bytes.
pub(super) fn body_text(message: &Message, name: &str, max_bytes: usize) -> Result<String, ContentError> {
    optional_text(message, name, max_bytes)?.ok_or_else(|| ContentError::member(name, "is missing"))
}

pub(super) fn optional_text(message: &Message, name: &str, max_bytes: usize) -> Result<Option<String>, ContentError> {
    match message.body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.len() <= max_bytes => Ok(Some(text.clone())),
        Some(Value::String(_)) => Err(ContentError::member(name, &format!("is longer than {max_bytes} bytes"))),
        Some(_) => Err(ContentError::member(name, "is not a string")),
    }
}
