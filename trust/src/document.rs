//! What a DID Document says: keys with their purposes, services. A document of somebody else: nothing in it is assumed.

use ed25519_dalek::VerifyingKey;
use multibase::Base;
use serde_json::Value;
use svc_wire::instant;

use crate::reason::Code;

/// What a key may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To state something: credentials.
    AssertionMethod,
    /// To say who one is: presentations.
    Authentication,
}

impl Purpose {
    /// Name in DID Documents and proofs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AssertionMethod => "assertionMethod",
            Self::Authentication => "authentication",
        }
    }

    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::AssertionMethod, Self::Authentication].into_iter().find(|purpose| purpose.as_str() == name)
    }
}

/// The DID of a DID URL.
pub fn bare(url: &str) -> &str {
    url.split(['#', '?', '/']).next().unwrap_or(url)
}

/// A DID URL of a document, which may be written without the DID.
pub fn absolute(did: &str, id: &str) -> String {
    if id.starts_with('#') { format!("{did}{id}") } else { id.to_owned() }
}

/// A key of a document: by the id of its verification method, for a purpose the document allows it for, at an instant.
pub fn key(document: &Value, method: &str, purpose: Purpose, now: i128) -> Result<VerifyingKey, Code> {
    let did = document["id"].as_str().unwrap_or_default();
    let is_it = |id: &str| absolute(did, id) == method;
    let found_in = |list: &'static str| {
        let methods = document[list].as_array().into_iter().flatten();
        methods.filter(|entry| entry.is_object()).find(|entry| entry["id"].as_str().is_some_and(is_it))
    };
    let embedded = found_in(purpose.as_str());
    let declared = found_in("verificationMethod");
    let is_allowed = embedded.is_some()
        || document[purpose.as_str()].as_array().into_iter().flatten().filter_map(Value::as_str).any(is_it);
    let entry = embedded.or(declared).ok_or(Code::KeyUnknown)?;
    if !is_allowed {
        return Err(Code::KeyNotForPurpose);
    }
    // A method of another controller would let that one speak for this DID.
    if entry["controller"].as_str().is_some_and(|controller| controller != did) {
        return Err(Code::KeyNotForPurpose);
    }
    let expires = entry.get("expires").map(|text| text.as_str().and_then(instant::parse_rfc3339));
    let has_expired = expires.is_some_and(|instant| instant.is_none_or(|instant| instant::nanos(&instant) <= now));
    if entry["revoked"].is_string() || has_expired {
        return Err(Code::KeyRevoked);
    }
    public_key(entry).ok_or(Code::KeyUnusable)
}

fn public_key(entry: &Value) -> Option<VerifyingKey> {
    const ED25519: [u8; 2] = [0xed, 0x01];
    let bytes = if let Some(text) = entry["publicKeyMultibase"].as_str() {
        multibase::decode(text).ok()?.1.strip_prefix(&ED25519)?.to_vec()
    } else if let Some(text) = entry["publicKeyBase58"].as_str() {
        Base::Base58Btc.decode(text).ok()?
    } else {
        let jwk = &entry["publicKeyJwk"];
        let is_ed25519 = jwk["kty"] == "OKP" && jwk["crv"] == "Ed25519";
        Base::Base64Url.decode(jwk["x"].as_str().filter(|_| is_ed25519)?).ok()?
    };
    let key = VerifyingKey::from_bytes(&bytes.try_into().ok()?).ok()?;
    // A key of small order verifies what nobody signed.
    (!key.is_weak()).then_some(key)
}

/// The type of a service or a credential says, alone or among others, that it is of a kind.
pub fn is_of_type(thing: &Value, kind: &str) -> bool {
    match &thing["type"] {
        Value::String(one) => one == kind,
        Value::Array(several) => several.iter().any(|one| one == kind),
        _ => false,
    }
}

/// A presentation a document links to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linked {
    /// Id of the service.
    pub service: String,
    /// Where the presentation is.
    pub url: String,
}

/// The presentations of trust credentials that a document links to, in its order.
pub fn linked_presentations(document: &Value) -> Vec<Linked> {
    let did = document["id"].as_str().unwrap_or_default();
    let services = document["service"].as_array().into_iter().flatten();
    services
        .filter(|service| is_of_type(service, PRESENTATION))
        .filter_map(|service| {
            let id = service["id"].as_str()?;
            let (_, fragment) = id.rsplit_once('#')?;
            (fragment.starts_with("vpr-schemas-") && fragment.ends_with("-vtc-vp")).then_some(())?;
            let endpoint = match &service["serviceEndpoint"] {
                Value::Array(several) => several.first()?,
                one => one,
            };
            let url = endpoint.as_str().or_else(|| endpoint["uri"].as_str())?;
            Some(Linked { service: absolute(did, id), url: url.to_owned() })
        })
        .collect()
}

