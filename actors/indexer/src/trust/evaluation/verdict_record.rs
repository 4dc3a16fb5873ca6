//! Verdicts as the store holds them, and the changes between two verdicts. Pure.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_trust::{AcceptedCredential, Evidence, EvidenceRequest, TrustVerdict};
use svc_wire::trust_stream::{RecordedDidChange, TrustState};

use crate::{store::iso_millis, trust::triggers::block_triggers::RegistryChange};

/// The height of a verdict, and the owner of its DID.
#[derive(Debug, Clone, Copy)]
pub struct VerdictOccasion {
    pub height: u64,
    /// Nanoseconds since the epoch.
    pub time: i128,
    pub corporation_id: u64,
}

/// Returns the key of evidence in the store.
pub fn evidence_key(request: &EvidenceRequest) -> String {
    match request {
        EvidenceRequest::Document(did) => format!("document {did}"),
        EvidenceRequest::Resource(url) => format!("resource {url}"),
        EvidenceRequest::Participants(did) => format!("participants {did}"),
        EvidenceRequest::Schema(id) => format!("schema {id}"),
        EvidenceRequest::Digest(digest) => format!("digest {digest}"),
    }
}

/// Returns the request of a key. `None` for a parent, and for a key that the store shortened.
pub fn parse_evidence_key(key: &str) -> Option<EvidenceRequest> {
    let (kind, value) = key.split_once(' ')?;
    match kind {
        "document" => Some(EvidenceRequest::Document(value.to_owned())),
        "resource" => Some(EvidenceRequest::Resource(value.to_owned())),
        "participants" => Some(EvidenceRequest::Participants(value.to_owned())),
        "schema" => value.parse().ok().map(EvidenceRequest::Schema),
        "digest" => Some(EvidenceRequest::Digest(value.to_owned())),
        _ => None,
    }
}

/// Returns the digest of the documents and resources that a verdict depends on, and of the codes of those that failed.
pub fn evidence_digest(verdict: &TrustVerdict, evidence: &Evidence) -> [u8; 32] {
    let mut hasher = Sha256::new();
    let mut add = |text: &str| {
        hasher.update(text.len().to_be_bytes());
        hasher.update(text);
    };
    for request in &verdict.inputs {
        let found = match request {
            EvidenceRequest::Document(did) => {
                evidence.documents.get(did).map(|document| document.as_ref().map(|body| body.to_string()))
            }
            EvidenceRequest::Resource(url) => {
                evidence.resources.get(url).map(|resource| resource.as_ref().map(|text| text.to_string()))
            }
            EvidenceRequest::Participants(_) | EvidenceRequest::Schema(_) | EvidenceRequest::Digest(_) => continue,
        };
        add(&evidence_key(request));
        match found {
            Some(Ok(body)) => add(&body),
            Some(Err(failure)) => add(failure.code.as_str()),
            None => {}
        }
    }
    hasher.finalize().into()
}

/// Returns the key under which the store holds the DIDs whose verdicts depend on a DID.
pub fn parent_key(did: &str) -> String {
    format!("parent {did}")
}

/// Returns the keys of all evidence that a verdict depends on, its parents included.
pub fn evidence_keys(verdict: &TrustVerdict) -> Vec<String> {
    verdict.inputs.iter().map(evidence_key).chain(verdict.consulted.iter().map(|parent| parent_key(parent))).collect()
}

/// Returns a verdict as JSON, with the member names of the answer.
pub fn verdict_body(did: &str, verdict: &TrustVerdict, occasion: VerdictOccasion) -> Value {
    let presentation = |shown: &svc_trust::PresentationSummary| {
        let of = |id: &String| verdict.credentials.iter().find(|held| held.id == *id);
        let credentials: Vec<Value> = shown.credentials.iter().filter_map(of).map(trust_credential_json).collect();
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
        "ecsCredentials": essential_credentials(verdict),
        "presentations": verdict.presentations.iter().map(presentation).collect::<Vec<_>>(),
    })
}

/// Member of a stored verdict on a DID whose first evaluation is not finished. No answer shows it.
const UNFINISHED: &str = "unfinished";

/// Marks a verdict that is shown until the first evaluation of its DID is finished.
pub fn mark_unfinished(body: &mut Value) {
    body[UNFINISHED] = true.into();
}

/// Whether a stored verdict is shown until the first evaluation of its DID is finished.
pub fn is_unfinished(body: &Value) -> bool {
    body[UNFINISHED] == true
}

