//! A message of a peer: everything that it changes, in one transaction.

mod access_answer;
mod connection_end;
#[cfg(test)]
mod tests;
mod values;

use sqlx::any::AnyRow;
use svc_agent_core::{
    access::AccessOutcome,
    flows::{Heard, HeardMessage},
    peers::{
        AccessAnswer, AccessDecision, Changes, ConnectionRole, PeerEvent, PeerLimits, Reaction, RowChange,
        StoredConnection, StoredExchange, react,
    },
};
use svc_didcomm::{
    Message, Refusal,
    connection::{Arrival, Connection, Placement, place},
    delivery::is_answer,
    flow::unknown_flow_message,
    peer_did::comparable,
    protocol::Content,
};
use svc_otel::trace;
use svc_store::{GroupTransaction, StatementBatch};
use tracing::Span;
use uuid::Uuid;

pub use self::values::{ArrivalError, ArrivedMessage, FlowPart, TakenMessage};
use super::{
    agent_store::AgentStore,
    decision::{decide_in, write_rows},
    error::AgentStoreError,
    flow_rows::{FlowRefusal, FlowWriteError, WrittenFlow, write_flows},
    outbox::queue_peer_events,
    peer_rows::{
        connections::{ask_connections, insert_connection, merge_connections, update_connection},
        exchanges::{exchange_of_thread, make_room, put_exchange},
        outbound::{has_queued, parse_answer, queue_message, settle_thread},
        records::{forget_oldest, insert_record},
        seen::{SeenBefore, ask_seen, note_answer, note_seen, read_seen},
        types::read_connection,
    },
};

/// The consequences of a message about a flow.
#[derive(Default)]
struct FlowReaction {
    answer: Option<Message>,
    changed: Vec<WrittenFlow>,
}

/// The answer to a message, and the changes that go with it.
#[derive(Default)]
struct Answer {
    message: Option<Message>,
    access: Option<AccessOutcome>,
    rows: Vec<RowChange>,
    events: Vec<PeerEvent>,
}

impl AgentStore {
    /// Stores a message with everything that follows from it. Nothing of a message is stored that fails, or finds no room: its
    /// transaction is dropped.
    pub async fn take_message(
        &self,
        arrived: &ArrivedMessage<'_>,
        limits: &PeerLimits,
    ) -> Result<TakenMessage, ArrivalError> {
        let (mut write, rows) = ArrivalWrite::begin(self, arrived, limits).await?;
        let [connections, seen] = rows.as_slice() else {
            return Err(AgentStoreError::CorruptRow("the answers to two questions".to_owned()).into());
        };
        let stored = connections.iter().map(read_connection).collect::<Result<Vec<_>, _>>()?;
        let placement = write.place(&stored)?;
        match read_seen(seen, write.key.0)? {
            SeenBefore::No => note_seen(&mut write.batch, write.key, write.seconds),
            SeenBefore::Full => return Ok(TakenMessage::MemoryFull),
            SeenBefore::Yes { answer } => return write.repeat_answer(placement, answer).await,
        }
        write.use_invitation(&placement).await?;
        let connection = write.write_connection(placement, &stored)?;
        let of_flow = match write.hear_flow(&connection).await {
            Ok(of_flow) => of_flow,
            Err(FlowWriteError::Refused(_)) => return Ok(TakenMessage::FlowsFull),
            Err(FlowWriteError::Store(error)) => return Err(error.into()),
        };
        let (reaction, is_new_exchange) = write.react(of_flow.as_ref(), &connection).await?;
        let answer = write.answer_access(&connection, reaction.answer).await?;
        let exchange = write.with_room(reaction.exchange, is_new_exchange, &connection).await?;
        let has_record = reaction.record.is_some();
        write.write_records(&Reaction { exchange, answer: None, ..reaction });
        let has_answer = write.queue_answer(&connection, &answer).await?;
        let access = answer.access;
        let has_own_event = write.finish(has_answer.then_some(answer)).await?;
        let of_flow = of_flow.unwrap_or_default();
        Ok(TakenMessage::New {
            connection_id: connection.connection.id,
            has_answer: has_answer || of_flow.changed.iter().any(|one| one.has_message),
            has_event: has_own_event || of_flow.changed.iter().any(|one| one.has_event),
            has_record,
            flows: of_flow.changed,
            access,
        })
    }
}

/// The transaction of a message: the statements that gather between two reads, and its events, which are queued at its end.
struct ArrivalWrite<'a> {
    arrived: &'a ArrivedMessage<'a>,
    limits: &'a PeerLimits,
    /// Sender and id of the message, as the memory against repetition has them.
    key: (&'a str, &'a str),
    /// Its time, in seconds since the epoch.
    seconds: i64,
    transaction: GroupTransaction,
    batch: StatementBatch,
    events: Vec<PeerEvent>,
}

