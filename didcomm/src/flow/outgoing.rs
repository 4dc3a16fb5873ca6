//! The messages of a flow. Pure: ids come from the caller.

use super::{arrival::RequestFault, record::FlowRecord, state::Variant, trigger::Outgoing};
use crate::{
    message::Message,
    protocol::{
        issue_credential::{FormatAttachment, IssueCredential, abandon_message},
        problem_report::ProblemReport,
        vt_flow::{FlowRequest, VtFlow},
    },
};

/// The parts of a message that no record has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MessageParts {
    /// The credential of an offer, or the answer to one.
    pub attachment: Option<FormatAttachment>,
    /// A text for people.
    pub text: Option<String>,
    /// The code of an operator that ends a flow.
    pub code: Option<String>,
}

/// Makes a message of a flow from the record behind the step that sends it. Nothing when the record lacks a part, as a
/// flow does that ends before its opening message.
pub fn message_of(record: &FlowRecord, outgoing: Outgoing, id: &str, parts: MessageParts) -> Option<Message> {
    let thread = record.thread_id.as_deref()?;
    let in_exchange = |step: IssueCredential| {
        let exchange = record.exchange.as_ref()?;
        Some(step.to_message(id, &exchange.thread, Some(thread)))
    };
    let report = |code: &str, impact: &str| {
        let text = parts.text.clone().unwrap_or_default();
        let (who_retries, impact) = (Some("NONE".to_owned()), Some(impact.to_owned()));
        Some(ProblemReport { code: code.to_owned(), text, who_retries, impact }.to_message(id, thread))
    };
    match outgoing {
        // Its thread is named although it is its own id: one that is repeated has another id.
        Outgoing::OnboardingRequest => {
            let participant_id = record.applicant_participant_id?.to_string();
            Some(VtFlow::OnboardingRequest { participant_id, request: request_of(record) }.to_message(id, Some(thread)))
        }
        Outgoing::IssuanceRequest => {
            let schema_id = record.schema_id.to_string();
            Some(VtFlow::IssuanceRequest { schema_id, request: request_of(record) }.to_message(id, Some(thread)))
        }
        Outgoing::Validating => Some(VtFlow::Validating { comment: parts.text }.to_message(id, Some(thread))),
        Outgoing::OobLink => {
            let link = record.oob_link.as_ref()?;
            let expires_time = link.expires_at.map(|millis| millis / 1000);
            let (url, description) = (link.url.clone(), link.description.clone());
            Some(VtFlow::OobLink { url, description, expires_time }.to_message(id, Some(thread)))
        }
        Outgoing::OfferCredential => {
            in_exchange(IssueCredential::Offer { attachments: vec![parts.attachment?], comment: parts.text })
        }
        Outgoing::RequestCredential => in_exchange(IssueCredential::Request(vec![parts.attachment?])),
        Outgoing::Ack => in_exchange(IssueCredential::Ack { status: "OK".to_owned() }),
        Outgoing::IssueProblemReport => {
            let exchange = record.exchange.as_ref()?;
            Some(abandon_message(id, &exchange.thread, Some(thread), &parts.text.unwrap_or_default()))
        }
        Outgoing::CredentialRevoked => {
            let subprotocol_thid = record.exchange.as_ref()?.thread.clone();
            let state = "REVOKED".to_owned();
            let change = VtFlow::CredentialStateChange { subprotocol_thid, state, reason: parts.text };
            Some(change.to_message(id, Some(thread)))
        }
        Outgoing::SessionTerminated => report("vt-flow.session-terminated", "THREAD"),
        Outgoing::Rejected => report(parts.code.as_deref().unwrap_or("vt-flow.validation-refused"), "THREAD"),
        Outgoing::ParticipantRevoked => report("vt-flow.participant-revoked", "CONNECTION"),
        Outgoing::ParticipantSlashed => report("vt-flow.participant-slashed", "CONNECTION"),
    }
}

/// The message that hands over a credential.
pub fn credential_message(record: &FlowRecord, id: &str, credential: FormatAttachment) -> Option<Message> {
    let exchange = record.exchange.as_ref()?;
    let issue = IssueCredential::Issue(vec![credential]);
    Some(issue.to_message(id, &exchange.thread, record.thread_id.as_deref()))
}

/// The message of an applicant that takes no offer of a thread.
pub fn declined_offer(record: &FlowRecord, thread: &str, id: &str, text: &str) -> Message {
    abandon_message(id, thread, record.thread_id.as_deref(), text)
}

/// The answer to a request that does not fit, in its thread.
pub fn refusal_message(fault: RequestFault, thread: &str, id: &str, text: &str) -> Message {
    let (who_retries, impact) = match fault {
        RequestFault::Peer => ("NONE", "CONNECTION"),
        _ => ("YOU", "THREAD"),
    };
    let (code, text) = (fault.code().to_owned(), text.to_owned());
    let report = ProblemReport { code, text, who_retries: Some(who_retries.into()), impact: Some(impact.into()) };
    report.to_message(id, thread)
}

/// The answer to a message of a flow that is not there: its applicant has to begin again.
pub fn unknown_flow_message(thread: &str, id: &str) -> Message {
    let (who_retries, impact) = (Some("YOU".to_owned()), Some("THREAD".to_owned()));
    let text = "no flow of this thread is known; it begins with an onboarding-request".to_owned();
    ProblemReport { code: "vt-flow.or-required".to_owned(), text, who_retries, impact }.to_message(id, thread)
}

fn request_of(record: &FlowRecord) -> FlowRequest {
    let proofs = record.proofs.clone().filter(|_| record.variant == Variant::Onboarding);
    FlowRequest { participant_session_id: record.session_id.clone(), claims: record.claims.clone(), proofs }
}
