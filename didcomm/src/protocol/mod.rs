//! The messages of the protocols, by type.

pub mod basic_message;
pub mod discover_features;
pub mod issue_credential;
pub mod out_of_band;
pub mod problem_report;
pub mod vt_flow;

mod attachment;

pub use attachment::{Attachment, AttachmentData};
use serde_json::Value;

use self::{
    basic_message::BasicMessage,
    discover_features::{Disclosure, Query},
    issue_credential::IssueCredential,
    problem_report::ProblemReport,
    vt_flow::VtFlow,
};
use crate::message::Message;

/// The message without content, which only carries a `from_prior`.
pub const EMPTY: &str = "https://didcomm.org/empty/1.0/empty";
/// A message for somebody else, which is never passed on.
pub const FORWARD: &str = "https://didcomm.org/routing/2.0/forward";
/// The type of problem reports in this registry.
pub const PROBLEM_REPORT: &str = "https://didcomm.org/notification/1.0/problem-report";

/// The protocols that an agent serves, with their module of the admin API.
pub const PROTOCOLS: [(&str, &[&str]); 4] = [
    ("connections", &["https://didcomm.org/empty/1.0", "https://didcomm.org/discover-features/2.0", "https://didcomm.org/notification/1.0"]),
    ("invitations", &["https://didcomm.org/out-of-band/2.0"]),
    ("basic-messages", &["https://didcomm.org/basicmessage/2.0"]),
    ("credential-exchanges", &["https://didcomm.org/issue-credential/2.0"]),
];

/// A message as its protocol understands it.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Nothing.
    Empty,
    /// A text for people or a backend.
    BasicMessage(BasicMessage),
    /// Something went wrong at the peer.
    ProblemReport(ProblemReport),
    /// What do you speak?
    Queries(Vec<Query>),
    /// What the peer speaks.
    Disclosures(Vec<Disclosure>),
    /// A step of issuing a credential.
    IssueCredential(IssueCredential),
    /// A step of a flow.
    VtFlow(VtFlow),
}

/// A message cannot be understood. Its sender is told so.
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
    fn member(name: &str, rule: &str) -> Self {
        Self::Member(format!("{name} {rule}"))
    }
}

impl Content {
    /// Reads the content of a message by its type.
    pub fn read(message: &Message) -> Result<Self, ContentError> {
        match message.kind.as_str() {
            EMPTY => Ok(Self::Empty),
            basic_message::MESSAGE => BasicMessage::read(message).map(Self::BasicMessage),
            PROBLEM_REPORT | problem_report::REPORT_1 | problem_report::REPORT_2 => {
                Ok(Self::ProblemReport(ProblemReport::read(message)))
            }
            discover_features::QUERIES => discover_features::read_queries(message).map(Self::Queries),
            discover_features::DISCLOSURES => discover_features::read_disclosures(message).map(Self::Disclosures),
            issue_credential::PROBLEM => Ok(Self::ProblemReport(ProblemReport::read(message))),
            _ => match IssueCredential::read(message)? {
                Some(step) => Ok(Self::IssueCredential(step)),
                None => VtFlow::read(message)?.map(Self::VtFlow).ok_or(ContentError::Unknown),
            },
        }
    }
}

/// A text of the body with at most `max_bytes` bytes.
fn body_text(message: &Message, name: &str, max_bytes: usize) -> Result<String, ContentError> {
    optional_text(message, name, max_bytes)?.ok_or_else(|| ContentError::member(name, "is missing"))
}

fn optional_text(message: &Message, name: &str, max_bytes: usize) -> Result<Option<String>, ContentError> {
    match message.body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.len() <= max_bytes => Ok(Some(text.clone())),
        Some(Value::String(_)) => Err(ContentError::member(name, &format!("is longer than {max_bytes} bytes"))),
        Some(_) => Err(ContentError::member(name, "is not a string")),
    }
}