impl<'a> ArrivalWrite<'a> {
    /// Begins with two questions: the connections of the peer, and whether the message was seen before.
    async fn begin(
        store: &AgentStore,
        arrived: &'a ArrivedMessage<'a>,
        limits: &'a PeerLimits,
    ) -> Result<(Self, Vec<Vec<AnyRow>>), AgentStoreError> {
        let ArrivedMessage { message, sender, prior, now, .. } = *arrived;
        let dids: Vec<&str> = [Some(sender), prior.map(|prior| prior.issuer.as_str())].into_iter().flatten().collect();
        let key = (comparable(sender), message.id.as_str());
        let mut batch = StatementBatch::default();
        ask_connections(&mut batch, &dids);
        ask_seen(&mut batch, key, limits.replay_max);
        let (transaction, rows) = store.begin_with(&mut batch).await?;
        Ok((Self { arrived, limits, key, seconds: now / 1000, transaction, batch, events: Vec::new() }, rows))
    }

    /// Finds the connection of the message among those that are stored.
    fn place(&self, stored: &[StoredConnection]) -> Result<Placement, ArrivalError> {
        let ArrivedMessage { sender, recipient, prior, .. } = *self.arrived;
        let known: Vec<Connection> = stored.iter().map(|one| one.connection.clone()).collect();
        place(&known, Arrival { sender, recipient, prior, now: self.seconds }).map_err(ArrivalError::Refused)
    }

    /// Queues the answer to a message that was handled before once more, unless it still waits.
    async fn repeat_answer(
        mut self,
        placement: Placement,
        answer: Option<String>,
    ) -> Result<TakenMessage, ArrivalError> {
        let connection_id = match placement {
            Placement::Known(connection) | Placement::Merged { kept: connection, .. } => connection.id,
            // The connection was deleted since.
            Placement::New { .. } => return Ok(repeated(String::new(), false)),
        };
        let Some(answer) = answer.and_then(|text| parse_answer(&text)) else {
            return Ok(repeated(connection_id, false));
        };
        if has_queued(&mut self.transaction, &connection_id, &answer.id).await? {
            return Ok(repeated(connection_id, false));
        }
        let queued = queue_message(&mut self.transaction, &connection_id, &answer, self.seconds, self.limits).await?;
        self.transaction.commit().await?;
        Ok(repeated(connection_id, queued.is_queued()))
    }

    /// Marks the invitation of a new connection as used: it is for one peer.
    async fn use_invitation(&mut self, placement: &Placement) -> Result<(), ArrivalError> {
        let (Some(invitation), Placement::New { their_did, previous }) = (self.arrived.invitation, placement) else {
            return Ok(());
        };
        let sql = "UPDATE own_peer_did SET used_by = $2 WHERE did = $1 AND used_by IS NULL";
        let peer = previous.as_ref().unwrap_or(their_did);
        let query = sqlx::query(sql).bind(invitation.short.clone()).bind(comparable(peer).to_owned());
        if query.execute(&mut *self.transaction).await?.rows_affected() == 0 {
            return Err(ArrivalError::Refused(Refusal::RecipientKey));
        }
        Ok(())
    }

    /// Writes the connection of the message, and settles the sent messages that its thread shows as arrived.
    fn write_connection(
        &mut self,
        placement: Placement,
        stored: &[StoredConnection],
    ) -> Result<StoredConnection, AgentStoreError> {
        let is_record = matches!(self.arrived.content, Ok(Content::BasicMessage(_)));
        let record_limit = is_record.then_some(self.limits.records_per_connection);
        let (arrived, events) = (self.arrived, &mut self.events);
        let connection = write_placement(&mut self.batch, placement, stored, arrived, record_limit, events)?;
        let message = self.arrived.message;
        if message.thread() != message.id {
            settle_thread(&mut self.batch, &connection.connection.id, message.thread(), self.seconds);
        }
        Ok(connection)
    }

    /// Has the flow of the message go on, which reads the rows that were written before. Nothing for a message about no flow.
    async fn hear_flow(&mut self, connection: &StoredConnection) -> Result<Option<FlowReaction>, FlowWriteError> {
        let (arrived, peer) = (self.arrived, &connection.connection);
        let Ok(content @ (Content::VtFlow(_) | Content::IssueCredential(_) | Content::ProblemReport(_))) =
            arrived.content
        else {
            return Ok(None);
        };
        self.batch.run(&mut self.transaction).await?;
        let FlowPart { key, heard, max_per_peer, answers_unknown } = &arrived.flows;
        let new_id = || Uuid::new_v4().to_string();
        let facts = HeardMessage {
            message: arrived.message.clone(),
            content: content.clone(),
            peer_did: peer.public_did.clone(),
            connection_id: peer.id.clone(),
            heard: heard.clone(),
            max_per_peer: *max_per_peer,
            traceparent: trace::traceparent(&Span::current()),
            flow_id: Uuid::now_v7().to_string(),
            new_id,
            now: arrived.now,
        };
        let mut reaction = FlowReaction::default();
        match decide_in(&mut self.transaction, facts.start(), key).await? {
            Heard::OtherMessage => return Ok(None),
            Heard::Ignored => {}
            Heard::UnknownThread if *answers_unknown => {
                reaction.answer = Some(unknown_flow_message(arrived.message.thread(), &new_id()));
            }
            Heard::UnknownThread => {}
            Heard::Refused(_, answer) => reaction.answer = Some(*answer),
            Heard::PeerFull => return Err(FlowWriteError::Refused(FlowRefusal::PeerFull)),
            Heard::OfferMissing => return Err(AgentStoreError::CorruptRow("the offer of a flow".to_owned()).into()),
            Heard::Changed(changes) => {
                reaction.changed = write_flows(&mut self.transaction, key, &changes, self.limits).await?;
                // The message's own flow is the first for the caller.
                reaction.changed.reverse();
            }
        }
        Ok(Some(reaction))
    }

