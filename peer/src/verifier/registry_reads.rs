//! The registry as an indexer states it: the participants, schemas and digests that a credential depends on.

use std::sync::Arc;

use http::HeaderMap;
use serde_json::Value;
use svc_net::upstream::{HttpUpstream, UpstreamError, UpstreamKind};
use svc_trust::{Evidence, EvidenceRequest, RegistryParticipant, RegistrySchema};
use svc_wire::{participant_state::ParticipantInstants, timestamp};
use url::form_urlencoded;

use crate::json_member::take_member;

/// Participants of one DID that are read.
const MAX_PARTICIPANTS: usize = 1_024;

/// Reads of an indexer.
pub(super) struct RegistryReads(HttpUpstream);

impl RegistryReads {
    pub fn new(origin: &str) -> Result<Self, UpstreamError> {
        HttpUpstream::new(UpstreamKind::Indexer, origin).map(Self)
    }

    /// Reads the evidence of a request, and adds it. Requests for documents and resources are not its own.
    pub async fn add(
        &self,
        request: &EvidenceRequest,
        now: i128,
        evidence: &mut Evidence,
    ) -> Result<(), UpstreamError> {
        match request {
            EvidenceRequest::Document(_) | EvidenceRequest::Resource(_) => {}
            EvidenceRequest::Participants(did) => {
                let query = form_urlencoded::Serializer::new(String::new())
                    .append_pair("did", did)
                    .append_pair("response_max_size", &MAX_PARTICIPANTS.to_string())
                    .finish();
                let list = self.read("participants", &format!("/v4/participant/list?{query}")).await?;
                let list = list.map(|mut list| take_member(&mut list, "participants")).unwrap_or_default();
                let read = list.as_array().into_iter().flatten().filter_map(|body| participant(body, now));
                let found: Vec<RegistryParticipant> = read.collect();
                evidence.participants.insert(did.clone(), found.into());
            }
            EvidenceRequest::Schema(id) => {
                let found = self.schema(*id).await?.map(Arc::new);
                evidence.schemas.insert(*id, found);
            }
            EvidenceRequest::Digest(digest) => {
                let path: String = form_urlencoded::byte_serialize(digest.as_bytes()).collect();
                let found = self.read("digest", &format!("/v4/di/get/{path}")).await?;
                let created = found.and_then(|found| nanos(&found["digest"]["created"]));
                evidence.digest_anchors.insert(digest.clone(), created);
            }
        }
        Ok(())
    }

    async fn schema(&self, id: u64) -> Result<Option<RegistrySchema>, UpstreamError> {
        let Some(found) = self.read("schema", &format!("/v4/credential-schema/get/{id}")).await? else {
            return Ok(None);
        };
        let schema = &found["schema"];
        let (Some(ecosystem_id), Some(json_schema), Some(algorithm)) =
            (schema["ecosystem_id"].as_u64(), schema["json_schema"].as_str(), schema["digest_algorithm"].as_str())
        else {
            return Ok(None);
        };
        let ecosystem = self.read("ecosystem", &format!("/v4/ecosystem/get/{ecosystem_id}?gf_data=none")).await?;
        let did = ecosystem.and_then(|found| found["ecosystem"]["did"].as_str().map(str::to_owned));
        Ok(Some(RegistrySchema {
            id,
            ecosystem_id,
            ecosystem_did: did.unwrap_or_default(),
            json_schema: json_schema.to_owned(),
            digest_algorithm: algorithm.to_owned(),
            is_open_to_holders: schema["holder_onboarding_mode"] == "PERMISSIONLESS",
        }))
    }

    /// A body; `None` when the indexer states that there is nothing.
    async fn read(&self, read: &'static str, path: &str) -> Result<Option<Value>, UpstreamError> {
        match self.0.get(read, path, HeaderMap::new()).await {
            Ok(answer) => self.0.parse_json(&answer).map(Some),
            Err(UpstreamError::Http { status: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn nanos(value: &Value) -> Option<i128> {
    value.as_str().and_then(timestamp::parse_rfc3339).map(|time| timestamp::unix_nanos(&time))
}

/// A participant as an evaluation takes it, at a time in nanoseconds since the epoch; one that cannot be read authorises nothing.
fn participant(body: &Value, now: i128) -> Option<RegistryParticipant> {
    let role = (body["role"].as_str()?, body["schema_id"].as_u64()?);
    Some(RegistryParticipant::at(now, body["id"].as_u64()?, role, &ParticipantInstants::of_json(body)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use svc_wire::participant_state::ParticipantState;

    use super::*;

    #[test]
    fn a_participant_is_read_whole_or_not_at_all() {
        let body = json!({"id": 7, "role": "ISSUER", "schema_id": 3, "effective_from": "1970-01-01T00:00:01.000Z",
            "effective_until": null, "op_state": "VALIDATED"});
        let read = participant(&body, 2_000_000_000).expect("readable");
        assert_eq!((read.effective_from, read.effective_until), (Some(1_000_000_000), None));
        assert_eq!(read.state, ParticipantState::Active);
        let mut unset = body.clone();
        unset["effective_from"] = Value::Null;
        let read = participant(&unset, 2_000_000_000).expect("readable");
        assert_eq!((read.effective_from, read.state), (None, ParticipantState::Inactive), "as the chain judges it");
        for name in ["id", "role", "schema_id"] {
            let mut without = body.clone();
            without[name] = Value::Null;
            assert!(participant(&without, 0).is_none(), "{name}");
        }
    }
}
