//! A message of a peer about a flow: the flow that it belongs to, its next record, and the messages of its steps. Pure.

use svc_didcomm::{
    Message,
    flow::{
        Arrived, Cause, FlowArrival, FlowRecord, Guard, MessageParts, NewFlow, OnboardingState, Outgoing, Progress,
        RequestFault, Side, Trigger, Variant, begin, is_replaced, refusal_message, take,
    },
    protocol::{
        Content,
        credential_format::{CredentialFormat, issued_credential},
        issue_credential::{FormatAttachment, IssueCredential},
        vt_flow::{FlowRequest, VtFlow},
    },
};

use super::{ContentKind, FlowBefore, FlowContent, FlowWrite, HeardFacts, messages::make_messages, next_look};
use crate::decision::{Decision, First, Round, Second, Step};

/// The facts of a message that may be about a flow.
#[derive(Debug, Clone)]
pub struct HeardMessage {
    /// The message.
    pub message: Message,
    /// As its protocol reads it.
    pub content: Content,
    /// DID by which its sender is known.
    pub peer_did: String,
    /// Its connection.
    pub connection_id: String,
    /// The conditions that the node shows.
    pub heard: HeardFacts,
    /// Flows of one peer that may run.
    pub max_per_peer: u64,
    /// The trace of the present work.
    pub traceparent: Option<String>,
    /// Id of a flow that begins.
    pub flow_id: String,
    /// Makes the ids of messages and of an exchange.
    pub new_id: fn() -> String,
    /// Milliseconds since the epoch.
    pub now: i64,
}

/// A question for the flows that a message may be about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowQuery {
    /// The flow with a session that is, or was, its own.
    OfSession(String),
    /// The newest flow of each thread.
    OfThreads {
        /// DID of the peer.
        peer_did: String,
        /// Threads, of which the first with a flow counts.
        threads: Vec<String>,
    },
    /// The flows that an opening message under a fresh session stands beside.
    OfParticipant {
        /// The applicant's participant, whose flows of this validator are asked for, the newest first.
        participant_id: Option<u64>,
        /// DID of the peer, whose flows that have not ended are counted.
        peer_did: String,
    },
    /// The offer of a round.
    Offer {
        /// Id of the flow.
        flow_id: String,
        /// The round.
        round: u32,
    },
}

/// The rows that answer a question.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FlowRows {
    /// Flows, in the order of the question.
    pub flows: Vec<FlowRecord>,
    /// Flows of the peer that have not ended.
    pub live: u64,
    /// The offer.
    pub offer: Option<FlowContent>,
}

/// The end of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// It is about no flow.
    OtherMessage,
    /// No flow of the peer has its thread.
    UnknownThread,
    /// Nothing changes.
    Ignored,
    /// Flows change, in this order. The last one is the message's own.
    Changed(Vec<(FlowWrite, FlowBefore)>),
    /// The request does not fit; the answer.
    Refused(RequestFault, Box<Message>),
    /// Too many flows of the peer have not ended.
    PeerFull,
    /// The offer that is to be repeated is not in the store.
    OfferMissing,
}

impl Decision for HeardMessage {
    type Query = FlowQuery;
    type Rows = FlowRows;
    type Changes = Heard;
}

impl HeardMessage {
    /// Starts the decision.
    pub fn start(self) -> Step<Self, First> {
        let of_message = self.message.thread().to_owned();
        match &self.content {
            Content::VtFlow(VtFlow::OnboardingRequest { request, .. } | VtFlow::IssuanceRequest { request, .. }) => {
                let request = request.clone();
                let query = FlowQuery::OfSession(request.participant_session_id.clone());
                Step::load(query, move |rows| self.request_of_session(rows, request))
            }
            Content::VtFlow(_) => self.of_threads(vec![of_message], Heard::UnknownThread),
            Content::IssueCredential(_) | Content::ProblemReport(_) => {
                let threads = self.message.pthid.clone().into_iter().chain([of_message]).collect();
                self.of_threads(threads, Heard::OtherMessage)
            }
            _ => Step::Done(Heard::OtherMessage),
        }
    }

