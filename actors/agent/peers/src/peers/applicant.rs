//! Peers that are not trusted and open a flow: the one that is about to become trusted by it is heard, every other one gets one answer.
//!
//! Nothing of those others is stored: the answer goes out once, and is lost with a process or a server that fails.

use std::time::Instant;

use svc_agent_core::peer_tag::peer_tag;
use svc_didcomm::{
    Message,
    protocol::{
        Content, ContentError,
        problem_report::ProblemReport,
        vt_flow::{NOT_A_VERIFIABLE_SERVICE, VtFlow},
    },
};
use svc_otel::metrics;
use uuid::Uuid;

use super::{
    sending::Sending,
    service::{PeerService, known_protocol},
};
use crate::{gate::UnknownVerdict, peer_session::ProvenMessage};

/// A message that opens a flow.
fn opening(content: &Result<Content, ContentError>) -> Option<&VtFlow> {
    match content {
        Ok(Content::VtFlow(flow @ (VtFlow::OnboardingRequest { .. } | VtFlow::IssuanceRequest { .. }))) => Some(flow),
        _ => None,
    }
}

/// Whether a message opens a flow.
pub(super) fn is_opening(content: &Content) -> bool {
    matches!(content, Content::VtFlow(VtFlow::OnboardingRequest { .. } | VtFlow::IssuanceRequest { .. }))
}

impl PeerService {
    /// Whether a peer that is not trusted opens the onboarding by which it becomes so.
    pub(super) async fn is_exempt(
        &self,
        proven: &ProvenMessage,
        content: &Result<Content, ContentError>,
    ) -> Result<bool, UnknownVerdict> {
        let Some(VtFlow::OnboardingRequest { participant_id, .. }) = opening(content) else { return Ok(false) };
        let Ok(participant_id) = participant_id.parse() else { return Ok(false) };
        self.0.parts.gate.is_applicant(&proven.public_did, participant_id).await
    }

    /// The answer to a message that opens a flow, by a peer that is not trusted; one a minute.
    pub(super) fn answer_to_untrusted(
        &self,
        proven: &ProvenMessage,
        content: &Result<Content, ContentError>,
    ) -> Option<Box<Message>> {
        if let Ok(Content::EndpointAccess(frame)) = content {
            return self.denial_to_untrusted(proven, frame);
        }
        opening(content)?;
        self.0.untrusted_answers.take(&peer_tag(&proven.public_did), Instant::now()).ok()?;
        let text = "the registry does not show this DID as a verifiable service, nor as an applicant";
        let report = ProblemReport {
            who_retries: Some("NONE".to_owned()),
            impact: Some("CONNECTION".to_owned()),
            ..ProblemReport::new(NOT_A_VERIFIABLE_SERVICE, text)
        };
        let message = report.to_message(&Uuid::new_v4().to_string(), proven.message.thread());
        let (from, to) = (Some(proven.recipient.clone()), vec![proven.sender.clone()]);
        Some(Box::new(Message { from, to, ..message }))
    }

    /// Sends a message of which nothing is stored, once.
    pub(super) async fn send_unstored(&self, message: Message) {
        let (Some(from), Some(to)) = (message.from.clone(), message.to.first().cloned()) else { return };
        let protocol = known_protocol(message.protocol());
        let outcome = match self.seal_for((&from, &to), message, false).await {
            Ok(sealed) => Sending::new(self, None).deliver(sealed).await.as_str(),
            Err(error) => error.attempt.as_str(),
        };
        metrics::record_peer_message("out", protocol, outcome);
    }
}
