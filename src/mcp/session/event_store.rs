//! The events sent on the streams of sessions. A client that lost its stream resumes it from here, so it gets the answer of a write
//! that ended during the interruption.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use futures::stream;
use rmcp::{
    model::{ContentBlock, JsonRpcMessage, ServerJsonRpcMessage, ServerResult},
    transport::streamable_http_server::session::{EventId, EventStore, EventStoreError, EventStream, ServerSseMessage},
};
use svc_net::json_memory;
use tokio::sync::watch;

/// Approximate bytes of the stored events. Beyond it the oldest are removed.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Number of stored events. Beyond it the oldest are removed.
const MAX_EVENTS: usize = 16_384;
/// Bytes that an event counts in addition to its texts.
const EVENT_OVERHEAD_BYTES: usize = 512;

/// The events of all sessions, in memory.
#[derive(Default)]
pub struct SessionEventStore(Arc<Mutex<SessionEventLog>>);

#[derive(Default)]
struct SessionEventLog {
    newest_number: u64,
    bytes: usize,
    events: BTreeMap<u64, SessionEvent>,
    /// Resumed streams, each with the number of its newest event.
    resumed_streams: HashMap<String, watch::Sender<u64>>,
}

struct SessionEvent {
    stream: String,
    bytes: usize,
    message: ServerSseMessage,
}

/// The event is unknown, or was removed.
#[derive(Debug, thiserror::Error)]
#[error("event {0:?} is not known any more")]
struct UnknownEventId(String);

impl SessionEventStore {
    /// Whether this process has sent the event and still stores it.
    pub fn has_event(&self, event_id: &str) -> bool {
        let number: Option<u64> = event_id.split('-').next().and_then(|number| number.parse().ok());
        let known = |log: &mut SessionEventLog| log.events.get(&number?)?.message.event_id.clone();
        self.with_log(known).as_deref() == Some(event_id)
    }

    fn with_log<R>(&self, change: impl FnOnce(&mut SessionEventLog) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SessionEventLog {
    fn add(&mut self, stream: &str, event: &ServerSseMessage) -> String {
        self.newest_number += 1;
        let number = self.newest_number;
        let bytes = EVENT_OVERHEAD_BYTES + event.message.as_deref().map_or(0, message_size);
        // The random part keeps a client from naming the events of another client or of another process.
        let id = format!("{number}-{}", uuid::Uuid::new_v4().simple());
        let mut message = event.clone();
        message.event_id = Some(id.clone());
        self.bytes += bytes;
        self.events.insert(number, SessionEvent { stream: stream.to_owned(), bytes, message });
        while self.bytes > MAX_BYTES || self.events.len() > MAX_EVENTS {
            let Some((_, oldest)) = self.events.pop_first() else { break };
            self.bytes -= oldest.bytes;
        }
        if let Some(listeners) = self.resumed_streams.get(stream)
            && listeners.send(number).is_err()
        {
            self.resumed_streams.remove(stream);
        }
        id
    }

    fn next_event_after(&self, stream: &str, number: u64) -> Option<(u64, ServerSseMessage)> {
        let mut later = self.events.range(number + 1..);
        later.find(|(_, kept)| kept.stream == stream).map(|(number, kept)| (*number, kept.message.clone()))
    }
}

/// Approximate bytes that a message takes in memory, where JSON takes several times its text.
fn message_size(message: &ServerJsonRpcMessage) -> usize {
    if let JsonRpcMessage::Response(response) = message {
        match &response.result {
            ServerResult::CallToolResult(result) => {
                let texts = result.content.iter().filter_map(ContentBlock::as_text);
                let text = texts.map(|text| text.text.len()).sum::<usize>();
                return text + result.structured_content.as_ref().map_or(0, json_memory::of_value);
            }
            ServerResult::ListToolsResult(result) => return 2_048 * result.tools.len(),
            _ => {}
        }
    }
    serde_json::to_vec(message).map_or(0, |text| json_memory::of_text(&text))
}

/// Whether the message is the last one on the stream of a request.
fn is_final_message(message: &ServerSseMessage) -> bool {
    matches!(message.message.as_deref(), Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)))
}

#[async_trait]
impl EventStore for SessionEventStore {
    async fn store_event(&self, stream_id: &str, event: &ServerSseMessage) -> Result<EventId, EventStoreError> {
        Ok(self.with_log(|log| log.add(stream_id, event)))
    }

    async fn replay_events_after(&self, last_event_id: &str) -> Result<EventStream, EventStoreError> {
        let unknown = || UnknownEventId(last_event_id.to_owned());
        let number: u64 = last_event_id.split('-').next().and_then(|number| number.parse().ok()).ok_or_else(unknown)?;
        let (name, numbers) = self
            .with_log(|log| {
                let kept = log.events.get(&number)?;
                let name = (kept.message.event_id.as_deref() == Some(last_event_id)).then(|| kept.stream.clone())?;
                log.resumed_streams.retain(|_, listeners| listeners.receiver_count() > 0);
                let numbers =
                    log.resumed_streams.entry(name.clone()).or_insert_with(|| watch::channel(0).0).subscribe();
                Some((name, numbers))
            })
            .ok_or_else(unknown)?;
        let events = Self(Arc::clone(&self.0));
        // The replay waits for further events until it has sent the answer of the request.
        let replay = stream::unfold(Some((events, name, number, numbers)), |state| async move {
            let (events, name, mut number, mut numbers) = state?;
            loop {
                if let Some((found, message)) = events.with_log(|log| log.next_event_after(&name, number)) {
                    number = found;
                    let next = (!is_final_message(&message)).then_some((events, name, number, numbers));
                    return Some((message, next));
                }
                if numbers.changed().await.is_err() {
                    return None;
                }
            }
        });
        Ok(Box::pin(replay))
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use rmcp::model::{CallToolResult, RequestId};

    use super::*;

    fn answer(text: &str) -> ServerSseMessage {
        let result = ServerResult::CallToolResult(CallToolResult::success(vec![ContentBlock::text(text)]));
        ServerSseMessage::from_message(ServerJsonRpcMessage::response(result, RequestId::Number(1)))
    }

    #[tokio::test]
    async fn a_resumed_stream_has_the_sent_events_and_the_later_ones() {
        let events = SessionEventStore::default();
        let prime = ServerSseMessage::priming("0", std::time::Duration::from_secs(1));
        let first = events.store_event("a", &prime).await.expect("stored");
        events.store_event("b", &answer("of another stream")).await.expect("stored");
        let mut replay = events.replay_events_after(&first).await.expect("known");
        let later = tokio::spawn({
            let events = SessionEventStore(Arc::clone(&events.0));
            async move { events.store_event("a", &answer("mine")).await.expect("stored") }
        });
        let event = replay.next().await.expect("an event");
        assert_eq!(event.event_id.as_deref(), Some(later.await.expect("joined").as_str()));
        assert!(is_final_message(&event) && replay.next().await.is_none(), "after the answer the stream ends");
        assert!(events.replay_events_after("77").await.is_err());
        assert!(events.replay_events_after("1").await.is_err(), "a number alone names nothing");
    }

    #[tokio::test]
    async fn the_oldest_events_are_removed_first() {
        let events = SessionEventStore::default();
        let first = events.store_event("a", &answer("x")).await.expect("stored");
        let long = "x".repeat(MAX_BYTES / 4);
        for _ in 0..5 {
            events.store_event("a", &answer(&long)).await.expect("stored");
        }
        assert!(events.replay_events_after(&first).await.is_err());
        assert!(events.with_log(|log| log.bytes) <= MAX_BYTES);
    }
}
