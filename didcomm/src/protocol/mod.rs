//! The messages of the protocols, by type.

pub mod basic_message;
pub mod credential_format;
pub mod discover_features;
pub mod endpoint_access;
pub mod issue_credential;
pub mod out_of_band;
pub mod problem_report;
pub mod vt_flow;

mod attachment;
mod body;
mod served;

pub use attachment::{Attachment, AttachmentData};
pub use body::ContentError;
pub use served::{EMPTY, FORWARD, PROBLEM_REPORT, PROTOCOLS};

use self::{
    basic_message::BasicMessage,
    discover_features::{Disclosure, Query},
    endpoint_access::AccessFrame,
    issue_credential::IssueCredential,
    problem_report::ProblemReport,
    vt_flow::VtFlow,
};
use crate::message::Message;

/// A message as its protocol understands it.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Nothing.
    Empty,
    /// A text for people or a backend.
    BasicMessage(BasicMessage),
    /// A frame about access to an endpoint, in a basic message.
    EndpointAccess(AccessFrame),
    /// Something went wrong at the peer.
    ProblemReport(ProblemReport),
    /// A question for the protocols of an agent.
    Queries(Vec<Query>),
    /// The protocols of the peer.
    Disclosures(Vec<Disclosure>),
    /// A step of issuing a credential.
    IssueCredential(IssueCredential),
    /// A step of a flow.
    VtFlow(VtFlow),
}

impl Content {
    /// Reads the content of a message by its type.
    pub fn read(message: &Message) -> Result<Self, ContentError> {
        match message.kind.as_str() {
            EMPTY => Ok(Self::Empty),
            basic_message::MESSAGE => {
                let text = BasicMessage::read(message)?;
                Ok(AccessFrame::read(&text.content).map_or(Self::BasicMessage(text), Self::EndpointAccess))
            }
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
