//! The records of peers as JSON, for callers and for the receiver of events.

use serde_json::{Value, json};
use svc_didcomm::flow::FlowRecord;

use super::{StoredBasicMessage, StoredConnection, StoredExchange};
use crate::{access::StoredGrant, flows::flow_json, time_text::millis_text};

/// An event for the receiver.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerEvent {
    /// Type.
    pub kind: &'static str,
    /// The record as callers see it.
    pub data: Value,
}

impl PeerEvent {
    /// A connection is there, or has another state or DID.
    pub fn connection(connection: &StoredConnection) -> Self {
        Self { kind: "didcomm.connections.state-updated", data: connection.to_json() }
    }

    /// A basic message of a peer is there.
    pub fn basic_message(message: &StoredBasicMessage) -> Self {
        Self { kind: "didcomm.basic-messages.message-received", data: message.to_json() }
    }

    /// A flow has begun, or has another state. `at` is in milliseconds since the epoch.
    pub fn flow(record: &FlowRecord, at: i64) -> Self {
        Self { kind: "vt.flows.state-updated", data: flow_json(record, at) }
    }

    /// A grant of access has begun, or was taken back. `now` is in seconds since the epoch.
    pub fn access_grant(grant: &StoredGrant, now: i64) -> Self {
        Self { kind: "vt.access-grants.state-updated", data: grant.to_json(now) }
    }

    /// An exchange has another state.
    pub fn exchange(exchange: &StoredExchange) -> Self {
        Self { kind: "didcomm.credential-exchanges.state-updated", data: exchange.to_json() }
    }
}

impl StoredConnection {
    /// Returns the record of the admin API.
    pub fn to_json(&self) -> Value {
        let verdict_time = |at: i64| millis_text(at * 1000);
        json!({
            "id": self.connection.id,
            "state": if self.connection.has_ended { "abandoned" } else { "completed" },
            "role": self.role.as_str(),
            "did": self.connection.our_did,
            "theirDid": self.connection.their_did,
            "peerPublicDid": self.connection.public_did,
            "threadId": self.thread_id,
            "outOfBandId": self.out_of_band_id,
            "parentConnectionId": self.parent_id,
            "didcommVersion": "v2",
            "verdict": {
                "trusted": self.verdict.map(|verdict| verdict.is_trusted),
                "at": self.verdict.map(|verdict| verdict_time(verdict.at)),
            },
            "lastSeenAt": self.last_seen_at.map(millis_text),
            "outbox": {"waiting": self.waiting, "unanswered": self.unanswered},
            "createdAt": millis_text(self.created_at),
            "updatedAt": millis_text(self.updated_at),
        })
    }
}

impl StoredBasicMessage {
    /// Returns the record of the admin API.
    pub fn to_json(&self) -> Value {
        let mut record = json!({
            "id": self.id,
            "connectionId": self.connection_id,
            "role": self.role.as_str(),
            "content": self.content,
            "sentTime": millis_text(self.sent_at),
            "createdAt": millis_text(self.created_at),
        });
        if let Some(delivery) = self.delivery {
            record["delivery"] = delivery.into();
        }
        record
    }
}

impl StoredGrant {
    /// Returns the record of the admin API. It has no token and no key.
    pub fn to_json(&self, now: i64) -> Value {
        let instant = |seconds: i64| millis_text(seconds * 1000);
        let mut record = json!({
            "id": self.id,
            "peerDid": self.peer,
            "endpoint": self.endpoint,
            "url": self.url,
            "material": self.material.as_str(),
            "scopes": self.scopes,
            "issuedAt": instant(self.issued_at),
            "expiresAt": instant(self.expires_at),
            "state": self.state(now).as_str(),
        });
        if let Some(revoked_at) = self.revoked_at {
            record["revokedAt"] = json!(instant(revoked_at));
        }
        if let Some(reason) = &self.reason {
            record["reason"] = json!(reason);
        }
        record
    }
}

impl StoredExchange {
    /// Returns the record of the admin API.
    pub fn to_json(&self) -> Value {
        let subject = &self.credential.as_ref().unwrap_or(&self.offer)["credentialSubject"];
        let subject = subject.as_array().and_then(|all| all.first()).unwrap_or(subject);
        let mut claims = subject.as_object().cloned().unwrap_or_default();
        claims.remove("id");
        json!({
            "credentialExchangeId": self.id,
            "state": self.state.as_str(),
            "role": "holder",
            "threadId": self.thread_id,
            "connectionId": self.connection_id,
            "credentialDefinitionId": null,
            "schemaId": self.schema_id.map(|id| id.to_string()),
            "claims": claims,
            "errorMessage": self.error,
            "flowId": null,
            "format": self.format,
            "createdAt": millis_text(self.created_at),
            "updatedAt": millis_text(self.updated_at),
        })
    }
}
