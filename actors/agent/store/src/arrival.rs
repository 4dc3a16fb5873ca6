//! A message of a peer: everything that it changes, in one transaction.

use sqlx::AnyConnection;
use svc_agent_core::{
    access::AccessOutcome,
    flows::HeardFacts,
    peers::{ConnectionRole, OwnPeerDid, PeerEvent, PeerLimits, Reaction, StoredConnection, Verdict, react},
};
use svc_didcomm::{
    Message, Refusal,
    connection::{Arrival, Connection, Placement, end, place},
    delivery::is_answer,
    flow::{FlowArrival, unknown_flow_message},
    from_prior::FromPrior,
    peer_did::comparable,
    protocol::{Content, ContentError},
};
use svc_store::StatementBatch;
use uuid::Uuid;

use super::{
    access_rows::{AccessPart, answer_request, insert_grant},
    agent_store::AgentStore,
    error::{AgentStoreError, WriteFailure},
    flow_rows::{FlowWriteError, Heard, HeardMessage, WrittenFlow, hear},
    outbox::queue_peer_events,
    peer_rows::{
        connections::{ask_connections, connections_with, insert_connection, merge_connections, update_connection},
        exchanges::{exchange_of_thread, make_room, put_exchange},
        outbound::{has_queued, parse_answer, queue_message, settle_thread},
        records::{forget_oldest, insert_record},
        seen::{SeenBefore, ask_seen, note_answer, note_seen, read_seen},
        types::read_connection,
    },
    sealing::ContentKey,
};

/// A message whose sender and recipient are proven.
pub struct ArrivedMessage<'a> {
    /// The message.
    pub message: &'a Message,
    /// As its protocol reads it.
    pub content: &'a Result<Content, ContentError>,
    /// DID of the sender.
    pub sender: &'a str,
    /// Our DID that it was encrypted for.
    pub recipient: &'a str,
    /// The invitation of that DID.
    pub invitation: Option<&'a OwnPeerDid>,
    /// Its `from_prior`, whose signature was verified.
    pub prior: Option<&'a FromPrior>,
    /// The decision about the peer.
    pub verdict: Option<Verdict>,
    /// The part of flows.
    pub flows: FlowPart<'a>,
    /// The part of access, in a request for it.
    pub access: Option<&'a AccessPart>,
    /// Milliseconds since the epoch.
    pub now: i64,
}

/// The part of flows in a message.
pub struct FlowPart<'a> {
    /// The key of their credentials.
    pub key: &'a ContentKey,
    /// The conditions that the node shows.
    pub heard: HeardFacts,
    /// Flows of one peer that may run.
    pub max_per_peer: u64,
    /// Whether a message about no flow is answered.
    pub answers_unknown: bool,
}

/// The end of a message that has arrived.
#[derive(Debug, Clone, PartialEq)]
pub enum TakenMessage {
    /// It was handled.
    New {
        /// Its connection.
        connection_id: String,
        /// Whether a message for the peer was queued.
        has_answer: bool,
        /// Whether an event was queued.
        has_event: bool,
        /// Whether a record was stored.
        has_record: bool,
        /// Flows that have changed.
        flows: Vec<WrittenFlow>,
        /// The decision about a request for access.
        access: Option<AccessOutcome>,
    },
    /// It was handled before.
    Repeated {
        /// Its connection.
        connection_id: String,
        /// Whether the answer of then was queued once more.
        has_answer: bool,
    },
    /// The memory against repetition is full, and this sender has filled most of it.
    MemoryFull,
    /// Too many flows of the peer have not ended, or too many messages wait for it.
    FlowsFull,
}

/// Why nothing of a message is stored.
#[derive(Debug, thiserror::Error)]
pub enum ArrivalError {
    /// It fails a check.
    #[error("the message is refused: {0}")]
    Refused(Refusal),
    /// The store failed.
    #[error(transparent)]
    Store(AgentStoreError),
}

impl<E: Into<AgentStoreError>> From<E> for ArrivalError {
    fn from(error: E) -> Self {
        Self::Store(error.into())
    }
}

impl WriteFailure for ArrivalError {
    fn is_of_store(&self) -> bool {
        matches!(self, Self::Store(_))
    }
}

