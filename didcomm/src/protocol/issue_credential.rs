//! issue-credential/2.0: offer, request, credential, ack.

use serde_json::{Map, Value, json};

use super::{
    attachment::Attachment,
    body::{ContentError, body_text, optional_text},
};
use crate::message::Message;

/// The issuer offers a credential.
pub const OFFER: &str = "https://didcomm.org/issue-credential/2.0/offer-credential";
/// The holder wants it.
pub const REQUEST: &str = "https://didcomm.org/issue-credential/2.0/request-credential";
/// The issuer gives it.
pub const ISSUE: &str = "https://didcomm.org/issue-credential/2.0/issue-credential";
/// The holder has it.
pub const ACK: &str = "https://didcomm.org/issue-credential/2.0/ack";
/// Either side gives up.
pub const PROBLEM: &str = "https://didcomm.org/issue-credential/2.0/problem-report";
const PREVIEW: &str = "https://didcomm.org/issue-credential/2.0/credential-preview";

/// The code of a holder that does not take an offer or a credential.
pub const ISSUANCE_ABANDONED: &str = "issuance-abandoned";

/// Bytes of texts in these messages.
const MAX_TEXT: usize = 2048;

/// A step of the protocol.
#[derive(Debug, Clone, PartialEq)]
pub enum IssueCredential {
    /// The issuer offers.
    Offer {
        /// The offered credential.
        attachments: Vec<FormatAttachment>,
        /// For people.
        comment: Option<String>,
    },
    /// The holder requests.
    Request(Vec<FormatAttachment>),
    /// The issuer issues.
    Issue(Vec<FormatAttachment>),
    /// The holder acknowledges.
    Ack {
        /// `OK`, or another word.
        status: String,
    },
}

/// An attachment and the name of its format.
#[derive(Debug, Clone, PartialEq)]
pub struct FormatAttachment {
    /// Name of the format.
    pub format: String,
    /// The attachment.
    pub attachment: Attachment,
}

impl IssueCredential {
    /// Reads a message of the protocol; nothing when it is of another.
    pub(super) fn read(message: &Message) -> Result<Option<Self>, ContentError> {
        Ok(Some(match message.kind.as_str() {
            OFFER => Self::Offer {
                attachments: formats(message, "offers~attach")?,
                comment: optional_text(message, "comment", MAX_TEXT)?,
            },
            REQUEST => Self::Request(formats(message, "requests~attach")?),
            ISSUE => Self::Issue(formats(message, "credentials~attach")?),
            ACK => Self::Ack { status: body_text(message, "status", MAX_TEXT)? },
            _ => return Ok(None),
        }))
    }

    /// Makes the message in its thread. `pthid` is the thread of the flow that it belongs to.
    pub fn to_message(&self, id: &str, thid: &str, pthid: Option<&str>) -> Message {
        let (kind, body) = match self {
            Self::Offer { attachments, comment } => {
                let mut body = attached(attachments, "offers~attach");
                body.insert("credential_preview".to_owned(), json!({"@type": PREVIEW, "attributes": []}));
                if let Some(comment) = comment {
                    body.insert("comment".to_owned(), json!(comment));
                }
                (OFFER, body)
            }
            Self::Request(attachments) => (REQUEST, attached(attachments, "requests~attach")),
            Self::Issue(attachments) => (ISSUE, attached(attachments, "credentials~attach")),
            Self::Ack { status } => (ACK, Map::from_iter([("status".to_owned(), json!(status))])),
        };
        let message = Message::new(id, kind, Value::Object(body)).in_thread(thid);
        Message { pthid: pthid.map(str::to_owned), ..message }
    }
}

/// Makes the message of a holder that does not take an offer or a credential.
pub fn abandon_message(id: &str, thid: &str, pthid: Option<&str>, text: &str) -> Message {
    let body = json!({"description": {"code": ISSUANCE_ABANDONED, "en": text}});
    let message = Message::new(id, PROBLEM, body).in_thread(thid);
    Message { pthid: pthid.map(str::to_owned), ..message }
}

fn attached(attachments: &[FormatAttachment], name: &str) -> Map<String, Value> {
    let format = |one: &FormatAttachment| json!({"attach_id": one.attachment.id, "format": one.format});
    let formats: Vec<Value> = attachments.iter().map(format).collect();
    let list: Vec<Value> = attachments.iter().map(|one| one.attachment.to_json()).collect();
    Map::from_iter([("formats".to_owned(), json!(formats)), (name.to_owned(), json!(list))])
}

/// The attachments that a format names. A v2 attachment may name its format itself.
fn formats(message: &Message, name: &str) -> Result<Vec<FormatAttachment>, ContentError> {
    let attachments = Attachment::read_all(message, name)?;
    let list = message.body.get("formats").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let of_entry = |id: &str| {
        let found = list.iter().find(|entry| entry["attach_id"].as_str() == Some(id))?;
        found["format"].as_str().map(str::to_owned)
    };
    let of_attachment = |index: usize| {
        let entry = message.other.get("attachments")?.get(index)?;
        entry["format"].as_str().map(str::to_owned)
    };
    let with_format = |(index, attachment): (usize, Attachment)| {
        let format = of_entry(&attachment.id).or_else(|| of_attachment(index));
        let format = format.filter(|format| format.len() <= 128);
        format.map(|format| FormatAttachment { format, attachment })
    };
    let found: Vec<_> = attachments.into_iter().enumerate().filter_map(with_format).collect();
    if found.is_empty() { Err(ContentError::member(name, "has no attachment with a format")) } else { Ok(found) }
}
