//! What was sent on the streams of sessions, kept for clients that lost one: an answer to a write that ended while its client was
//! away is told when it is back.

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
use tokio::sync::watch;

/// Bytes of events that are kept, roughly; the oldest make room.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Events that are kept.
const MAX_EVENTS: usize = 16_384;
/// What an event counts besides its texts.
const OVERHEAD: usize = 512;

/// The events of all sessions, in memory.
#[derive(Default)]
pub struct Events(Arc<Mutex<Log>>);

#[derive(Default)]
struct Log {
    next: u64,
    bytes: usize,
    events: BTreeMap<u64, Kept>,
    /// Streams somebody listens to again, with the number of their newest event.
    streams: HashMap<String, watch::Sender<u64>>,
}

struct Kept {
    stream: String,
    bytes: usize,
    message: ServerSseMessage,
}

/// The stream an event id names has nothing to tell: it is unknown, or too long ago.
#[derive(Debug, thiserror::Error)]
#[error("event {0:?} is not known any more")]
struct Forgotten(String);

impl Events {
    /// Whether an event was sent by this process and is still kept.
    pub fn remembers(&self, event_id: &str) -> bool {
        let number: Option<u64> = event_id.split('-').next().and_then(|number| number.parse().ok());
        let known = |log: &mut Log| log.events.get(&number?)?.message.event_id.clone();
        self.log(known).as_deref() == Some(event_id)
    }

    fn log<R>(&self, change: impl FnOnce(&mut Log) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Log {
    fn add(&mut self, stream: &str, event: &ServerSseMessage) -> String {
        self.next += 1;
        let number = self.next;
        let bytes = OVERHEAD + event.message.as_deref().map_or(0, size);
        // Nobody can name an event that was not sent to him, nor one of another run of the server.
        let id = format!("{number}-{}", uuid::Uuid::new_v4().simple());
        let mut message = event.clone();
        message.event_id = Some(id.clone());
        self.bytes += bytes;
        self.events.insert(number, Kept { stream: stream.to_owned(), bytes, message });
        while self.bytes > MAX_BYTES || self.events.len() > MAX_EVENTS {
            let Some((_, oldest)) = self.events.pop_first() else { break };
            self.bytes -= oldest.bytes;
        }
        if let Some(listeners) = self.streams.get(stream)
            && listeners.send(number).is_err()
        {
            self.streams.remove(stream);
        }
        id
    }

    fn after(&self, stream: &str, number: u64) -> Option<(u64, ServerSseMessage)> {
        let mut later = self.events.range(number + 1..);
        later.find(|(_, kept)| kept.stream == stream).map(|(number, kept)| (*number, kept.message.clone()))
    }
}

/// Bytes of a message, roughly. What is frequent is estimated; the rest is counted.
fn size(message: &ServerJsonRpcMessage) -> usize {
    if let JsonRpcMessage::Response(response) = message {
        match &response.result {
            // Structured content says the same again.
            ServerResult::CallToolResult(result) => {
                let texts = result.content.iter().filter_map(ContentBlock::as_text);
                return 2 * texts.map(|text| text.text.len()).sum::<usize>();
            }
            ServerResult::ListToolsResult(result) => return 2_048 * result.tools.len(),
            _ => {}
        }
    }
    serde_json::to_vec(message).map_or(0, |bytes| bytes.len())
}

/// Whether nothing follows on the stream of a request.
fn is_last(message: &ServerSseMessage) -> bool {
    matches!(message.message.as_deref(), Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)))
}

#[async_trait]
impl EventStore for Events {
    async fn store_event(&self, stream_id: &str, event: &ServerSseMessage) -> Result<EventId, EventStoreError> {
        Ok(self.log(|log| log.add(stream_id, event)))
    }

    async fn replay_events_after(&self, last_event_id: &str) -> Result<EventStream, EventStoreError> {
        let forgotten = || Forgotten(last_event_id.to_owned());
        let number: u64 =
            last_event_id.split('-').next().and_then(|number| number.parse().ok()).ok_or_else(forgotten)?;
        let (name, news) = self
            .log(|log| {
                let kept = log.events.get(&number)?;
                let name = (kept.message.event_id.as_deref() == Some(last_event_id)).then(|| kept.stream.clone())?;
                log.streams.retain(|_, listeners| listeners.receiver_count() > 0);
                let news = log.streams.entry(name.clone()).or_insert_with(|| watch::channel(0).0).subscribe();
                Some((name, news))
            })
            .ok_or_else(forgotten)?;
        let events = Self(Arc::clone(&self.0));
        // Stays open for what is still to come, until the answer of the request was told.
        let replay = stream::unfold(Some((events, name, number, news)), |state| async move {
            let (events, name, mut number, mut news) = state?;
            loop {
                if let Some((found, message)) = events.log(|log| log.after(&name, number)) {
                    number = found;
                    let next = (!is_last(&message)).then_some((events, name, number, news));
                    return Some((message, next));
                }
                if news.changed().await.is_err() {
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
    async fn who_lost_a_stream_hears_what_was_said_and_what_is_still_to_come() {
        let events = Events::default();
        let prime = ServerSseMessage::priming("0", std::time::Duration::from_secs(1));
        let first = events.store_event("a", &prime).await.expect("stored");
        events.store_event("b", &answer("of another stream")).await.expect("stored");
        let mut replay = events.replay_events_after(&first).await.expect("known");
        let later = tokio::spawn({
            let events = Events(Arc::clone(&events.0));
            async move { events.store_event("a", &answer("mine")).await.expect("stored") }
        });
        let told = replay.next().await.expect("an event");
        assert_eq!(told.event_id.as_deref(), Some(later.await.expect("joined").as_str()));
        assert!(is_last(&told) && replay.next().await.is_none(), "after the answer the stream ends");
        assert!(events.replay_events_after("77").await.is_err());
        assert!(events.replay_events_after("1").await.is_err(), "a number alone names nothing");
    }

    #[tokio::test]
    async fn the_oldest_make_room() {
        let events = Events::default();
        let first = events.store_event("a", &answer("x")).await.expect("stored");
        let long = "x".repeat(MAX_BYTES / 4);
        for _ in 0..3 {
            events.store_event("a", &answer(&long)).await.expect("stored");
        }
        assert!(events.replay_events_after(&first).await.is_err());
        assert!(events.log(|log| log.bytes) <= MAX_BYTES);
    }
}