/// The consequences of a message about a flow.
#[derive(Default)]
struct FlowReaction {
    answer: Option<Message>,
    has_message: bool,
    has_event: bool,
    changed: Vec<WrittenFlow>,
}

/// The consequences of a message that is about a flow; none of another one.
fn flow_reaction(heard: Heard, message: &Message, answers_unknown: bool) -> Option<FlowReaction> {
    let answered = |answer: Option<Message>| FlowReaction { answer, ..FlowReaction::default() };
    match heard {
        Heard::OtherMessage => None,
        Heard::Ignored => Some(FlowReaction::default()),
        Heard::UnknownThread => {
            Some(answered(answers_unknown.then(|| unknown_flow_message(message.thread(), &Uuid::new_v4().to_string()))))
        }
        Heard::Refused(_, answer) => Some(answered(Some(*answer))),
        Heard::Changed(written) => Some(FlowReaction {
            answer: None,
            has_message: written.iter().any(|one| one.has_message),
            has_event: written.iter().any(|one| one.has_event),
            changed: written,
        }),
    }
}

async fn hear_flow(
    connection: &mut AnyConnection,
    content: &Content,
    arrived: &ArrivedMessage<'_>,
    peer: &Connection,
    limits: &PeerLimits,
) -> Result<Heard, FlowWriteError> {
    let FlowPart { key, heard, max_per_peer, .. } = &arrived.flows;
    let new_id = Uuid::new_v4().to_string();
    let arrival = FlowArrival {
        message: arrived.message,
        content,
        peer_did: &peer.public_did,
        now: arrived.now,
        new_id: &new_id,
        facts: heard.facts.clone(),
        read: heard.read,
    };
    let (requested, max_per_peer) = (heard.requested, *max_per_peer);
    hear(connection, key, HeardMessage { arrival, connection_id: &peer.id, requested, max_per_peer }, limits).await
}