/// Everything else a document offers, as it stands.
///
/// A verdict is kept with them, and so with bounds: what is more is left out.
pub fn services(document: &Value) -> Vec<Value> {
    let services = document["service"].as_array().into_iter().flatten();
    let offered = services.filter(|service| !is_of_type(service, PRESENTATION)).take(MOST_SERVICES);
    let mut bytes = 0;
    let within = |service: &&Value| {
        bytes += service.to_string().len();
        bytes <= MOST_SERVICE_BYTES
    };
    offered.take_while(within).cloned().collect()
}

/// Services of a document that a verdict tells.
const MOST_SERVICES: usize = 64;
const MOST_SERVICE_BYTES: usize = 64 * 1024;

const PRESENTATION: &str = "LinkedVerifiablePresentation";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A key as a Multikey text; the vector of the eddsa specifications.
    const MULTIKEY: &str = "z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2";

    fn document(method: &Value, rest: &Value) -> Value {
        let mut document = json!({"id": "did:web:a", "verificationMethod": [method]});
        for (name, value) in rest.as_object().expect("members") {
            document[name] = value.clone();
        }
        document
    }

    #[test]
    fn a_key_is_given_for_what_the_document_allows_it_for() {
        let method = json!({"id": "#k", "type": "Multikey", "controller": "did:web:a", "publicKeyMultibase": MULTIKEY});
        let with = |name: &str, value: Value| {
            let mut method = method.clone();
            method[name] = value;
            method
        };
        let both = json!({"assertionMethod": ["did:web:a#k"], "authentication": ["#k"]});
        let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": "sA2Nk45_dz1RVlqtNqYj9TRPf10ZYPnPPo4SYg6igQ8"});
        let (assertion, authentication) = (Purpose::AssertionMethod, Purpose::Authentication);
        for (method, rest, purpose, expected) in [
            (method.clone(), both.clone(), assertion, Ok(())),
            (method.clone(), both.clone(), authentication, Ok(())),
            (method.clone(), json!({"authentication": ["#k"]}), assertion, Err(Code::KeyNotForPurpose)),
            (method.clone(), json!({}), assertion, Err(Code::KeyNotForPurpose)),
            (json!({}), json!({"assertionMethod": [method.clone()]}), assertion, Ok(())),
            (with("id", json!("#other")), both.clone(), assertion, Err(Code::KeyUnknown)),
            (with("controller", json!("did:web:b")), both.clone(), assertion, Err(Code::KeyNotForPurpose)),
            (with("revoked", json!("2026-01-01T00:00:00Z")), both.clone(), assertion, Err(Code::KeyRevoked)),
            (with("publicKeyMultibase", json!("zabc")), both.clone(), assertion, Err(Code::KeyUnusable)),
            (with("publicKeyMultibase", json!(7)), both.clone(), assertion, Err(Code::KeyUnusable)),
            (json!({"id": "#k", "publicKeyJwk": jwk}), both.clone(), assertion, Ok(())),
            (json!({"id": "#k", "publicKeyJwk": {"kty": "EC"}}), both.clone(), assertion, Err(Code::KeyUnusable)),
        ] {
            let document = document(&method, &rest);
            let found = key(&document, "did:web:a#k", purpose, 0).map(|_| ());
            assert_eq!(found, expected, "{document}");
        }
    }

    #[test]
    fn a_key_of_small_order_is_no_key() {
        let mut bytes = vec![0xed, 0x01];
        bytes.extend([1u8].into_iter().chain([0u8; 31]));
        let text = multibase::encode(Base::Base58Btc, bytes);
        let method = json!({"id": "#k", "publicKeyMultibase": text});
        let document = document(&method, &json!({"assertionMethod": ["#k"]}));
        assert_eq!(key(&document, "did:web:a#k", Purpose::AssertionMethod, 0), Err(Code::KeyUnusable));
    }

    #[test]
    fn presentations_are_told_from_other_services() {
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
        assert_eq!(services(&document).len(), 3, "what is no presentation is shown as it stands");
        assert_eq!(linked_presentations(&json!({"service": {}})), []);
    }
}