/// The essential credentials of a DID, and the operator's that its verdict rests on, which another service may present. None is there twice.
fn essential_credentials(verdict: &TrustVerdict) -> Vec<Value> {
    let mut digests = std::collections::BTreeSet::new();
    let own = verdict.credentials.iter().chain(verdict.operator.as_deref());
    own.filter(|held| held.essential.is_some() && digests.insert(held.digest_jcs.as_str()))
        .filter_map(essential_credential_json)
        .collect()
}

/// Whether two verdicts are equal, apart from the time and the height of their evaluation.
pub fn is_same_verdict(before: &Value, after: &Value) -> bool {
    let content = |body: &Value| {
        let mut content = body.clone();
        for member in ["evaluatedAtTime", "evaluatedAtBlock"] {
            content[member].take();
        }
        content
    };
    content(before) == content(after)
}

fn trust_credential_json(held: &AcceptedCredential) -> Value {
    json!({
        "id": held.id, "credentialSchemaId": held.schema_id, "ecosystemId": held.ecosystem_id,
        "participantId": held.participant_id, "issuerParticipantId": held.issuer_participant_id,
    })
}

fn essential_credential_json(held: &AcceptedCredential) -> Option<Value> {
    let (essential, version) = held.essential.as_ref()?;
    Some(json!({
        "ecsSchema": essential, "ecsSchemaVersion": version, "credentialSchemaId": held.schema_id,
        "issuerParticipantId": held.issuer_participant_id, "ecosystemId": held.ecosystem_id,
        "participantId": held.participant_id, "id": held.id, "digestJCS": held.digest_jcs,
        "issuedAtTime": iso_millis(held.issued_at), "validFrom": held.valid_from.map(iso_millis),
        "validUntil": held.valid_until.map(iso_millis), "credentialSubject": held.subject,
    }))
}

/// Returns the state of a stored verdict for the trust channel.
pub fn trust_state(body: &Value) -> TrustState {
    TrustState {
        trusted: body["trusted"] == true,
        evaluated_at_time: body["evaluatedAtTime"].as_str().unwrap_or_default().to_owned(),
        evaluated_at_block: body["evaluatedAtBlock"].as_u64().unwrap_or(0),
        expires_at_time: body["expiresAtTime"].as_str().map(str::to_owned),
        corporation_id: body["corporationId"].as_u64().unwrap_or(0),
    }
}

/// Two successive verdicts on a DID.
#[derive(Debug, Clone, Copy)]
pub struct VerdictChange<'a> {
    /// `None` before the first verdict.
    pub before: Option<&'a Value>,
    pub after: &'a Value,
}

/// Returns the change of a DID: between two verdicts, if it was evaluated, and in the registry. `None` when nothing
/// changed.
pub fn recorded_change(
    did: &str,
    corporation_id: u64,
    verdicts: Option<VerdictChange<'_>>,
    registry: Option<&RegistryChange>,
) -> Option<RecordedDidChange> {
    let differs = |member: &str| {
        verdicts.is_some_and(|VerdictChange { before, after }| {
            // Before the first verdict every member is empty.
            let before = before.map_or(&Value::Null, |before| &before[member]);
            let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            before != &after[member] && !(is_empty(before) && is_empty(&after[member]))
        })
    };
    let registry = registry.cloned().unwrap_or_default();
    let change = RecordedDidChange {
        did: did.to_owned(),
        corporation_id,
        former_corporation_id: verdicts
            .and_then(|verdicts| verdicts.before?["corporationId"].as_u64())
            .filter(|former| *former != corporation_id),
        trust: verdicts.map(|verdicts| trust_state(verdicts.after)),
        ecs_credentials: differs("ecsCredentials"),
        presentations: differs("presentations"),
        services: differs("services"),
        corporation: registry.corporation,
        deposit: registry.deposit,
        participations: registry.participations,
        ecosystems: registry.ecosystems,
    };
    let nothing = RecordedDidChange { did: did.to_owned(), corporation_id, ..RecordedDidChange::default() };
    (change != nothing).then_some(change)
}

#[cfg(test)]
mod tests {
    use svc_trust::{EssentialCredential, TrustPattern};

    use super::*;

    fn held(id: &str, essential: Option<EssentialCredential>, subject: &str) -> AcceptedCredential {
        AcceptedCredential {
            id: format!("https://holder.example/{id}"),
            essential: essential.map(|essential| (essential, "1.0".to_owned())),
            schema_id: 2,
            ecosystem_id: 1,
            issuer: "did:web:ecosystem".to_owned(),
            issuer_participant_id: 4,
            participant_id: 5,
            digest_jcs: format!("sha384-{id}"),
            issued_at: 60_000_000_000,
            valid_from: None,
            valid_until: None,
            anchored_until: None,
            subject: json!({"id": subject}),
        }
    }

