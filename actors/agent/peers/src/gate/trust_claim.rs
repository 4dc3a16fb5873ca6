//! The claim of an indexer's record that a peer is trusted.

use std::time::Duration;

use serde_json::Value;
use svc_trust::EssentialCredential;
use svc_wire::timestamp;

/// The part of a record that makes a DID trusted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TrustClaim {
    /// Participants of its service credentials, at least one: the holder, or the issuer where the service vouches for itself.
    pub services: Vec<u64>,
    /// Schemas of the credentials of the party behind it.
    pub operator_schemas: Vec<u64>,
}

/// Essential credentials of one record that are compared with the node.
const MAX_CLAIMED: usize = 8;

/// The claim of a record, and the time for which it holds; `None` when the record does not make the DID trusted.
pub(super) fn claim_of(record: &Value, did: &str, now: i64, ttl: Duration) -> Option<(TrustClaim, Duration)> {
    if record["did"] != did || record["trusted"] != true {
        return None;
    }
    let credentials = record["ecsCredentials"].as_array()?;
    let participant_of = |one: &Value| one["participantId"].as_u64().or_else(|| one["issuerParticipantId"].as_u64());
    let services = credentials.iter().filter(|one| one["ecsSchema"] == EssentialCredential::Service.as_str());
    let services: Vec<u64> = services.take(MAX_CLAIMED).map(participant_of).collect::<Option<_>>()?;
    if services.is_empty() {
        return None;
    }
    let operators = [EssentialCredential::Organization, EssentialCredential::Persona].map(EssentialCredential::as_str);
    let operators = credentials.iter().filter(|one| operators.iter().any(|kind| one["ecsSchema"] == *kind));
    let operator_schemas = operators.take(MAX_CLAIMED).map(|one| one["credentialSchemaId"].as_u64());
    let operator_schemas = operator_schemas.collect::<Option<_>>()?;
    let lasts = match &record["expiresAtTime"] {
        Value::Null => ttl,
        text => {
            let end = timestamp::unix_nanos(&timestamp::parse_rfc3339(text.as_str()?)?) / 1_000_000_000;
            let left = u64::try_from(i64::try_from(end).ok()? - now).ok().filter(|left| *left > 0)?;
            ttl.min(Duration::from_secs(left))
        }
    };
    Some((TrustClaim { services, operator_schemas }, lasts))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_must_be_of_the_peer_trusted_in_time_and_name_a_participant() {
        let ttl = Duration::from_secs(60);
        let record = json!({"did": "did:web:a", "trusted": true, "expiresAtTime": null,
            "ecsCredentials": [{"ecsSchema": "OrganizationCredential", "participantId": 9, "credentialSchemaId": 4},
                {"ecsSchema": "ServiceCredential", "participantId": 7, "issuerParticipantId": 8}]});
        let with = |change: fn(&mut Value)| {
            let mut record = record.clone();
            change(&mut record);
            record
        };
        let claimed =
            |participant, lasts| Some((TrustClaim { services: vec![participant], operator_schemas: vec![4] }, lasts));
        for (record, expected) in [
            (record.clone(), claimed(7, ttl)),
            (with(|record| record["ecsCredentials"][1]["participantId"] = Value::Null), claimed(8, ttl)),
            (
                with(|record| record["expiresAtTime"] = json!("1970-01-01T00:01:50.000Z")),
                claimed(7, Duration::from_secs(10)),
            ),
            (with(|record| record["expiresAtTime"] = json!("1970-01-01T00:01:40.000Z")), None),
            (with(|record| record["expiresAtTime"] = json!("later")), None),
            (with(|record| record["trusted"] = json!("true")), None),
            (with(|record| record["trusted"] = json!(false)), None),
            (with(|record| record["did"] = json!("did:web:b")), None),
            (with(|record| record["ecsCredentials"] = json!([])), None),
            (with(|record| record["ecsCredentials"][1]["ecsSchema"] = json!("Other")), None),
            (json!([]), None),
        ] {
            assert_eq!(claim_of(&record, "did:web:a", 100, ttl), expected, "{record}");
        }
    }
}
