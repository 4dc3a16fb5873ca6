//! JSON of the block subscription `/v4/indexer/subscribe` and of the REST read `/v4/indexer/events`.

use serde::{Deserialize, Serialize};

/// Message of the indexer to a subscriber; `B` is the body of a block message. A message of an unknown type parses as
/// [`StreamMessage::Unknown`], which a client ignores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum StreamMessage<B = BlockMessage> {
    /// First message of a connection.
    Ready {
        /// Next height that the stream delivers.
        block: u64,
        /// Time of the block below `block`, ISO-8601 UTC.
        #[serde(rename = "blockTime")]
        block_time: String,
        /// Expected time between blocks in milliseconds. A client derives its liveness timeout from it.
        #[serde(rename = "blockIntervalMs")]
        block_interval_ms: u64,
    },
    /// Acknowledges a `subscribe`.
    Subscribed {
        /// First height that the stream delivers on this socket.
        block: u64,
        /// Time of the block at `block - 1`, ISO-8601 UTC.
        #[serde(rename = "blockTime")]
        block_time: String,
    },
    /// One processed height.
    Block(B),
    /// A type that this version does not know.
    #[serde(other)]
    Unknown,
}

/// One processed height with the events that match the subscription.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlockMessage {
    /// Height.
    pub block: u64,
    /// ISO-8601 UTC with milliseconds.
    #[serde(rename = "blockTime")]
    pub block_time: String,
    /// Matching events, may be empty.
    pub events: Vec<IndexerEvent>,
}

/// Command of a subscriber to the indexer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum StreamCommand {
    /// Replaces the subscription of this socket.
    Subscribe {
        /// DID filter. Absent or empty: no filter.
        #[serde(skip_serializing_if = "Option::is_none")]
        dids: Option<Vec<String>>,
        /// Corporation filter. Absent: no filter.
        #[serde(rename = "corporationId", skip_serializing_if = "Option::is_none")]
        corporation_id: Option<u64>,
    },
    /// Stops block messages. The indexer sends no acknowledgement.
    Unsubscribe,
}

/// One registry event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexerEvent {
    /// Always `indexer-event`.
    #[serde(rename = "type")]
    pub type_tag: IndexerEventTag,
    /// CamelCase action, for example `CreateNewEcosystem`.
    pub event_type: String,
    /// Main DID.
    pub did: Option<String>,
    /// Height.
    pub block_height: u64,
    /// Upper-case hex.
    pub tx_hash: String,
    /// Time of the block, ISO-8601 UTC in whole seconds.
    pub timestamp: String,
    /// Details.
    pub payload: EventPayload,
}

/// The constant of [`IndexerEvent::type_tag`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum IndexerEventTag {
    /// `indexer-event`
    #[default]
    #[serde(rename = "indexer-event")]
    IndexerEvent,
}

/// Details of an event. An unknown value has no key; it is never null.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EventPayload {
    /// Two-letter module, or `group`.
    pub module: String,
    /// snake_case of the event type.
    pub action: String,
    /// `Msg...` short name; for `de` the keeper event name.
    pub message_type: String,
    /// Position in the block.
    pub tx_index: u32,
    /// Position in the transaction. Events of the messages in a proposal have numbers of their own after those of the transaction's messages.
    pub message_index: u32,
    /// Signer account; may be empty text.
    pub sender: String,
    /// Further DIDs that the DID filter matches.
    pub related_dids: Vec<String>,
    /// For example `Ecosystem`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub entity_type: Option<String>,
    /// Text even when numeric.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub entity_id: Option<String>,
    /// Ecosystem the subject belongs to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ecosystem_id: Option<String>,
    /// Credential schema the subject belongs to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub schema_id: Option<String>,
    /// Participant.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub participant_id: Option<String>,
    /// Owner corporation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub corporation_id: Option<u64>,
    /// Further corporations of the event, such as that of the validator. Older rows lack it.
    #[serde(default)]
    pub related_corporation_ids: Vec<u64>,
    /// `de` only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub grantee: Option<String>,
    /// `de` only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub vs_operator: Option<String>,
    /// `de` only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub with_feegrant: Option<bool>,
}

/// Identity of an event. It has every column of the storage key, because one message can yield several events.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventKey {
    tx_hash: String,
    tx_index: u32,
    message_index: u32,
    event_type: String,
    entity_type: String,
    entity_id: String,
}

impl IndexerEvent {
    /// The key that identifies duplicates.
    pub fn key(&self) -> EventKey {
        EventKey {
            tx_hash: self.tx_hash.clone(),
            tx_index: self.payload.tx_index,
            message_index: self.payload.message_index,
            event_type: self.event_type.clone(),
            entity_type: self.payload.entity_type.clone().unwrap_or_default(),
            entity_id: self.payload.entity_id.clone().unwrap_or_default(),
        }
    }
}

/// Answer of `GET /v4/indexer/events`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventsPage {
    /// Ascending by height, transaction, message.
    pub events: Vec<IndexerEvent>,
    /// Length of this page.
    pub count: usize,
    /// Value of the request parameter.
    pub after_block_height: u64,
    /// The oldest block of an index that begins in the middle of its chain, on a page that begins there. An extension of this indexer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub oldest_block_height: Option<u64>,
    /// Opaque position behind the last event; present when more events may follow. An extension of this indexer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fixtures are the examples of the contract.
    #[test]
    fn the_examples_of_the_contract_round_trip() {
        let example = include_str!("../../tests/fixtures/block-message.json");
        let given: serde_json::Value = serde_json::from_str(example).expect("fixture is JSON");
        let message: StreamMessage = serde_json::from_value(given.clone()).expect("fixture parses");
        assert!(matches!(&message, StreamMessage::Block(block) if block.events.len() == 3));
        assert_eq!(serde_json::to_value(&message).expect("serialises"), given);
        let given: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/fixtures/events-rest-page.json")).expect("JSON");
        let page: EventsPage = serde_json::from_value(given.clone()).expect("fixture parses");
        assert_eq!(serde_json::to_value(&page).expect("serialises"), given);
    }

    #[test]
    fn an_unknown_type_parses_as_unknown_and_the_example_dialogue_parses() {
        let unknown: StreamMessage = serde_json::from_str(r#"{"type":"weather","block":1}"#).expect("tolerant");
        assert_eq!(unknown, StreamMessage::Unknown);
        let dialogue: Vec<serde_json::Value> =
            serde_json::from_str(include_str!("../../tests/fixtures/ws-dialogue.json")).expect("JSON");
        for step in dialogue.iter().filter(|step| step["from"] == "server" && step.get("message").is_some()) {
            let message: StreamMessage =
                serde_json::from_value(step["message"].clone()).expect("server message parses");
            assert_ne!(message, StreamMessage::Unknown);
        }
        let subscribe = StreamCommand::Subscribe { dids: None, corporation_id: Some(11) };
        assert_eq!(
            serde_json::to_string(&subscribe).expect("serialises"),
            r#"{"action":"subscribe","corporationId":11}"#
        );
    }

    #[test]
    fn two_events_of_one_message_have_different_keys() {
        let page: EventsPage =
            serde_json::from_str(include_str!("../../tests/fixtures/events-rest-page.json")).expect("JSON");
        assert_ne!(page.events[0].key(), page.events[1].key());
    }
}