    #[test]
    fn the_essential_credentials_are_the_own_ones_and_the_operator_s_of_the_parent_none_twice() {
        let service = held("service", Some(EssentialCredential::Service), "did:web:a");
        let other = held("other", None, "did:web:a");
        let operator = held("operator", Some(EssentialCredential::Organization), "did:web:parent");
        let own_operator = held("own", Some(EssentialCredential::Organization), "did:web:a");
        // The DID presents the very credential of its parent, at a URL of its own.
        let presented = AcceptedCredential { id: "https://a.example/copy".to_owned(), ..operator.clone() };
        let verdict = |pattern, credentials: &[&AcceptedCredential], operator: Option<&AcceptedCredential>| {
            let credentials = credentials.iter().map(|held| (*held).clone()).collect();
            let operator = operator.cloned().map(Box::new);
            TrustVerdict { pattern, credentials, operator, ..TrustVerdict::abandoned("did:web:a", Vec::new(), "") }
        };
        let (parent, own) = (Some(TrustPattern::Parent), Some(TrustPattern::SelfVouched));
        for (verdict, expected) in [
            // Another service presents the operator's credential.
            (verdict(parent, &[&service, &other], Some(&operator)), vec![&service, &operator]),
            (verdict(parent, &[&service, &presented], Some(&operator)), vec![&service, &presented]),
            // The DID presents it itself.
            (verdict(own, &[&service, &own_operator], Some(&own_operator)), vec![&service, &own_operator]),
            (verdict(own, &[&service, &service], None), vec![&service]),
            (verdict(None, &[&other], None), vec![]),
        ] {
            let occasion = VerdictOccasion { height: 9, time: 0, corporation_id: 3 };
            let body = verdict_body("did:web:a", &verdict, occasion);
            let shown = body["ecsCredentials"].as_array().expect("a list");
            let members = ["id", "digestJCS", "issuedAtTime"];
            let found: Vec<_> =
                shown.iter().map(|one| (members.map(|name| &one[name]), &one["credentialSubject"]["id"])).collect();
            let ids: Vec<[Value; 4]> = expected
                .iter()
                .map(|held| {
                    let issued = json!("1970-01-01T00:01:00.000Z");
                    [json!(held.id), json!(held.digest_jcs), issued, held.subject["id"].clone()]
                })
                .collect();
            let ids: Vec<_> = ids.iter().map(|[id, digest, issued, subject]| ([id, digest, issued], subject)).collect();
            assert_eq!(found, ids, "{:?}", verdict.pattern);
        }
    }

    #[test]
    fn a_change_names_the_members_that_differ() {
        let before = json!({"trusted": false, "services": [], "ecsCredentials": [1], "presentations": [1]});
        let after = json!({"trusted": true, "services": [], "ecsCredentials": [1], "presentations": [2],
            "evaluatedAtTime": "t", "evaluatedAtBlock": 7, "corporationId": 3, "expiresAtTime": null});
        let change =
            recorded_change("did:web:a", 3, Some(VerdictChange { before: Some(&before), after: &after }), None)
                .expect("a change");
        assert_eq!((change.ecs_credentials, change.presentations, change.services), (false, true, false));
        let trust = change.trust.expect("a verdict");
        assert_eq!((trust.trusted, trust.evaluated_at_block, trust.expires_at_time), (true, 7, None));
        let first = recorded_change("did:web:a", 3, Some(VerdictChange { before: None, after: &after }), None)
            .expect("a change");
        assert_eq!((first.ecs_credentials, first.presentations, first.services), (true, true, false));
        assert_eq!(recorded_change("did:web:a", 3, None, None), None);
        let moved = recorded_change("did:web:a", 4, Some(VerdictChange { before: Some(&after), after: &after }), None)
            .expect("a change");
        assert_eq!((moved.corporation_id, moved.former_corporation_id), (4, Some(3)));
        let later = json!({"trusted": true, "services": [], "ecsCredentials": [1], "presentations": [2],
            "evaluatedAtTime": "u", "evaluatedAtBlock": 8, "corporationId": 3, "expiresAtTime": null});
        assert!(is_same_verdict(&after, &later) && !is_same_verdict(&before, &after));
        for (corporation, deposit) in [(true, false), (false, true)] {
            let registry = RegistryChange { corporation, deposit, ..RegistryChange::default() };
            let change = recorded_change("did:web:a", 3, None, Some(&registry)).expect("a change");
            assert_eq!((change.trust, change.corporation, change.deposit), (None, corporation, deposit));
        }
    }
}
