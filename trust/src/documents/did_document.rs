//! Keys and services of a DID Document. Another party writes the document, so every member is checked before use.

use ed25519_dalek::VerifyingKey;
use std::collections::BTreeSet;

use serde_json::Value;
use svc_wire::verification_method::{KeyKind, KeyRelation, MethodError, method_key};
pub use svc_wire::verification_method::{absolute_did_url, did_of_url};

use crate::rejection::RejectionCode;

/// Purpose of a proof, and of the keys that may make it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofPurpose {
    /// Statements, such as credentials.
    AssertionMethod,
    /// Authentication, such as by presentations.
    Authentication,
}

impl ProofPurpose {
    /// Name in DID Documents and proofs.
    pub fn as_str(self) -> &'static str {
        self.relation().as_str()
    }

    fn relation(self) -> KeyRelation {
        match self {
            Self::AssertionMethod => KeyRelation::AssertionMethod,
            Self::Authentication => KeyRelation::Authentication,
        }
    }

    /// The purpose with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::AssertionMethod, Self::Authentication].into_iter().find(|purpose| purpose.as_str() == name)
    }
}

/// The Ed25519 key of a verification method, by the id of the method.
///
/// Fails when the document has no such method, does not allow it for the purpose, or has revoked it, when it has expired at
/// `now` (nanoseconds since the epoch), or when it is no usable key.
pub fn verification_key(
    document: &Value,
    method: &str,
    purpose: ProofPurpose,
    now: i128,
) -> Result<VerifyingKey, RejectionCode> {
    let key = method_key(document, method, purpose.relation(), KeyKind::Ed25519, now).map_err(|error| match error {
        MethodError::Unknown => RejectionCode::KeyUnknown,
        MethodError::NotAllowed => RejectionCode::KeyNotForPurpose,
        MethodError::Ended => RejectionCode::KeyRevoked,
        MethodError::Unusable => RejectionCode::KeyUnusable,
    })?;
    // With a key of small order, signatures verify that were never made.
    let key = VerifyingKey::from_bytes(&key).ok().filter(|key| !key.is_weak());
    key.ok_or(RejectionCode::KeyUnusable)
}

/// Whether the type of a service or credential is `kind`, or a list with `kind`.
pub fn has_type(object: &Value, kind: &str) -> bool {
    match &object["type"] {
        Value::String(one) => one == kind,
        Value::Array(several) => several.iter().any(|one| one == kind),
        _ => false,
    }
}

/// A presentation that a document links to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedPresentation {
    /// Id of the service.
    pub service_id: String,
    /// URL of the presentation.
    pub url: String,
}

/// The presentations of trust credentials that a document links to, in the order of its services.
pub fn linked_presentations(document: &Value) -> Vec<LinkedPresentation> {
    presentations_with_suffix(document, "-vtc-vp")
}

/// The first presentations of a list, up to a number of places. Two whose names are `NAME` and `NAME-di` are forms of one credential and have
/// one place.
pub fn first_presentations(linked: &[LinkedPresentation], places: usize) -> Vec<&LinkedPresentation> {
    let (mut single, mut taken) = (BTreeSet::new(), 0);
    let is_counted = |one: &&LinkedPresentation| {
        let (_, fragment) = one.service_id.rsplit_once('#').unwrap_or_default();
        let name = fragment.strip_suffix("-vtc-vp").unwrap_or(fragment);
        let other = name.strip_suffix("-di").map_or_else(|| format!("{name}-di"), str::to_owned);
        if single.remove(&other) {
            return true;
        }
        let has_place = taken < places;
        if has_place {
            taken += 1;
            single.insert(name.to_owned());
        }
        has_place
    };
    linked.iter().filter(is_counted).collect()
}

/// The presentations of schema credentials that the document of an ecosystem links to, in the order of its services.
pub fn linked_schema_presentations(document: &Value) -> Vec<LinkedPresentation> {
    presentations_with_suffix(document, "-vtjsc-vp")
}

