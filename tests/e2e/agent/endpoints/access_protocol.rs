//! The words and the bounds of the protocol of access, compared with its text.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use svc_agent::{AccessSettings, GrantedMaterial, MaterialSecret, PeerGrant};
use svc_didcomm::{
    access::GrantLimits,
    protocol::endpoint_access::{AccessDenial, AccessRequest, AccessRevocation, DenyCode},
};
use svc_trust::access::{AccessClaims, sign_access_token};
use svc_wire::endpoint_access::{AccessDocument, Material, RevocationList, RevokedGrant};

use super::access::URL;

#[test]
fn words_and_bounds_are_those_of_the_protocol() {
    let protocol: Value = serde_json::from_str(include_str!("../../../fixtures/endpoint_access.json")).expect("JSON");
    assert_eq!(protocol["version"], svc_wire::endpoint_access::VERSION);
    let mut codes: Vec<&str> = DenyCode::ALL.into_iter().map(DenyCode::as_str).collect();
    let mut stated = members(&protocol["denyCodes"]);
    codes.sort_unstable();
    stated.sort_unstable();
    assert_eq!(codes, stated);
    let materials: Vec<&str> = Material::ALL.into_iter().map(Material::as_str).collect();
    let listed = &protocol["discovery"]["document"]["endpoints"][0];
    assert_eq!(listed["material"], materials.join("|"));
    let limits = &protocol["limits"];
    let own = GrantLimits::default();
    assert_eq!(
        (&limits["activeGrantsPerPeerAndEndpoint"], &limits["activeGrants"]),
        (&json!(own.per_peer), &json!(own.all))
    );
    assert_eq!(limits["requestsPerPeerPerMinute"], AccessSettings::default().rate_per_peer);
    assert_eq!(limits["documentBytes"], svc_wire::endpoint_access::MAX_DOCUMENT_BYTES);
    let token = &protocol["token"];
    assert_eq!(token["maxBytes"], svc_wire::endpoint_access::MAX_TOKEN_BYTES);
    assert_eq!(token["leewaySeconds"], svc_trust::access::LEEWAY_SECONDS);
    let list = &protocol["revocationList"];
    assert_eq!(list["verifierMaxAgeSeconds"], svc_wire::endpoint_access::LIST_MAX_AGE_SECONDS);
    // The members that are written.
    let claims = AccessClaims {
        issuer: "did:web:a".into(),
        subject: "did:web:b".into(),
        audience: URL.into(),
        endpoint: "did:web:a#mcp".into(),
        scopes: Vec::new(),
        issued_at: 0,
        expires_at: 1,
        id: "g".into(),
    };
    let signed = sign_access_token(&claims, "did:web:a#k", &SigningKey::from_bytes(&[1; 32]));
    let part = |place: usize| -> Value {
        let text = signed.split('.').nth(place).expect("a part");
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).expect("base64")).expect("JSON")
    };
    assert_eq!(members(&part(0)), members(&token["header"]));
    assert_eq!(members(&part(1)), members(&token["claims"]));
    let revoked = RevokedGrant { id: "g".into(), expires_at: 1 };
    let written = RevocationList::new("did:web:a", 0, 0, [revoked]).to_json();
    assert_eq!(members(&written), members(&list["shape"]));
    assert_eq!(members(&written["revoked"][0]), members(&list["shape"]["revoked"][0]));
    let document = AccessDocument::new("did:web:a", "https://a", 600, Vec::new()).to_json();
    assert_eq!(members(&document), members(&protocol["discovery"]["document"]));
    for operation in ["request", "grant", "deny", "revoked"] {
        let required: Vec<&str> = members(&protocol["operations"][operation])
            .into_iter()
            .filter(|name| protocol["operations"][operation][*name].as_str().is_some_and(|rule| rule.starts_with('r')))
            .collect();
        let written = written_frame(operation);
        assert!(required.iter().all(|name| written.get(*name).is_some()), "{operation}: {required:?} in {written}");
        let mut known = members(&protocol["operations"][operation]);
        // The text of the protocol has it in denials too.
        known.push("endpoint");
        assert!(members(&written).iter().all(|name| known.contains(name)), "{operation}: {written}");
    }
}

/// A frame of an operation with every member that it can have.
fn written_frame(operation: &str) -> Value {
    let (id, endpoint) = ("018f4c5e-7a2b-4c3d-8e9f-0a1b2c3d4e5f".to_owned(), "did:web:a#mcp".to_owned());
    let content = match operation {
        "request" => {
            AccessRequest { id, endpoint, scopes: Some(vec![]), accept: Some(Material::ALL.to_vec()) }.to_content()
        }
        "grant" => {
            let material = GrantedMaterial::Bearer { token: MaterialSecret::new("t".into()) };
            let grant = PeerGrant { id, endpoint, url: URL.into(), scopes: vec![], expires_at: None, material };
            grant.to_content().to_string()
        }
        "deny" => {
            let code = DenyCode::RateLimited;
            let (message, retry_after) = ("later".to_owned(), Some(7));
            AccessDenial { id, endpoint: Some(endpoint), code, message, retry_after }.to_content()
        }
        _ => AccessRevocation { id, endpoint, reason: Some("over".into()) }.to_content(),
    };
    serde_json::from_str(&content).expect("JSON")
}

/// The names of the members of an object, in their order.
fn members(object: &Value) -> Vec<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}