impl AgentStore {
    /// Stores a message with everything that follows from it.
    pub async fn take_message(
        &self,
        arrived: &ArrivedMessage<'_>,
        limits: &PeerLimits,
    ) -> Result<TakenMessage, ArrivalError> {
        let ArrivedMessage { message, sender, recipient, prior, now, .. } = *arrived;
        let seconds = now / 1000;
        let dids: Vec<&str> = [Some(sender), prior.map(|prior| prior.issuer.as_str())].into_iter().flatten().collect();
        let key = (comparable(sender), message.id.as_str());
        let mut batch = StatementBatch::default();
        ask_connections(&mut batch, &dids);
        ask_seen(&mut batch, key, limits.replay_max);
        let (mut transaction, rows) = self.begin_with(&mut batch).await?;
        let [connections, seen] = rows.as_slice() else {
            return Err(AgentStoreError::CorruptRow("the answers to two questions".to_owned()).into());
        };
        let stored = connections.iter().map(read_connection).collect::<Result<Vec<_>, _>>()?;
        let known: Vec<Connection> = stored.iter().map(|one| one.connection.clone()).collect();
        let placement = place(&known, Arrival { sender, recipient, prior, now: seconds });
        let placement = placement.map_err(ArrivalError::Refused)?;
        match read_seen(seen, key.0)? {
            SeenBefore::No => note_seen(&mut batch, key, seconds),
            SeenBefore::Full => return Ok(TakenMessage::MemoryFull),
            SeenBefore::Yes { answer } => {
                let connection_id = match placement {
                    Placement::Known(connection) | Placement::Merged { kept: connection, .. } => connection.id,
                    // The connection was deleted since.
                    Placement::New { .. } => return Ok(repeated(String::new(), false)),
                };
                let Some(answer) = answer.and_then(|text| parse_answer(&text)) else {
                    return Ok(repeated(connection_id, false));
                };
                if has_queued(&mut transaction, &connection_id, &answer.id).await? {
                    return Ok(repeated(connection_id, false));
                }
                let queued = queue_message(&mut transaction, &connection_id, &answer, seconds, limits).await?;
                transaction.commit().await?;
                return Ok(repeated(connection_id, queued.is_queued()));
            }
        }
        if let (Some(invitation), Placement::New { their_did, previous }) = (arrived.invitation, &placement) {
            // An invitation is for one peer.
            let sql = "UPDATE own_peer_did SET used_by = $2 WHERE did = $1 AND used_by IS NULL";
            let peer = previous.as_ref().unwrap_or(their_did);
            let query = sqlx::query(sql).bind(invitation.short.clone()).bind(comparable(peer).to_owned());
            if query.execute(&mut *transaction).await?.rows_affected() == 0 {
                return Err(ArrivalError::Refused(Refusal::RecipientKey));
            }
        }
        let mut events = Vec::new();
        let record_limit =
            matches!(arrived.content, Ok(Content::BasicMessage(_))).then_some(limits.records_per_connection);
        let connection = write_placement(&mut batch, placement, &stored, arrived, record_limit, &mut events)?;
        let connection_id = connection.connection.id.clone();
        if message.thread() != message.id {
            settle_thread(&mut batch, &connection_id, message.thread(), seconds);
        }
        let is_about_flow =
            matches!(arrived.content, Ok(Content::VtFlow(_) | Content::IssueCredential(_) | Content::ProblemReport(_)));
        if is_about_flow {
            batch.run(&mut transaction).await?;
        }
        let heard = match arrived.content {
            Ok(content) if is_about_flow => {
                match hear_flow(&mut transaction, content, arrived, &connection.connection, limits).await {
                    Ok(heard) => heard,
                    Err(FlowWriteError::Refused(_)) => return Ok(TakenMessage::FlowsFull),
                    Err(FlowWriteError::Store(error)) => return Err(error.into()),
                }
            }
            _ => Heard::OtherMessage,
        };
        let is_of_flow = heard != Heard::OtherMessage;
        let known = match arrived.content {
            Ok(Content::IssueCredential(_) | Content::ProblemReport(_)) if !is_of_flow => {
                exchange_of_thread(&mut transaction, &connection_id, message.thread()).await?
            }
            _ => None,
        };
        let is_new = known.is_none();
        let of_flow = flow_reaction(heard, message, arrived.flows.answers_unknown);
        let Reaction { record, mut exchange, answer } = match &of_flow {
            Some(of_flow) => Reaction { answer: of_flow.answer.clone(), ..Reaction::default() },
            None => react(message, arrived.content, &connection_id, known, now),
        };
        let (mut access, mut answer, mut granted) = (None, answer, None);
        if let Some(part) = arrived.access {
            batch.run(&mut transaction).await?;
            let peer = (connection.connection.public_did.as_str(), connection_id.as_str(), message.id.as_str());
            let answered = answer_request(&mut transaction, part, peer, seconds).await?;
            (answer, access, granted) = (Some(answered.message), Some(answered.outcome), answered.grant);
        }
        if is_new && exchange.is_some() && !make_room(&mut transaction, &connection_id).await? {
            exchange = None;
        }
        if let Some(record) = &record {
            insert_record(&mut batch, record, "1 = 1");
            events.push(PeerEvent::basic_message(record));
        }
        if let Some(exchange) = &exchange {
            put_exchange(&mut batch, exchange);
            events.push(PeerEvent::exchange(exchange));
        }
        let mut has_answer = false;
        if let Some(answer) = &answer {
            batch.run(&mut transaction).await?;
            has_answer = queue_message(&mut transaction, &connection_id, answer, seconds, limits).await?.is_queued();
            if is_answer(&answer.kind) {
                note_answer(&mut batch, key, answer.to_json().to_string());
            }
        }
        // A grant whose message has no room is none.
        if let Some(grant) = granted.filter(|_| has_answer) {
            insert_grant(&mut batch, &grant);
            events.push(PeerEvent::access_grant(&grant, seconds));
        }
        let has_own_event = limits.max_events.is_some() && !events.is_empty();
        if has_own_event {
            queue_peer_events(&mut transaction, &events, seconds, limits.max_events).await?;
        }
        transaction.commit_with(&mut batch).await?;
        let of_flow = of_flow.unwrap_or_default();
        Ok(TakenMessage::New {
            connection_id,
            has_answer: has_answer || of_flow.has_message,
            has_event: has_own_event || of_flow.has_event,
            has_record: record.is_some(),
            flows: of_flow.changed,
            access,
        })
    }

