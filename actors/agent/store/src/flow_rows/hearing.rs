//! A message of a peer about a flow: the record behind it is stored in the transaction of the message.

use sqlx::AnyConnection;
use svc_agent_core::{
    flows::{RequestedFlow, messages_of, next_look},
    peers::PeerLimits,
};
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
use uuid::Uuid;

use super::{
    contents::{self, ContentKind, FlowContent},
    records,
    writes::{FlowWrite, FlowWriteError, WrittenFlow, write_beginning, write_flow},
};
use crate::{error::AgentStoreError, sealing::ContentKey};

/// A message that may be about a flow.
pub struct HeardMessage<'a> {
    /// The message, with the conditions that the node shows.
    pub arrival: FlowArrival<'a>,
    /// Its connection.
    pub connection_id: &'a str,
    /// The participants of a request that fits; none for other messages, and for a request that does not.
    pub requested: Option<RequestedFlow>,
    /// Flows of one peer that may run.
    pub max_per_peer: u64,
}

/// The end of such a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// It is about no flow.
    OtherMessage,
    /// No flow of the peer has its thread.
    UnknownThread,
    /// Nothing changes.
    Ignored,
    /// The flows that have changed, the first of which is the message's own.
    Changed(Vec<WrittenFlow>),
    /// The request does not fit; the answer.
    Refused(RequestFault, Box<Message>),
}

/// Takes a message.
pub async fn hear(
    connection: &mut AnyConnection,
    key: &ContentKey,
    heard: HeardMessage<'_>,
    limits: &PeerLimits,
) -> Result<Heard, FlowWriteError> {
    let (message, peer_did) = (heard.arrival.message, heard.arrival.peer_did);
    match heard.arrival.content {
        Content::VtFlow(VtFlow::OnboardingRequest { request, .. } | VtFlow::IssuanceRequest { request, .. }) => {
            hear_request(connection, key, &heard, request, limits).await
        }
        Content::VtFlow(_) => match records::of_thread(connection, peer_did, message.thread()).await? {
            Some(record) => follow(connection, key, &heard, record, limits).await,
            None => Ok(Heard::UnknownThread),
        },
        Content::IssueCredential(_) | Content::ProblemReport(_) => {
            for thread in [message.pthid.as_deref(), Some(message.thread())].into_iter().flatten() {
                if let Some(record) = records::of_thread(connection, peer_did, thread).await? {
                    return follow(connection, key, &heard, record, limits).await;
                }
            }
            Ok(Heard::OtherMessage)
        }
        _ => Ok(Heard::OtherMessage),
    }
}

/// A message of a flow that is there.
async fn follow(
    connection: &mut AnyConnection,
    key: &ContentKey,
    heard: &HeardMessage<'_>,
    record: FlowRecord,
    limits: &PeerLimits,
) -> Result<Heard, FlowWriteError> {
    match take(&record, &heard.arrival) {
        Arrived::Ignored => Ok(Heard::Ignored),
        Arrived::Refused(fault) => Ok(refused(fault, heard.arrival.message)),
        Arrived::Changed(progress) => {
            let (mut progress, thread) = (*progress, record.thread_id.as_deref());
            progress.record.connection_id = Some(heard.connection_id.to_owned());
            let had_credential = record.received.is_some();
            let contents = received(&progress.record, heard.arrival.content).filter(|_| !had_credential);
            let write = to_write(connection, key, progress, contents.into_iter().collect(), heard.arrival.now).await?;
            Ok(Heard::Changed(vec![write_flow(connection, key, &write, thread, limits).await?]))
        }
    }
}

/// A request: of a flow that is there, in the place of one, or of a new one.
async fn hear_request(
    connection: &mut AnyConnection,
    key: &ContentKey,
    heard: &HeardMessage<'_>,
    request: &FlowRequest,
    limits: &PeerLimits,
) -> Result<Heard, FlowWriteError> {
    let arrival = &heard.arrival;
    if let Some(record) = records::of_session(connection, &request.participant_session_id).await? {
        return follow(connection, key, heard, record, limits).await;
    }
    let participant_id = match arrival.content {
        Content::VtFlow(VtFlow::OnboardingRequest { participant_id, .. }) => participant_id.parse().ok(),
        _ => None,
    };
    let of_participant = match participant_id {
        Some(id) => records::of_applicant(connection, Side::Validator, id).await?,
        None => Vec::new(),
    };
    if let Some(newest) = of_participant.first()
        && let Arrived::Changed(_) = take(newest, arrival)
    {
        return follow(connection, key, heard, newest.clone(), limits).await;
    }
    let mut begun = match begin_validation(heard, request, participant_id, &of_participant) {
        Ok(begun) => begun,
        Err(fault) => return Ok(refused(fault, arrival.message)),
    };
    let mut replaced = None;
    if let Some(ending) = of_participant.into_iter().next().filter(is_replaced) {
        let mut progress = Progress::of(ending);
        // A renewal without claims proposes the claims of the round before.
        begun.record.claims = begun.record.claims.take().or_else(|| progress.record.claims.take());
        progress.take(&Cause::new(Trigger::FlowReplaced, arrival.now));
        // A peer that begins again and again must not fill the store.
        (progress.record.claims, progress.record.proofs) = (None, None);
        replaced = Some(to_write(connection, key, progress, Vec::new(), arrival.now).await?);
    }
    let begun = to_write(connection, key, begun, Vec::new(), arrival.now).await?;
    let written = write_beginning(connection, key, (&begun, replaced.as_ref()), heard.max_per_peer, limits).await?;
    Ok(Heard::Changed([Some(written.begun), written.replaced].into_iter().flatten().collect()))
}

