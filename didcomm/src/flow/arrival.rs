//! A message of a peer about a flow, and the record behind it. Pure.
//!
//! Nothing here reads the node. A request was judged before, by reads that stand among its facts; an offer and a credential are kept, and
//! the flow judges them later.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    chain_read::ParticipantRead,
    progress::Progress,
    record::{
        CredentialStage, EarlyRequest, FlowCredential, FlowRecord, HeldOffer, KeptKind, KeptMessage, Notice, OobLink,
    },
    report::{ReportMeaning, report_meaning},
    state::{ConnectionState, FlowState, Side, Variant},
    step::Cause,
    table::rows_of,
    trigger::{Guard, Trigger},
};
use crate::{
    message::Message,
    protocol::{
        Content,
        credential_format::offered_credential,
        issue_credential::{self, FormatAttachment, IssueCredential},
        problem_report::ProblemReport,
        vt_flow::{FlowRequest, VtFlow},
    },
};

/// Sessions of before that a flow may have.
const MAX_SESSIONS: usize = 100;
/// Bytes of a link among the messages for people; a longer one stands in the record alone.
const MAX_KEPT_LINK: usize = 2048;

/// A message whose sender is proven.
#[derive(Debug, Clone)]
pub struct FlowArrival<'a> {
    /// The message.
    pub message: &'a Message,
    /// As its protocol reads it.
    pub content: &'a Content,
    /// DID by which its sender is known.
    pub peer_did: &'a str,
    /// Milliseconds since the epoch.
    pub now: i64,
    /// Id for an exchange that begins here.
    pub new_id: &'a str,
    /// Conditions that hold and that no record shows.
    pub facts: BTreeSet<Guard>,
    /// A read of the participant that an onboarding request names.
    pub read: Option<ParticipantRead>,
}

/// The end of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrived {
    /// Nothing changes, and nothing is answered.
    Ignored,
    /// The record has changed.
    Changed(Box<Progress>),
    /// A request that does not fit.
    Refused(RequestFault),
}

/// The part of a request that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFault {
    /// The participant is not the applicant's, or is in no state for a request.
    Participant,
    /// The schema needs an onboarding, or the agent does not issue it.
    Schema,
    /// The session is another's, or one that has ended.
    Session,
    /// The peer is no verifiable service.
    Peer,
}

impl RequestFault {
    /// The fault of a request that begins a flow, by the condition that does not hold.
    pub fn of(guard: Guard) -> Self {
        match guard {
            Guard::SessionFree => Self::Session,
            Guard::Permissionless | Guard::OwnIssuerActive => Self::Schema,
            Guard::GatePassed | Guard::GateOrExempt => Self::Peer,
            _ => Self::Participant,
        }
    }

    /// The code of the problem report.
    pub fn code(self) -> &'static str {
        match self {
            Self::Participant => "vt-flow.invalid-participant-id",
            Self::Schema => "vt-flow.invalid-schema-id",
            Self::Session => "vt-flow.invalid-participant-session-id",
            Self::Peer => crate::protocol::vt_flow::NOT_A_VERIFIABLE_SERVICE,
        }
    }
}

/// Takes a message about a flow that is there.
pub fn take(record: &FlowRecord, arrival: &FlowArrival<'_>) -> Arrived {
    let progress = Progress::of(record.clone());
    if arrival.peer_did != record.peer_did {
        return match arrival.content {
            Content::VtFlow(VtFlow::OnboardingRequest { .. } | VtFlow::IssuanceRequest { .. }) => {
                Arrived::Refused(RequestFault::Session)
            }
            _ => Arrived::Ignored,
        };
    }
    match arrival.content {
        Content::VtFlow(VtFlow::OnboardingRequest { participant_id, request }) => {
            arrival.begin_again(progress, Some(participant_id), request)
        }
        Content::VtFlow(VtFlow::IssuanceRequest { schema_id, request }) => {
            let fits = schema_id.parse() == Ok(record.schema_id);
            if record.variant == Variant::Direct && !fits {
                return Arrived::Refused(RequestFault::Schema);
            }
            arrival.begin_again(progress, None, request)
        }
        Content::VtFlow(VtFlow::Validating { comment }) => arrival.hear(progress, Trigger::Validating, comment.clone()),
        Content::VtFlow(VtFlow::OobLink { description, .. }) => {
            arrival.hear(progress, Trigger::OobLink, Some(description.clone()))
        }
        Content::VtFlow(VtFlow::CredentialTerms { present_as_linked_vp, .. }) => {
            arrival.note_terms(progress, *present_as_linked_vp)
        }
        Content::VtFlow(VtFlow::CredentialStateChange { subprotocol_thid, state, .. }) => {
            let facts = (state == "REVOKED").then_some(Guard::StateRevoked);
            let cause = arrival.cause(Trigger::CredentialStateChange).with_facts(facts);
            changed(progress, |progress| {
                progress.take(&Cause { thread: Some(subprotocol_thid.clone()), ..cause.clone() })
            })
        }
        Content::IssueCredential(IssueCredential::Offer { attachments, .. }) => {
            arrival.hold_offer(progress, attachments)
        }
        Content::IssueCredential(IssueCredential::Request(_)) => arrival.note_request(progress),
        Content::IssueCredential(IssueCredential::Issue(_)) => arrival.receive_credential(progress),
        Content::IssueCredential(IssueCredential::Ack { .. }) => {
            changed(progress, |progress| progress.take(&arrival.cause(Trigger::Ack)))
        }
        Content::ProblemReport(report) if arrival.message.kind == issue_credential::PROBLEM => {
            let cause = Cause { reason: Some(report.text.clone()), ..arrival.cause(Trigger::IssueProblemReport) };
            changed(progress, |progress| progress.take(&cause))
        }
        Content::ProblemReport(report) => arrival.note_report(progress, report),
        _ => Arrived::Ignored,
    }
}

