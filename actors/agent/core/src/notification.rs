//! Registry events as webhooks: their ids and bodies. Pure.

use serde_json::{Map, Value, json};
use svc_wire::event_stream::IndexerEvent;
use uuid::Uuid;

/// Type of a registry event.
pub const NOTIFICATION: &str = "vpr.notification";

/// A webhook that is still to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// Id, the same for the same event however often it is read.
    pub id: String,
    /// Type.
    pub kind: &'static str,
    /// Height of the block.
    pub height: u64,
    /// The body, the same bytes for every attempt.
    pub body: String,
}

/// Makes the webhooks of one chain's events.
#[derive(Debug, Clone, Copy)]
pub struct NotificationMaker {
    namespace: Uuid,
}

impl NotificationMaker {
    /// For the events of a chain.
    pub fn new(chain_id: &str) -> Self {
        Self { namespace: Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("cosmos:{chain_id}").as_bytes()) }
    }

    /// Returns the id of an event: all parts that tell two events of one message apart.
    pub fn id(&self, event: &IndexerEvent) -> String {
        let payload = &event.payload;
        let (kind, id) = (payload.entity_type.as_deref(), payload.entity_id.as_deref());
        let name = format!(
            "{}/{}/{}/{}/{}/{}",
            event.tx_hash,
            payload.tx_index,
            payload.message_index,
            event.event_type,
            kind.unwrap_or_default(),
            id.unwrap_or_default()
        );
        Uuid::new_v5(&self.namespace, name.as_bytes()).to_string()
    }

    /// Makes the webhook of an event.
    pub fn make(&self, event: &IndexerEvent) -> Notification {
        let id = self.id(event);
        let payload = serde_json::to_value(&event.payload).unwrap_or_default();
        let members = payload.as_object().into_iter().flatten();
        let payload: Map<String, Value> = members.map(|(name, value)| (camel_case(name), value.clone())).collect();
        let data = json!({
            "eventType": event.event_type, "did": event.did, "blockHeight": event.block_height, "txHash": event.tx_hash,
            "timestamp": event.timestamp, "payload": payload,
        });
        let body = json!({"id": id, "type": NOTIFICATION, "timestamp": event.timestamp, "data": data}).to_string();
        Notification { id, kind: NOTIFICATION, height: event.block_height, body }
    }
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut text = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut characters = word.chars();
        text.extend(characters.next().map(|first| first.to_ascii_uppercase()));
        text.push_str(characters.as_str());
    }
    text
}

#[cfg(test)]
mod tests {
    use svc_wire::event_stream::{EventPayload, IndexerEventTag};

    use super::*;

    fn event(event_type: &str, entity: Option<(&str, &str)>) -> IndexerEvent {
        IndexerEvent {
            type_tag: IndexerEventTag::IndexerEvent,
            event_type: event_type.to_owned(),
            did: None,
            block_height: 7,
            tx_hash: "A".repeat(64),
            timestamp: "2026-04-03T07:45:41Z".to_owned(),
            payload: EventPayload {
                module: "pp".to_owned(),
                message_index: 1,
                entity_type: entity.map(|(kind, _)| kind.to_owned()),
                entity_id: entity.map(|(_, id)| id.to_owned()),
                with_feegrant: Some(true),
                ..EventPayload::default()
            },
        }
    }

    #[test]
    fn ids_equal_the_vectors_of_the_contract() {
        let maker = NotificationMaker::new("svc-devnet-1");
        let known = maker.id(&event("StartParticipantOP", Some(("Participant", "42"))));
        assert_eq!(known, "6fe247f9-f22c-53d0-9dae-b106ba8a2074");
        assert_eq!(maker.id(&event("GrantVSOperatorAuthorization", None)), "f5bb4718-badd-5d9d-a83d-ea95c421949d");
    }

    #[test]
    fn the_body_has_all_members_of_the_event_in_camel_case() {
        let made =
            NotificationMaker::new("svc-devnet-1").make(&event("StartParticipantOP", Some(("Participant", "42"))));
        let body: Value = serde_json::from_str(&made.body).expect("JSON");
        assert_eq!((&body["type"], &body["id"]), (&json!("vpr.notification"), &json!(made.id)));
        assert_eq!((&body["data"]["did"], &body["data"]["blockHeight"]), (&Value::Null, &json!(7)));
        let payload = body["data"]["payload"].as_object().expect("a payload");
        let names: Vec<&str> = payload.keys().map(String::as_str).collect();
        let expected = [
            "module",
            "action",
            "messageType",
            "txIndex",
            "messageIndex",
            "sender",
            "relatedDids",
            "entityType",
            "entityId",
            "relatedCorporationIds",
            "withFeegrant",
        ];
        assert_eq!(names, expected);
    }
}
