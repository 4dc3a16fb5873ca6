//! The generation of a peer's agent, which decides about the format of an offer. Pure.

use serde_json::Value;
use svc_didcomm::protocol::discover_features::Disclosure;

/// A generation of agents of the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerGeneration {
    /// It takes credentials with proofs of 2020 alone, and says nothing about an offer in another format.
    First,
    /// Any later one.
    Later,
}

/// Type of a service entry for messages of the first generation.
const OLDER_MESSAGING: &str = "did-communication";
/// The beginnings of protocols that agents of the first generation alone serve.
const OLDER_PROTOCOLS: [&str; 2] = ["https://didcomm.org/connections/1.", "https://didcomm.org/didexchange/1."];

impl PeerGeneration {
    /// By the DID Document: its entry for messages of the older protocol, or one that names DIDComm v2. Nothing where it has neither.
    pub fn of_document(document: &Value) -> Option<Self> {
        let services = || document["service"].as_array().into_iter().flatten();
        let is_older = |service: &Value| match &service["type"] {
            Value::Array(kinds) => kinds.iter().any(|kind| kind == OLDER_MESSAGING),
            kind => kind == OLDER_MESSAGING,
        };
        if services().any(is_older) {
            return Some(Self::First);
        }
        let names_newer = |endpoint: &Value| {
            endpoint["accept"].as_array().is_some_and(|list| list.iter().any(|profile| profile == "didcomm/v2"))
        };
        let is_newer = |service: &Value| match &service["serviceEndpoint"] {
            Value::Array(endpoints) => endpoints.iter().any(names_newer),
            endpoint => names_newer(endpoint),
        };
        services().any(is_newer).then_some(Self::Later)
    }

    /// By the protocols that the agent says it serves.
    pub fn of_protocols(disclosures: &[Disclosure]) -> Self {
        let is_older = |one: &Disclosure| {
            one.feature_type == "protocol" && OLDER_PROTOCOLS.iter().any(|older| one.id.starts_with(older))
        };
        if disclosures.iter().any(is_older) { Self::First } else { Self::Later }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use svc_didcomm::{
        Message,
        protocol::{
            Content,
            discover_features::{Query, answer},
        },
    };

    use super::*;

    #[test]
    fn a_document_with_messages_of_the_older_protocol_is_of_the_first_generation() {
        let entry = |kind: Value| json!({"id": "did:web:a#a", "type": kind, "serviceEndpoint": "wss://a.example"});
        let newer = |endpoint: Value| json!({"id": "#m", "type": "DIDCommMessaging", "serviceEndpoint": endpoint});
        let accepting = json!({"uri": "wss://a.example", "accept": ["didcomm/v2"]});
        for (services, expected) in [
            (json!([entry(json!("did-communication")), newer(accepting.clone())]), Some(PeerGeneration::First)),
            (json!([entry(json!(["did-communication"]))]), Some(PeerGeneration::First)),
            (
                json!([newer(accepting.clone()), entry(json!("LinkedVerifiablePresentation"))]),
                Some(PeerGeneration::Later),
            ),
            (json!([newer(json!([accepting]))]), Some(PeerGeneration::Later)),
            (json!([newer(json!({"uri": "wss://a.example"}))]), None),
            (json!([entry(json!("DIDCommMessaging"))]), None),
            (json!([]), None),
            (Value::Null, None),
        ] {
            assert_eq!(PeerGeneration::of_document(&json!({"service": services})), expected, "{services}");
        }
    }

    #[test]
    fn the_recorded_answer_is_of_the_first_generation_and_that_of_this_release_is_not() {
        let text = include_str!("../../../../../didcomm/tests/fixtures/51-discover-features-disclosures.json");
        let recorded = Message::parse(text.as_bytes()).expect("a message");
        let Ok(Content::Disclosures(recorded)) = Content::read(&recorded) else { panic!("disclosures") };
        assert_eq!(PeerGeneration::of_protocols(&recorded), PeerGeneration::First);
        let all = Query { feature_type: "protocol".to_owned(), matching: "*".to_owned() };
        for answered in [answer(&[all]), Vec::new()] {
            assert_eq!(PeerGeneration::of_protocols(&answered), PeerGeneration::Later, "{answered:?}");
        }
    }
}