    /// Ends the connection whose peer gives up its DID. Returns whether an event was queued.
    pub async fn end_connection(
        &self,
        recipient: &str,
        prior: &FromPrior,
        now: i64,
        limits: &PeerLimits,
    ) -> Result<bool, ArrivalError> {
        let mut transaction = self.begin().await?;
        let stored = connections_with(&mut transaction, &[&prior.issuer]).await?;
        let known: Vec<Connection> = stored.iter().map(|one| one.connection.clone()).collect();
        let ended = end(&known, recipient, prior, now / 1000).map_err(ArrivalError::Refused)?;
        let before = stored.into_iter().find(|one| one.connection.id == ended.id);
        let Some(before) = before.filter(|before| !before.connection.has_ended) else { return Ok(false) };
        let mut batch = StatementBatch::default();
        update_connection(&mut batch, &ended, None, now, true, None);
        batch.run(&mut transaction).await?;
        let after = StoredConnection { connection: ended, updated_at: now, last_seen_at: Some(now), ..before };
        queue_peer_events(&mut transaction, &[PeerEvent::connection(&after)], now / 1000, limits.max_events).await?;
        transaction.commit().await?;
        Ok(limits.max_events.is_some())
    }
}

fn repeated(connection_id: String, has_answer: bool) -> TakenMessage {
    TakenMessage::Repeated { connection_id, has_answer }
}

/// Writes the connection of a message; returns it. With a limit, the message is a record, for which there is room then.
fn write_placement(
    batch: &mut StatementBatch,
    placement: Placement,
    stored: &[StoredConnection],
    arrived: &ArrivedMessage<'_>,
    record_limit: Option<u64>,
    events: &mut Vec<PeerEvent>,
) -> Result<StoredConnection, AgentStoreError> {
    let (now, verdict) = (arrived.now, arrived.verdict);
    let before = |id: &str| stored.iter().find(|one| one.connection.id == id).cloned();
    let corrupt = || AgentStoreError::CorruptRow("a connection that was just read".to_owned());
    let (connection, is_changed) = match placement {
        Placement::New { their_did, previous } => {
            let own = arrived.invitation.map_or(arrived.recipient, |invitation| &invitation.long);
            let mut connection = Connection::begin(&Uuid::new_v4().to_string(), own, &their_did);
            if let Some(previous) = previous {
                connection.public_did.clone_from(&previous);
                connection.previous.push(previous);
            }
            let added = StoredConnection {
                connection,
                role: ConnectionRole::Responder,
                thread_id: Some(arrived.message.thread().to_owned()),
                out_of_band_id: arrived.invitation.map(|invitation| invitation.out_of_band_id.clone()),
                parent_id: arrived.invitation.map(|invitation| invitation.parent_id.clone()),
                verdict,
                last_seen_at: Some(now),
                waiting: 0,
                unanswered: 0,
                created_at: now,
                updated_at: now,
            };
            insert_connection(batch, &added, i64::from(record_limit.is_some()));
            events.push(PeerEvent::connection(&added));
            return Ok(added);
        }
        Placement::Known(connection) => {
            let is_changed = before(&connection.id).is_none_or(|before| before.connection != connection);
            (connection, is_changed)
        }
        Placement::Merged { kept, dropped } => {
            merge_connections(batch, &kept.id, &dropped, now / 1000);
            (kept, true)
        }
    };
    if let Some(max) = record_limit {
        forget_oldest(batch, &connection.id, max, "1 = 1");
    }
    update_connection(batch, &connection, verdict, now, is_changed, record_limit);
    let before = before(&connection.id).ok_or_else(corrupt)?;
    let updated_at = if is_changed { now } else { before.updated_at };
    let verdict = verdict.or(before.verdict);
    let after = StoredConnection { connection, verdict, last_seen_at: Some(now), updated_at, ..before };
    if is_changed {
        events.push(PeerEvent::connection(&after));
    }
    Ok(after)
}