/// The flow that a request under a fresh session begins.
fn begin_validation(
    heard: &HeardMessage<'_>,
    request: &FlowRequest,
    participant_id: Option<u64>,
    of_participant: &[FlowRecord],
) -> Result<Progress, RequestFault> {
    let arrival = &heard.arrival;
    let is_onboarding = matches!(arrival.content, Content::VtFlow(VtFlow::OnboardingRequest { .. }));
    let missing = if is_onboarding { RequestFault::Participant } else { RequestFault::Schema };
    let requested = heard.requested.ok_or(missing)?;
    if !arrival.facts.contains(&Guard::SessionFree) {
        return Err(RequestFault::Session);
    }
    let mut facts = arrival.facts.clone();
    // One that is validated and has its credential has nothing to ask for.
    let is_validated = arrival.read.is_some_and(|read| read.state == OnboardingState::Validated);
    if is_validated && of_participant.iter().any(FlowRecord::has_held_credential) {
        facts.remove(&Guard::RequestFits);
    }
    let (variant, trigger) = match is_onboarding {
        true => (Variant::Onboarding, Trigger::OnboardingRequest),
        false => (Variant::Direct, Trigger::IssuanceRequest),
    };
    let cause = Cause {
        thread: Some(arrival.message.thread().to_owned()),
        peer_did: Some(arrival.peer_did.to_owned()),
        read: arrival.read,
        facts,
        ..Cause::new(trigger, arrival.now)
    };
    let new = NewFlow {
        id: Uuid::now_v7().to_string(),
        side: Side::Validator,
        variant,
        peer_did: arrival.peer_did.to_owned(),
        connection_id: Some(heard.connection_id.to_owned()),
        schema_id: requested.schema_id,
        applicant_participant_id: participant_id,
        validator_participant_id: Some(requested.validator_participant_id),
        is_holder: requested.is_holder,
        session_id: request.participant_session_id.clone(),
        claims: request.claims.clone(),
        proofs: request.proofs.clone(),
    };
    begin(new, &cause).map_err(RequestFault::of)
}

fn refused(fault: RequestFault, message: &Message) -> Heard {
    let text = match fault {
        RequestFault::Participant => {
            "the participant is not the sender's under this validator, or waits for no request"
        }
        RequestFault::Schema => "this agent issues no credentials of the schema without an onboarding",
        RequestFault::Session => "the session is another's, or has ended",
        RequestFault::Peer => "the registry does not show the sender as a verifiable service",
    };
    Heard::Refused(fault, Box::new(refusal_message(fault, message.thread(), &Uuid::new_v4().to_string(), text)))
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

/// A change with the messages of its steps. An offer that is repeated is the stored one.
async fn to_write(
    connection: &mut AnyConnection,
    key: &ContentKey,
    progress: Progress,
    contents: Vec<FlowContent>,
    now: i64,
) -> Result<FlowWrite, AgentStoreError> {
    let record = &progress.record;
    let mut offered = None;
    if progress.sends.contains(&Outgoing::OfferCredential) {
        // A cancelled renewal brings back the credential of before, and not the number of its round.
        let round = record.credential.as_ref().map_or(record.round.number, |one| one.round);
        offered = contents::read(connection, key, &record.id, ContentKind::Offered, round).await?;
        if offered.is_none() {
            return Err(AgentStoreError::CorruptRow("the offer of a flow".to_owned()));
        }
    }
    let messages = messages_of(None, &progress, |outgoing, id| {
        let offered = offered.as_ref().filter(|_| outgoing == Outgoing::OfferCredential);
        MessageParts { attachment: offered.and_then(|one| offer_of(id, one)), ..MessageParts::default() }
    });
    let due_at = next_look(&progress, now);
    Ok(FlowWrite { progress, messages, due_at, contents }.in_trace())
}

/// A stored offer as an attachment.
fn offer_of(id: &str, offered: &FlowContent) -> Option<FormatAttachment> {
    let credential = serde_json::from_str(&offered.body).ok()?;
    Some(CredentialFormat::of_offer(&offered.format)?.offer(id, &credential))
}