    fn of_threads(self, threads: Vec<String>, unknown: Heard) -> Step<Self, First> {
        let query = FlowQuery::OfThreads { peer_did: self.peer_did.clone(), threads };
        Step::load(query, move |rows: FlowRows| match rows.flows.first() {
            Some(record) => self.follow(record),
            None => Step::Done(unknown),
        })
    }

    /// A request: of a flow that is there, in the place of one, or of a new one.
    fn request_of_session(self, rows: FlowRows, request: FlowRequest) -> Step<Self, Second> {
        if let Some(record) = rows.flows.first() {
            return self.follow(record);
        }
        let participant_id = match &self.content {
            Content::VtFlow(VtFlow::OnboardingRequest { participant_id, .. }) => participant_id.parse().ok(),
            _ => None,
        };
        let query = FlowQuery::OfParticipant { participant_id, peer_did: self.peer_did.clone() };
        Step::load(query, move |rows: FlowRows| {
            if let Some(newest) = rows.flows.first()
                && let Arrived::Changed(progress) = self.take(newest)
            {
                return self.go_on(newest, *progress);
            }
            Step::Done(self.begin(rows, request, participant_id))
        })
    }

    fn take(&self, record: &FlowRecord) -> Arrived {
        let arrival = FlowArrival {
            message: &self.message,
            content: &self.content,
            peer_did: &self.peer_did,
            now: self.now,
            new_id: &(self.new_id)(),
            facts: self.heard.facts.clone(),
            read: self.heard.read,
        };
        take(record, &arrival)
    }

    /// A message of a flow that is there.
    fn follow<R: Round>(self, record: &FlowRecord) -> Step<Self, R> {
        match self.take(record) {
            Arrived::Ignored => Step::Done(Heard::Ignored),
            Arrived::Refused(fault) => Step::Done(self.refused(fault)),
            Arrived::Changed(progress) => self.go_on(record, *progress),
        }
    }

    /// The change of a flow that is there. An offer that is repeated is the stored one.
    fn go_on<R: Round>(self, loaded: &FlowRecord, mut progress: Progress) -> Step<Self, R> {
        progress.record.connection_id = Some(self.connection_id.clone());
        let before = FlowBefore::of(loaded);
        let contents = received(&progress.record, &self.content).filter(|_| loaded.received.is_none());
        let contents: Vec<FlowContent> = contents.into_iter().collect();
        if !progress.sends.contains(&Outgoing::OfferCredential) {
            return Step::Done(Heard::Changed(vec![(self.to_write(progress, contents, None), before)]));
        }
        let record = &progress.record;
        // A cancelled renewal brings back the credential of before, and not the number of its round.
        let round = record.credential.as_ref().map_or(record.round.number, |one| one.round);
        Step::load(FlowQuery::Offer { flow_id: record.id.clone(), round }, move |rows: FlowRows| {
            R::end::<Self>(match rows.offer {
                Some(offer) => Heard::Changed(vec![(self.to_write(progress, contents, Some(&offer)), before)]),
                None => Heard::OfferMissing,
            })
        })
    }

    /// The flow of a request under a fresh session, and the end of the one whose place it takes.
    fn begin(&self, rows: FlowRows, request: FlowRequest, participant_id: Option<u64>) -> Heard {
        let FlowRows { flows, mut live, .. } = rows;
        let mut begun = match self.begin_validation(request, participant_id, &flows) {
            Ok(begun) => begun,
            Err(fault) => return self.refused(fault),
        };
        let mut changes = Vec::new();
        if let Some(ending) = flows.into_iter().next().filter(is_replaced) {
            let before = FlowBefore::of(&ending);
            let mut progress = Progress::of(ending);
            // A renewal without claims proposes the claims of the round before.
            begun.record.claims = begun.record.claims.take().or_else(|| progress.record.claims.take());
            progress.take(&Cause::new(Trigger::FlowReplaced, self.now));
            // A peer that begins again and again must not fill the store.
            (progress.record.claims, progress.record.proofs) = (None, None);
            let has_room = progress.record.state.is_terminal() && progress.record.peer_did == self.peer_did;
            live = live.saturating_sub(u64::from(has_room));
            changes.push((self.to_write(progress, Vec::new(), None), before));
        }
        if live >= self.max_per_peer {
            return Heard::PeerFull;
        }
        changes.push((self.to_write(begun, Vec::new(), None), FlowBefore::New { live }));
        Heard::Changed(changes)
    }