    /// The reaction to the message, and whether its exchange would be a new one. A flow reacts for itself.
    async fn react(
        &mut self,
        of_flow: Option<&FlowReaction>,
        connection: &StoredConnection,
    ) -> Result<(Reaction, bool), AgentStoreError> {
        if let Some(of_flow) = of_flow {
            return Ok((Reaction { answer: of_flow.answer.clone(), ..Reaction::default() }, true));
        }
        let ArrivedMessage { message, content, now, .. } = *self.arrived;
        let connection_id = connection.connection.id.as_str();
        let known = match content {
            Ok(Content::IssueCredential(_) | Content::ProblemReport(_)) => {
                exchange_of_thread(&mut self.transaction, connection_id, message.thread()).await?
            }
            _ => None,
        };
        let is_new = known.is_none();
        Ok((react(message, content, connection_id, known, now), is_new))
    }

    /// Answers a request for access; the answer to every other message is that of its reaction.
    async fn answer_access(
        &mut self,
        connection: &StoredConnection,
        reaction: Option<Message>,
    ) -> Result<Answer, AgentStoreError> {
        let Some(part) = self.arrived.access else { return Ok(Answer { message: reaction, ..Answer::default() }) };
        self.batch.run(&mut self.transaction).await?;
        let Connection { id, public_did, .. } = &connection.connection;
        let facts = AccessDecision {
            part: part.clone(),
            peer: public_did.clone(),
            connection_id: id.clone(),
            thread: self.arrived.message.id.clone(),
            answer_id: Uuid::new_v4().to_string(),
            grant_id: Uuid::now_v7().to_string(),
            now: self.seconds,
        };
        let Changes { rows, events, outcome } = decide_in(&mut self.transaction, facts.start(), &()).await?;
        let AccessAnswer { message, outcome } = outcome;
        Ok(Answer { message: Some(message), access: Some(outcome), rows, events })
    }

    /// The exchange, unless it is a new one without room.
    async fn with_room(
        &mut self,
        exchange: Option<StoredExchange>,
        is_new: bool,
        connection: &StoredConnection,
    ) -> Result<Option<StoredExchange>, AgentStoreError> {
        if is_new && exchange.is_some() && !make_room(&mut self.transaction, &connection.connection.id).await? {
            return Ok(None);
        }
        Ok(exchange)
    }

    /// Writes the records that callers see, with their events.
    fn write_records(&mut self, reaction: &Reaction) {
        if let Some(record) = &reaction.record {
            insert_record(&mut self.batch, record, "1 = 1");
            self.events.push(PeerEvent::basic_message(record));
        }
        if let Some(exchange) = &reaction.exchange {
            put_exchange(&mut self.batch, exchange);
            self.events.push(PeerEvent::exchange(exchange));
        }
    }

    /// Queues the answer, and notes it for a repetition of the message. Returns whether there was room.
    async fn queue_answer(&mut self, connection: &StoredConnection, answer: &Answer) -> Result<bool, AgentStoreError> {
        let Some(message) = &answer.message else { return Ok(false) };
        self.batch.run(&mut self.transaction).await?;
        let connection_id = connection.connection.id.as_str();
        let queued = queue_message(&mut self.transaction, connection_id, message, self.seconds, self.limits).await?;
        if is_answer(&message.kind) {
            note_answer(&mut self.batch, self.key, message.to_json().to_string());
        }
        Ok(queued.is_queued())
    }

    /// Writes the changes that go with an answer which was queued, and commits. Returns whether an event was queued.
    async fn finish(mut self, queued: Option<Answer>) -> Result<bool, AgentStoreError> {
        // A grant whose message has no room is none.
        if let Some(answer) = queued {
            write_rows(&mut self.transaction, &answer.rows).await?;
            self.events.extend(answer.events);
        }
        let has_event = self.limits.max_events.is_some() && !self.events.is_empty();
        if has_event {
            queue_peer_events(&mut self.transaction, &self.events, self.seconds, self.limits.max_events).await?;
        }
        self.transaction.commit_with(&mut self.batch).await?;
        Ok(has_event)
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
