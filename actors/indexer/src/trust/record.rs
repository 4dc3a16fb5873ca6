//! A verdict as it is stored, and what of it changed. Pure.

use serde_json::{Value, json};
use svc_trust::{Held, Need, Verdict};
use svc_wire::trust::{RecordedChange, TrustState};

use super::triggers::RegistryChange;
use crate::store::iso_millis;

/// When a verdict was given, and whose DID it is about.
#[derive(Debug, Clone, Copy)]
pub struct Occasion {
    pub height: u64,
    /// Nanoseconds since the epoch.
    pub time: i128,
    pub corporation_id: u64,
}

/// The key under which the store knows what a verdict depends on.
pub fn need_key(need: &Need) -> String {
    match need {
        Need::Document(did) => format!("document {did}"),
        Need::Resource(url) => format!("resource {url}"),
        Need::Participants(did) => format!("participants {did}"),
        Need::Schema(id) => format!("schema {id}"),
        Need::Digest(digest) => format!("digest {digest}"),
    }
}

/// The key under which those are known for whom a service was consulted.
pub fn parent_key(did: &str) -> String {
    format!("parent {did}")
}

/// Keys of everything a verdict depends on.
pub fn inputs(verdict: &Verdict) -> Vec<String> {
    verdict.inputs.iter().map(need_key).chain(verdict.consulted.iter().map(|parent| parent_key(parent))).collect()
}

/// A verdict as JSON, in the words of the answer.
pub fn body(did: &str, verdict: &Verdict, occasion: Occasion) -> Value {
    let presentation = |shown: &svc_trust::Shown| {
        let of = |id: &String| verdict.credentials.iter().find(|held| held.id == *id);
        let credentials: Vec<Value> = shown.credentials.iter().filter_map(of).map(trust_credential).collect();
        json!({
            "id": shown.id, "serviceId": shown.service, "vtcCredentials": credentials,
            "unresolvableCredentialIds": shown.unresolvable, "invalidCredentialIds": shown.invalid,
        })
    };
    json!({
        "did": did, "trusted": verdict.is_trusted(), "pattern": verdict.pattern,
        "evaluatedAtTime": iso_millis(occasion.time), "evaluatedAtBlock": occasion.height,
        "expiresAtTime": verdict.expires_at.map(iso_millis), "corporationId": occasion.corporation_id,
        "parents": verdict.parents, "reasons": verdict.reasons, "services": verdict.services,
        "ecsCredentials": verdict.credentials.iter().filter_map(essential_credential).collect::<Vec<_>>(),
        "presentations": verdict.presentations.iter().map(presentation).collect::<Vec<_>>(),
    })
}

/// Whether two verdicts say the same, whenever they were given.
pub fn is_same(before: &Value, after: &Value) -> bool {
    let said = |body: &Value| {
        let mut said = body.clone();
        for member in ["evaluatedAtTime", "evaluatedAtBlock"] {
            said[member].take();
        }
        said
    };
    said(before) == said(after)
}

fn trust_credential(held: &Held) -> Value {
    json!({
        "id": held.id, "credentialSchemaId": held.schema_id, "ecosystemId": held.ecosystem_id,
        "participantId": held.participant_id, "issuerParticipantId": held.issuer_participant_id,
    })
}

fn essential_credential(held: &Held) -> Option<Value> {
    let (essential, version) = held.essential.as_ref()?;
    Some(json!({
        "ecsSchema": essential, "ecsSchemaVersion": version, "credentialSchemaId": held.schema_id,
        "issuerParticipantId": held.issuer_participant_id, "ecosystemId": held.ecosystem_id,
        "participantId": held.participant_id, "id": held.id, "digestJCS": held.digest_jcs,
        "issuedAtTime": iso_millis(held.issued_at), "validFrom": held.valid_from.map(iso_millis),
        "validUntil": held.valid_until.map(iso_millis), "credentialSubject": held.subject,
    }))
}

/// What a stored verdict says in the trust channel.
pub fn state(body: &Value) -> TrustState {
    TrustState {
        trusted: body["trusted"] == true,
        evaluated_at_time: body["evaluatedAtTime"].as_str().unwrap_or_default().to_owned(),
        evaluated_at_block: body["evaluatedAtBlock"].as_u64().unwrap_or(0),
        expires_at_time: body["expiresAtTime"].as_str().map(str::to_owned),
        corporation_id: body["corporationId"].as_u64().unwrap_or(0),
    }
}

/// What changed of a DID: between two verdicts, if it was judged, and in the registry.
pub fn change(
    did: &str,
    corporation_id: u64,
    judged: Option<(Option<&Value>, &Value)>,
    registry: Option<&RegistryChange>,
) -> Option<RecordedChange> {
    let differs = |member: &str| {
        judged.is_some_and(|(before, after)| {
            // Before the first verdict there was none of it.
            let before = before.map_or(&Value::Null, |before| &before[member]);
            let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            before != &after[member] && !(is_empty(before) && is_empty(&after[member]))
        })
    };
    let registry = registry.cloned().unwrap_or_default();
    let change = RecordedChange {
        did: did.to_owned(),
        corporation_id,
        former_corporation_id: judged
            .and_then(|(before, _)| before?["corporationId"].as_u64())
            .filter(|former| *former != corporation_id),
        trust: judged.map(|(_, after)| state(after)),
        ecs_credentials: differs("ecsCredentials"),
        presentations: differs("presentations"),
        services: differs("services"),
        corporation: registry.corporation,
        participations: registry.participations,
        ecosystems: registry.ecosystems,
    };
    let nothing = RecordedChange { did: did.to_owned(), corporation_id, ..RecordedChange::default() };
    (change != nothing).then_some(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_names_what_differs() {
        let before = json!({"trusted": false, "services": [], "ecsCredentials": [1], "presentations": [1]});
        let after = json!({"trusted": true, "services": [], "ecsCredentials": [1], "presentations": [2],
            "evaluatedAtTime": "t", "evaluatedAtBlock": 7, "corporationId": 3, "expiresAtTime": null});
        let told = change("did:web:a", 3, Some((Some(&before), &after)), None).expect("a change");
        assert_eq!((told.ecs_credentials, told.presentations, told.services), (false, true, false));
        let trust = told.trust.expect("a verdict");
        assert_eq!((trust.trusted, trust.evaluated_at_block, trust.expires_at_time), (true, 7, None));
        let first = change("did:web:a", 3, Some((None, &after)), None).expect("a change");
        assert_eq!((first.ecs_credentials, first.presentations, first.services), (true, true, false));
        assert_eq!(change("did:web:a", 3, None, None), None);
        let moved = change("did:web:a", 4, Some((Some(&after), &after)), None).expect("a change");
        assert_eq!((moved.corporation_id, moved.former_corporation_id), (4, Some(3)));
        let later = json!({"trusted": true, "services": [], "ecsCredentials": [1], "presentations": [2],
            "evaluatedAtTime": "u", "evaluatedAtBlock": 8, "corporationId": 3, "expiresAtTime": null});
        assert!(is_same(&after, &later) && !is_same(&before, &after));
        let money = RegistryChange { corporation: true, ..RegistryChange::default() };
        let told = change("did:web:a", 3, None, Some(&money)).expect("a change");
        assert_eq!((told.trust, told.corporation), (None, true));
    }
}