    /// The flow that a request under a fresh session begins.
    fn begin_validation(
        &self,
        request: FlowRequest,
        participant_id: Option<u64>,
        of_participant: &[FlowRecord],
    ) -> Result<Progress, RequestFault> {
        let HeardFacts { facts, read, requested } = &self.heard;
        let is_onboarding = matches!(self.content, Content::VtFlow(VtFlow::OnboardingRequest { .. }));
        let missing = if is_onboarding { RequestFault::Participant } else { RequestFault::Schema };
        let requested = requested.ok_or(missing)?;
        if !facts.contains(&Guard::SessionFree) {
            return Err(RequestFault::Session);
        }
        let mut facts = facts.clone();
        // One that is validated and has its credential has nothing to ask for.
        let is_validated = read.is_some_and(|read| read.state == OnboardingState::Validated);
        if is_validated && of_participant.iter().any(FlowRecord::has_held_credential) {
            facts.remove(&Guard::RequestFits);
        }
        let (variant, trigger) = match is_onboarding {
            true => (Variant::Onboarding, Trigger::OnboardingRequest),
            false => (Variant::Direct, Trigger::IssuanceRequest),
        };
        let cause = Cause {
            thread: Some(self.message.thread().to_owned()),
            peer_did: Some(self.peer_did.clone()),
            read: *read,
            facts,
            ..Cause::new(trigger, self.now)
        };
        let new = NewFlow {
            id: self.flow_id.clone(),
            side: Side::Validator,
            variant,
            peer_did: self.peer_did.clone(),
            connection_id: Some(self.connection_id.clone()),
            schema_id: requested.schema_id,
            applicant_participant_id: participant_id,
            validator_participant_id: Some(requested.validator_participant_id),
            is_holder: requested.is_holder,
            session_id: request.participant_session_id,
            claims: request.claims,
            proofs: request.proofs,
        };
        begin(new, &cause).map_err(RequestFault::of)
    }

    fn refused(&self, fault: RequestFault) -> Heard {
        let text = match fault {
            RequestFault::Participant => {
                "the participant is not the sender's under this validator, or waits for no request"
            }
            RequestFault::Schema => "this agent issues no credentials of the schema without an onboarding",
            RequestFault::Session => "the session is another's, or has ended",
            RequestFault::Peer => "the registry does not show the sender as a verifiable service",
        };
        Heard::Refused(fault, Box::new(refusal_message(fault, self.message.thread(), &(self.new_id)(), text)))
    }

    /// A change with the messages of its steps.
    fn to_write(&self, progress: Progress, contents: Vec<FlowContent>, offer: Option<&FlowContent>) -> FlowWrite {
        let messages = make_messages(None, &progress, self.new_id, |outgoing, id| {
            let offer = offer.filter(|_| outgoing == Outgoing::OfferCredential);
            MessageParts { attachment: offer.and_then(|one| offer_of(id, one)), ..MessageParts::default() }
        });
        let due_at = next_look(&progress, self.now);
        FlowWrite { progress, messages, due_at, contents }.in_trace(self.traceparent.clone())
    }
}

/// The credential that has come with a message.
fn received(record: &FlowRecord, content: &Content) -> Option<FlowContent> {
    let Content::IssueCredential(IssueCredential::Issue(attachments)) = content else { return None };
    let round = record.received.as_ref()?.round;
    // One of another format is refused by its checks.
    let (format, body) = match issued_credential(attachments) {
        Some((format, credential)) => (format.credential_name().to_owned(), credential.to_string()),
        None => (attachments.first()?.format.clone(), String::new()),
    };
    Some(FlowContent { kind: ContentKind::Received, round, format, body })
}

/// A stored offer as an attachment.
fn offer_of(id: &str, offered: &FlowContent) -> Option<FormatAttachment> {
    let credential = serde_json::from_str(&offered.body).ok()?;
    Some(CredentialFormat::of_offer(&offered.format)?.offer(id, &credential))
}

#[cfg(test)]
mod tests;