fn presentations_with_suffix(document: &Value, suffix: &str) -> Vec<LinkedPresentation> {
    let did = document["id"].as_str().unwrap_or_default();
    let services = document["service"].as_array().into_iter().flatten();
    services
        .filter(|service| has_type(service, LINKED_PRESENTATION_TYPE))
        .filter_map(|service| {
            let id = service["id"].as_str()?;
            let (_, fragment) = id.rsplit_once('#')?;
            (fragment.starts_with("vpr-schemas-") && fragment.ends_with(suffix)).then_some(())?;
            let endpoint = match &service["serviceEndpoint"] {
                Value::Array(several) => several.first()?,
                one => one,
            };
            let url = endpoint.as_str().or_else(|| endpoint["uri"].as_str())?;
            Some(LinkedPresentation { service_id: absolute_did_url(did, id), url: url.to_owned() })
        })
        .collect()
}

/// The services of a document that link to no presentation, unchanged.
///
/// A verdict is stored with them, so the list is cut at a number of services and of bytes.
pub fn offered_services(document: &Value) -> Vec<Value> {
    let services = document["service"].as_array().into_iter().flatten();
    let offered = services.filter(|service| !has_type(service, LINKED_PRESENTATION_TYPE)).take(MAX_SERVICES);
    let mut bytes = 0;
    let within = |service: &&Value| {
        bytes += service.to_string().len();
        bytes <= MAX_SERVICE_BYTES
    };
    offered.take_while(within).cloned().collect()
}

/// Services of one document in a verdict.
const MAX_SERVICES: usize = 64;
/// Bytes of these services as JSON.
const MAX_SERVICE_BYTES: usize = 64 * 1024;

const LINKED_PRESENTATION_TYPE: &str = "LinkedVerifiablePresentation";

#[cfg(test)]
mod tests {
    use multibase::Base;
    use serde_json::json;

    use super::*;

    /// Multikey text of the key in the vectors of the EdDSA specifications.
    const MULTIKEY: &str = "z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2";

    fn document(method: &Value, rest: &Value) -> Value {
        let mut document = json!({"id": "did:web:a", "verificationMethod": [method]});
        for (name, value) in rest.as_object().expect("members") {
            document[name] = value.clone();
        }
        document
    }

    #[test]
    fn two_forms_of_a_credential_have_one_place() {
        let names = |names: &[&str], places| {
            let of = |name: &&str| LinkedPresentation {
                service_id: format!("did:web:a#vpr-schemas-{name}-vtc-vp"),
                url: String::new(),
            };
            let linked: Vec<LinkedPresentation> = names.iter().map(of).collect();
            let counted = first_presentations(&linked, places);
            counted
                .into_iter()
                .map(|one| one.service_id.replace("did:web:a#vpr-schemas-", "").replace("-vtc-vp", ""))
                .collect::<Vec<_>>()
        };
        for (given, places, expected) in [
            (&["a", "b", "c"][..], 2, &["a", "b"][..]),
            (&["a", "a-di", "b", "c", "b-di"], 2, &["a", "a-di", "b", "b-di"]),
            (&["a-di", "b", "a"], 1, &["a-di", "a"]),
            (&["a", "a", "a"], 2, &["a", "a"]),
            (&["a", "a-di", "a-di", "a-di"], 2, &["a", "a-di", "a-di"]),
            (&["a", "b", "b-di", "c-di"], 1, &["a"]),
        ] {
            assert_eq!(names(given, places), expected, "{given:?}");
        }
    }

