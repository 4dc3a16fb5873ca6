//! Frames about access that peers send: requests are judged before their transaction, and answers go to the asker behind theirs.

use std::time::Instant;

use svc_agent_core::{
    access::{AccessOutcome, AccessPart},
    peer_tag::peer_tag,
};
use svc_didcomm::{
    Message,
    access::Denied,
    protocol::{
        Content, ContentError,
        basic_message::BasicMessage,
        endpoint_access::{AccessDenial, AccessFrame, DenyCode, frame_message},
    },
};
use svc_kit::wall_clock;
use svc_otel::metrics;
use uuid::Uuid;

use super::service::{PeerService, RETRY_SECONDS};
use crate::peer_session::ProvenMessage;

/// Seconds for which a denial is worth sending.
const DENIAL_SECONDS: i64 = 60;
const NOT_TRUSTED: &str = "the registry does not show this DID as a verifiable service";

impl PeerService {
    /// The content of a message. With a backend that answers, requests for access are texts for it; answers never are.
    pub(super) fn read_content(&self, message: &Message) -> Result<Content, ContentError> {
        let content = Content::read(message);
        let is_for_backend = self.0.parts.access.owner().settings().is_answered_by_backend;
        match content {
            Ok(Content::EndpointAccess(AccessFrame::Request(_) | AccessFrame::UnreadableRequest { .. }))
                if is_for_backend =>
            {
                let content = message.body_text("content").unwrap_or_default().to_owned();
                Ok(Content::BasicMessage(BasicMessage { content }))
            }
            content => content,
        }
    }

    /// The part of access in a message: the decision about a request.
    pub(super) async fn access_part(
        &self,
        proven: &ProvenMessage,
        content: &Result<Content, ContentError>,
        is_trusted: bool,
    ) -> Option<AccessPart> {
        match content {
            Ok(Content::EndpointAccess(AccessFrame::Request(request))) => {
                let decision = self.0.parts.access.judge(request, &proven.public_did, is_trusted).await;
                Some(AccessPart::of(request.clone(), decision))
            }
            Ok(Content::EndpointAccess(AccessFrame::UnreadableRequest { id: Some(id), code, rule })) => {
                // The order of the protocol: a peer that is not trusted learns nothing else.
                let denied = match is_trusted {
                    true => Denied::new(*code, rule.clone()),
                    false => Denied::new(DenyCode::NotTrusted, NOT_TRUSTED),
                };
                Some(AccessPart::Denied { request_id: id.clone(), endpoint: None, denied })
            }
            _ => None,
        }
    }

    /// Hands the answer of a peer to the asker.
    pub(super) fn hear_access(&self, proven: &ProvenMessage, content: &Result<Content, ContentError>) {
        match content {
            Ok(Content::EndpointAccess(AccessFrame::Request(_) | AccessFrame::UnreadableRequest { .. })) => {}
            Ok(Content::EndpointAccess(frame)) => self.0.parts.asker.hear(&proven.public_did, frame.clone()),
            _ => {}
        }
    }

    /// The denial for a peer that is not trusted; one a minute.
    pub(super) fn denial_to_untrusted(&self, proven: &ProvenMessage, frame: &AccessFrame) -> Option<Box<Message>> {
        self.0.untrusted_answers.take(&peer_tag(&proven.public_did), Instant::now()).ok()?;
        unstored_denial(proven, frame, Denied::new(DenyCode::NotTrusted, NOT_TRUSTED))
    }

    /// The denial while the store or the verdict is missing; a few a minute. The message itself comes again.
    pub(super) fn denial_for_now(
        &self,
        proven: &ProvenMessage,
        content: &Result<Content, ContentError>,
    ) -> Option<Box<Message>> {
        let Ok(Content::EndpointAccess(frame)) = content else { return None };
        self.0.denials.take(&peer_tag(&proven.public_did), Instant::now()).ok()?;
        let denied = Denied::for_now(DenyCode::Unavailable, "nothing can be granted now", RETRY_SECONDS);
        unstored_denial(proven, frame, denied)
    }
}

/// The denial of a request of which nothing is stored.
fn unstored_denial(proven: &ProvenMessage, frame: &AccessFrame, denied: Denied) -> Option<Box<Message>> {
    let (id, endpoint) = match frame {
        AccessFrame::Request(request) => (request.id.clone(), Some(request.endpoint.clone())),
        AccessFrame::UnreadableRequest { id: Some(id), .. } => (id.clone(), None),
        _ => return None,
    };
    metrics::record_access_answer(AccessOutcome::Denied(denied.code).label());
    let Denied { code, message, retry_after } = denied;
    let content = AccessDenial { id, endpoint, code, message, retry_after }.to_content();
    let (id, now) = (Uuid::new_v4().to_string(), wall_clock::now().seconds);
    let message = frame_message(&id, &content, Some(&proven.message.id), now, Some(now + DENIAL_SECONDS));
    let (from, to) = (Some(proven.recipient.clone()), vec![proven.sender.clone()]);
    Some(Box::new(Message { from, to, ..message }))
}