fn changed(mut progress: Progress, change: impl FnOnce(&mut Progress) -> bool) -> Arrived {
    if change(&mut progress) { Arrived::Changed(Box::new(progress)) } else { Arrived::Ignored }
}

impl FlowArrival<'_> {
    fn cause(&self, trigger: Trigger) -> Cause {
        Cause {
            thread: Some(self.message.thread().to_owned()),
            peer_did: Some(self.peer_did.to_owned()),
            new_id: self.new_id.to_owned(),
            read: self.read,
            facts: self.facts.clone(),
            ..Cause::new(trigger, self.now)
        }
    }

    /// The terms of the credential: the last ones before the offer hold.
    fn note_terms(&self, mut progress: Progress, presents: bool) -> Arrived {
        let record = &progress.record;
        let is_open = record.side == Side::Applicant
            && record.connection_state == ConnectionState::Established
            && record.exchange.is_none()
            && record.held_offer.is_none();
        if !is_open || record.told_to_present == Some(presents) {
            return Arrived::Ignored;
        }
        progress.record.told_to_present = Some(presents);
        Arrived::Changed(Box::new(progress))
    }

    /// An opening message for a flow that is there: a renewal, or an applicant that begins again.
    fn begin_again(&self, mut progress: Progress, participant_id: Option<&str>, request: &FlowRequest) -> Arrived {
        let is_onboarding = participant_id.is_some();
        if progress.record.side != Side::Validator || is_onboarding != (progress.record.variant == Variant::Onboarding)
        {
            return Arrived::Refused(RequestFault::Session);
        }
        if participant_id.is_some_and(|id| id.parse().ok() != progress.record.applicant_participant_id) {
            return Arrived::Refused(RequestFault::Participant);
        }
        let trigger = if is_onboarding { Trigger::OnboardingRequest } else { Trigger::IssuanceRequest };
        let cause = self.cause(trigger).with_facts([Guard::SamePeer]);
        progress.take_read(&cause);
        let record = &mut progress.record;
        if record.state.is_terminal() {
            return Arrived::Refused(RequestFault::Session);
        }
        // A credential that was paid under a session is never paid again under another.
        if record.session_id != request.participant_session_id {
            let may_change = match record.state {
                FlowState::AwaitingOr => true,
                FlowState::Validated => record.is_holder && record.credential.is_none(),
                _ => false,
            };
            if !may_change {
                return Arrived::Refused(RequestFault::Participant);
            }
            let has_room = record.previous_session_ids.len() < MAX_SESSIONS;
            if !self.facts.contains(&Guard::SessionFree) || !has_room {
                return Arrived::Refused(RequestFault::Session);
            }
            let before = std::mem::replace(&mut record.session_id, request.participant_session_id.clone());
            record.previous_session_ids.push(before);
            record.paid_before = 0;
        }
        if record.state == FlowState::CredRevoked {
            return Arrived::Refused(RequestFault::Participant);
        }
        // Claims that an operator has edited since outlive a repetition of the request, and so do those that a decision was made about.
        let is_repeated = record.thread_id == cause.thread;
        let is_undecided = matches!(
            record.state,
            FlowState::AwaitingOr
                | FlowState::AwaitingIr
                | FlowState::Validating
                | FlowState::OobPending
                | FlowState::ValidatedPendingClaims
        );
        if !is_repeated && is_undecided {
            // A renewal of a peer without claims proposes the claims of the round before.
            record.claims = request.claims.clone().or_else(|| record.claims.take());
            record.proofs.clone_from(&request.proofs);
        }
        if !is_repeated && is_onboarding && !is_undecided {
            let (claims, proofs) = (request.claims.clone(), request.proofs.clone());
            record.early_request = Some(EarlyRequest { claims, proofs, at: self.now });
        }
        record.connection_state = ConnectionState::Established;
        record.thread_id.clone_from(&cause.thread);
        record.updated_at = self.now;
        if !progress.take(&cause) && !progress.accept_request(self.now) {
            progress.send_again();
        }
        Arrived::Changed(Box::new(progress))
    }

    /// A message for people, which may be the cause of a step.
    fn hear(&self, mut progress: Progress, trigger: Trigger, text: Option<String>) -> Arrived {
        use FlowState as S;
        if progress.record.side != Side::Applicant {
            return Arrived::Ignored;
        }
        let (mut kind, mut link) = (KeptKind::Validating, None);
        if let Content::VtFlow(VtFlow::OobLink { url, description, expires_time }) = self.content {
            kind = KeptKind::OobLink;
            let expires_at = expires_time.map(|seconds| seconds.saturating_mul(1000));
            link = Some(OobLink { url: url.clone(), description: description.clone(), expires_at, at: self.now });
        }
        let url = link.as_ref().map(|link| link.url.clone()).filter(|url| url.len() <= MAX_KEPT_LINK);
        let kept = text.map(|text| KeptMessage { kind, text, at: self.now, url });
        let cause = Cause { kept: kept.clone(), oob_link: link, ..self.cause(trigger) };
        if progress.take(&cause) {
            return Arrived::Changed(Box::new(progress));
        }
        let stays = matches!(progress.record.state, S::Validated | S::CredOffered | S::Completed | S::CredRevoked);
        if kept.is_none() || !stays {
            return Arrived::Ignored;
        }
        progress.keep(kept, self.now);
        Arrived::Changed(Box::new(progress))
    }

    /// An offer waits for the judgement of the flow. One of the exchange at hand is a repetition; one of a format that is not taken has no
    /// content.
    fn hold_offer(&self, mut progress: Progress, attachments: &[FormatAttachment]) -> Arrived {
        let record = &mut progress.record;
        let may_come =
            rows_of(record.side, record.variant, Some(record.state), Trigger::OfferCredential).next().is_some();
        let thread = self.message.thread();
        let is_known = record.exchange.as_ref().is_some_and(|exchange| exchange.thread == thread)
            || record.held_offer.as_ref().is_some_and(|held| held.thread == thread);
        let is_of_flow = self.message.pthid.is_some() && self.message.pthid == record.thread_id;
        if !may_come || !is_of_flow || is_known {
            return Arrived::Ignored;
        }
        let (format, content) = match (offered_credential(attachments), attachments.first()) {
            (Some((format, credential)), _) => (format.offer_name().to_owned(), credential),
            (None, Some(first)) => (first.format.clone(), Value::Null),
            (None, None) => return Arrived::Ignored,
        };
        let thread = thread.to_owned();
        record.held_offer = Some(HeldOffer { thread, format, content, at: self.now });
        record.updated_at = self.now;
        Arrived::Changed(Box::new(progress))
    }

    fn is_in_exchange(&self, record: &FlowRecord, side: Side) -> bool {
        let is_named = record.exchange.as_ref().is_some_and(|exchange| exchange.thread == self.message.thread());
        record.side == side && record.state == FlowState::CredOffered && is_named
    }

    /// The applicant requests the credential; a second request changes nothing.
    fn note_request(&self, mut progress: Progress) -> Arrived {
        let is_named = self.is_in_exchange(&progress.record, Side::Validator);
        let exchange = progress.record.exchange.as_mut().filter(|exchange| is_named && !exchange.is_requested);
        let Some(exchange) = exchange else { return Arrived::Ignored };
        exchange.is_requested = true;
        progress.end_silence();
        progress.record.updated_at = self.now;
        Arrived::Changed(Box::new(progress))
    }

    /// A credential waits for its checks; a second one changes nothing.
    fn receive_credential(&self, mut progress: Progress) -> Arrived {
        let record = &mut progress.record;
        if !self.is_in_exchange(record, Side::Applicant) || record.received.is_some() {
            return Arrived::Ignored;
        }
        let (round, round_changed_at) = (record.round.number, record.round.changed_at);
        record.received = Some(FlowCredential {
            round,
            session_id: record.session_id.clone(),
            round_changed_at,
            paid_before: 0,
            validated_until: None,
            stage: CredentialStage::Received,
            id: None,
            digest: None,
            tx: None,
        });
        record.updated_at = self.now;
        Arrived::Changed(Box::new(progress))
    }

    fn note_report(&self, mut progress: Progress, report: &ProblemReport) -> Arrived {
        if progress.record.state.is_terminal() {
            return Arrived::Ignored;
        }
        let kept = KeptMessage { kind: KeptKind::ProblemReport, text: report.text.clone(), at: self.now, url: None };
        match report_meaning(report) {
            ReportMeaning::Retry => {
                if progress.record.side == Side::Applicant {
                    let (code, text) = (report.code.clone(), report.text.clone());
                    progress.record.refusal = Some(Notice { code, text, at: self.now });
                }
            }
            ReportMeaning::Trigger(trigger) => {
                let reason = Some(format!("{}: {}", report.code, report.text));
                if !progress.take(&Cause { reason, ..self.cause(trigger) }) {
                    return Arrived::Ignored;
                }
            }
        }
        progress.keep(Some(kept), self.now);
        Arrived::Changed(Box::new(progress))
    }
}