    #[test]
    fn a_key_is_usable_for_the_purposes_that_the_document_allows() {
        let method = json!({"id": "#k", "type": "Multikey", "controller": "did:web:a", "publicKeyMultibase": MULTIKEY});
        let with = |name: &str, value: Value| {
            let mut method = method.clone();
            method[name] = value;
            method
        };
        let both = json!({"assertionMethod": ["did:web:a#k"], "authentication": ["#k"]});
        let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": "sA2Nk45_dz1RVlqtNqYj9TRPf10ZYPnPPo4SYg6igQ8"});
        let (assertion, authentication) = (ProofPurpose::AssertionMethod, ProofPurpose::Authentication);
        for (method, rest, purpose, expected) in [
            (method.clone(), both.clone(), assertion, Ok(())),
            (method.clone(), both.clone(), authentication, Ok(())),
            (method.clone(), json!({"authentication": ["#k"]}), assertion, Err(RejectionCode::KeyNotForPurpose)),
            (method.clone(), json!({}), assertion, Err(RejectionCode::KeyNotForPurpose)),
            (json!({}), json!({"assertionMethod": [method.clone()]}), assertion, Ok(())),
            (with("id", json!("#other")), both.clone(), assertion, Err(RejectionCode::KeyUnknown)),
            (with("controller", json!("did:web:b")), both.clone(), assertion, Err(RejectionCode::KeyNotForPurpose)),
            (with("controller", json!(["did:web:a"])), both.clone(), assertion, Err(RejectionCode::KeyNotForPurpose)),
            (
                with("controller", json!({"id": "did:web:b"})),
                both.clone(),
                assertion,
                Err(RejectionCode::KeyNotForPurpose),
            ),
            (with("controller", json!(null)), both.clone(), assertion, Err(RejectionCode::KeyNotForPurpose)),
            (with("revoked", json!("2026-01-01T00:00:00Z")), both.clone(), assertion, Err(RejectionCode::KeyRevoked)),
            (with("revoked", json!(true)), both.clone(), assertion, Err(RejectionCode::KeyRevoked)),
            (with("revoked", json!(["2026-01-01T00:00:00Z"])), both.clone(), assertion, Err(RejectionCode::KeyRevoked)),
            (with("revoked", json!(null)), both.clone(), assertion, Err(RejectionCode::KeyRevoked)),
            (with("publicKeyMultibase", json!("zabc")), both.clone(), assertion, Err(RejectionCode::KeyUnusable)),
            (with("publicKeyMultibase", json!(7)), both.clone(), assertion, Err(RejectionCode::KeyUnusable)),
            (json!({"id": "#k", "publicKeyJwk": jwk}), both.clone(), assertion, Ok(())),
            (
                json!({"id": "#k", "publicKeyJwk": {"kty": "EC"}}),
                both.clone(),
                assertion,
                Err(RejectionCode::KeyUnusable),
            ),
        ] {
            let document = document(&method, &rest);
            let found = verification_key(&document, "did:web:a#k", purpose, 0).map(|_| ());
            assert_eq!(found, expected, "{document}");
        }
    }

    #[test]
    fn a_key_of_small_order_is_unusable() {
        let mut bytes = vec![0xed, 0x01];
        bytes.extend([1u8].into_iter().chain([0u8; 31]));
        let text = multibase::encode(Base::Base58Btc, bytes);
        let method = json!({"id": "#k", "publicKeyMultibase": text});
        let document = document(&method, &json!({"assertionMethod": ["#k"]}));
        assert_eq!(
            verification_key(&document, "did:web:a#k", ProofPurpose::AssertionMethod, 0),
            Err(RejectionCode::KeyUnusable)
        );
    }

    #[test]
    fn linked_presentations_are_separated_from_other_services() {
        let document = json!({"id": "did:web:a", "service": [
            {"id": "#vpr-schemas-service-vtc-vp", "type": "LinkedVerifiablePresentation", "serviceEndpoint": "https://a/vp"},
            {"id": "did:web:a#vpr-schemas-org-vtc-vp", "type": ["LinkedVerifiablePresentation"],
                "serviceEndpoint": ["https://a/org", "https://b/org"]},
            {"id": "#vpr-schemas-service-vtjsc-vp", "type": "LinkedVerifiablePresentation", "serviceEndpoint": "https://a/x"},
            {"id": "#whois", "type": "LinkedVerifiablePresentation", "serviceEndpoint": "https://a/whois"},
            {"id": "#mcp", "type": "MCP", "serviceEndpoint": "https://a/mcp"},
            {"id": 7}, "text",
        ]});
        let found: Vec<_> = linked_presentations(&document).into_iter().map(|linked| linked.url).collect();
        assert_eq!(found, ["https://a/vp", "https://a/org"]);
        assert_eq!(offered_services(&document).len(), 3, "every other service, unchanged");
        assert_eq!(linked_presentations(&json!({"service": {}})), []);
    }
}
