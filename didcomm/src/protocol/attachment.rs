//! Attachments in the two places where agents put them.

use base64::{
    Engine,
    prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD},
};
use serde_json::{Value, json};

use super::body::ContentError;
use crate::{limits, message::Message};

/// An attachment of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Attachment {
    /// Unique in its message.
    pub id: String,
    /// Its content.
    pub data: AttachmentData,
}

/// Content of an attachment.
#[derive(Debug, Clone, PartialEq)]
pub enum AttachmentData {
    /// JSON as such.
    Json(Value),
    /// Bytes in base64, which are JSON in every protocol here.
    Base64(Vec<u8>),
}

impl Attachment {
    /// Reads the attachments of a message: in the body under `name`, where agents of this registry expect them, or at the top
    /// level, where DIDComm v2 has them.
    pub(super) fn read_all(message: &Message, name: &str) -> Result<Vec<Self>, ContentError> {
        let list = message.body.get(name).or_else(|| message.other.get("attachments")).unwrap_or(&Value::Null);
        match list {
            Value::Null => Ok(Vec::new()),
            Value::Array(list) if list.len() <= limits::MAX_ATTACHMENTS => list.iter().map(Self::read).collect(),
            Value::Array(_) => {
                Err(ContentError::member(name, &format!("has more than {} attachments", limits::MAX_ATTACHMENTS)))
            }
            _ => Err(ContentError::member(name, "is not a list")),
        }
    }

    fn read(entry: &Value) -> Result<Self, ContentError> {
        let wrong = || ContentError::member("an attachment", "has neither data.json nor data.base64");
        let id = entry["@id"].as_str().or_else(|| entry["id"].as_str()).unwrap_or_default().to_owned();
        let data = &entry["data"];
        let data = match (data.get("json"), data["base64"].as_str()) {
            (Some(json), _) => AttachmentData::Json(json.clone()),
            (None, Some(text)) => AttachmentData::Base64(decode(text).ok_or_else(wrong)?),
            (None, None) => return Err(wrong()),
        };
        Ok(Self { id, data })
    }

    /// The attachment in the form that stands in a body.
    pub(super) fn to_json(&self) -> Value {
        let data = match &self.data {
            AttachmentData::Json(json) => json!({"json": json}),
            AttachmentData::Base64(bytes) => json!({"base64": BASE64_STANDARD.encode(bytes)}),
        };
        json!({"@id": self.id, "mime-type": "application/json", "data": data})
    }
}

/// Agents send standard base64 with padding; the other forms cost nothing to take.
fn decode(text: &str) -> Option<Vec<u8>> {
    let engines = [&BASE64_STANDARD, &BASE64_STANDARD_NO_PAD, &BASE64_URL_SAFE_NO_PAD];
    engines.iter().find_map(|engine| engine.decode(text).ok())
}
