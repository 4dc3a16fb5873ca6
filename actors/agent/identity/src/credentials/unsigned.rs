//! A credential before and behind its proof. Pure.

use prost_types::Timestamp;
use serde_json::Value;
use svc_trust::{
    issuance::CredentialDraft,
    proof::{ProofSuite, has_rdf_form},
};
use svc_wire::timestamp;

use super::issuance::IssueRequest;

/// A credential before its proof. Its end is in seconds since the epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct UnsignedCredential {
    pub id: String,
    pub body: Value,
    pub until: i64,
    pub made_at: Timestamp,
}

/// A signed credential, and its digest in the schema's algorithm. Its end is in seconds since the epoch.
pub struct SignedCredential {
    pub id: String,
    pub body: Value,
    pub digest: String,
    pub until: i64,
}

impl UnsignedCredential {
    /// The credential that was offered, since a holder may take nothing else; this one where the offer has no id or has ended, lasts longer
    /// than is allowed now, or names another schema.
    pub fn or_offered(self, offered: Value) -> Self {
        let end = offered["validUntil"].as_str().or_else(|| offered["expirationDate"].as_str());
        let until = end.and_then(timestamp::parse_rfc3339).map(|end| end.seconds);
        let is_same = ["issuer", "credentialSchema"].iter().all(|name| offered[name] == self.body[name]);
        match (offered["id"].as_str(), until) {
            (Some(id), Some(until)) if is_same && until > self.made_at.seconds && until <= self.until => {
                Self { id: id.to_owned(), body: offered, until, made_at: self.made_at }
            }
            _ => self,
        }
    }
}

/// The subject of a credential that is asked for.
pub(super) fn subject_of(request: &IssueRequest) -> Value {
    let claims = request.claims.clone().into_iter().filter(|(name, _)| name != "id");
    std::iter::once(("id".to_owned(), request.did.as_str().into())).chain(claims).collect()
}

/// Whether a credential of the older suite can have a subject: each value of it has a form as linked data.
pub(super) fn has_signable_subject(issuer: &str, subject: &Value) -> bool {
    const SUITE: ProofSuite = ProofSuite::Ed25519Signature2020;
    let draft = CredentialDraft {
        id: "urn:credential".to_owned(),
        issuer: issuer.to_owned(),
        kind: "VerifiableTrustCredential".to_owned(),
        subject: subject.clone(),
        schema: None,
        valid_from: "2026-01-01T00:00:00Z".to_owned(),
        valid_until: None,
    };
    has_rdf_form(&draft.into_credential(SUITE))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> String {
        timestamp::iso_seconds(&Timestamp { seconds, nanos: 0 })
    }

    fn credential(id: &str, end: (&str, i64)) -> Value {
        json!({"id": id, "issuer": "did:web:a", "credentialSchema": {"id": "s"}, end.0: at(end.1)})
    }

    #[test]
    fn the_offered_credential_is_signed_while_it_is_allowed() {
        let body = credential("new", ("validUntil", 1_000));
        let made_at = Timestamp { seconds: 100, nanos: 0 };
        let made = UnsignedCredential { id: "new".into(), body, until: 1_000, made_at };
        for end in [("validUntil", 1_000), ("validUntil", 101), ("expirationDate", 900)] {
            let offered = credential("offered", end);
            let expected = UnsignedCredential { id: "offered".into(), body: offered.clone(), until: end.1, made_at };
            assert_eq!(made.clone().or_offered(offered), expected, "{end:?}");
        }
        let changed = |name: &str, value: Value| {
            let mut offered = credential("offered", ("validUntil", 900));
            offered[name] = value;
            offered
        };
        for offered in [
            credential("offered", ("validUntil", 1_001)),
            credential("offered", ("validUntil", 100)),
            changed("issuer", json!("did:web:b")),
            changed("credentialSchema", json!({"id": "t"})),
            changed("id", Value::Null),
            changed("validUntil", Value::Null),
        ] {
            assert_eq!(made.clone().or_offered(offered.clone()), made, "{offered}");
        }
    }

    #[test]
    fn claims_without_a_form_as_linked_data_are_signed_as_json() {
        let did = "did:web:agent.example.com";
        for (claims, is_signable) in [
            (json!({"id": did, "type": "WebShop", "name": "Ä shop"}), true),
            (json!({"id": did, "type": "Weather service"}), false),
            (json!({"id": did, "name": null}), false),
            (json!({"id": did, "tags": ["a", "a"]}), false),
        ] {
            assert_eq!(has_signable_subject(did, &claims), is_signable, "{claims}");
        }
    }
}
