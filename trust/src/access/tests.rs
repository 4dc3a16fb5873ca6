//! Every check by a token or presentation that breaks one rule, and by one that breaks several: the first rule in the order decides.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use ed25519_dalek::{Signer, SigningKey};
use serde_json::{Value, json};
use svc_wire::{
    endpoint_access::{RevocationList, RevokedGrant},
    verification_method::{KeyKind, multikey},
};

use super::*;

const ISSUER: &str = "did:web:owner.example";
const PEER: &str = "did:web:peer.example";
const URL: &str = "https://owner.example/mcp";
const NOW: i64 = 1_800_000_000;

fn key(byte: u8) -> SigningKey {
    SigningKey::from_bytes(&[byte; 32])
}

fn key_id(did: &str, byte: u8) -> String {
    format!("{did}#{}", multikey(KeyKind::Ed25519, key(byte).verifying_key().as_bytes()))
}

/// A document with a key under one relationship, and another under another.
fn document(did: &str, relations: &[(&str, u8)]) -> Value {
    let methods = relations.iter().map(|(_, byte)| {
        let id = key_id(did, *byte);
        let multikey = id.rsplit_once('#').map(|(_, key)| key).unwrap_or_default();
        json!({"id": id, "type": "Multikey", "controller": did, "publicKeyMultibase": multikey})
    });
    let mut document = json!({"id": did, "verificationMethod": methods.collect::<Vec<_>>()});
    for (relation, byte) in relations {
        document[*relation] = json!([key_id(did, *byte)]);
    }
    document
}

fn claims() -> Value {
    json!({"iss": ISSUER, "sub": PEER, "client_id": PEER, "aud": URL, "endpoint": format!("{ISSUER}#mcp"),
        "scope": "mcp:read", "iat": NOW, "nbf": NOW, "exp": NOW + 600, "jti": "grant-1"})
}

fn header() -> Value {
    json!({"alg": "EdDSA", "typ": "at+jwt", "kid": key_id(ISSUER, 1)})
}

fn make(header: &Value, claims: &Value, key: &SigningKey) -> String {
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(header), part(claims));
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes()).to_bytes()))
}

fn with(value: Value, changes: &[(&str, Value)]) -> Value {
    let mut value = value;
    for (name, change) in changes {
        value[*name] = change.clone();
    }
    value
}

fn verify(token: &str) -> Result<AccessClaims, AccessRejection> {
    let revoked = [RevokedGrant { id: "revoked".into(), expires_at: NOW + 600 }];
    let list = RevocationList::new(ISSUER, NOW, NOW - 100, revoked);
    let knows_scope = |scope: &str| scope == "mcp:read" || scope.starts_with("mcp:tool:");
    let rules = AccessRules { issuer: ISSUER, audience: URL, knows_scope: &knows_scope };
    let document = document(ISSUER, &[("capabilityDelegation", 1), ("assertionMethod", 2)]);
    AccessToken::read(token)?.verify(&rules, &document, &list, NOW)
}

#[test]
fn a_token_verifies_as_it_was_made_and_is_the_same_text_each_time() {
    let claims = AccessClaims {
        issuer: ISSUER.into(),
        subject: PEER.into(),
        audience: URL.into(),
        endpoint: format!("{ISSUER}#mcp"),
        scopes: vec!["mcp:read".into(), "mcp:tool:svc.idx.x".into()],
        issued_at: NOW,
        expires_at: NOW + 900,
        id: "grant-1".into(),
    };
    let token = sign_access_token(&claims, &key_id(ISSUER, 1), &key(1));
    assert_eq!(token, sign_access_token(&claims, &key_id(ISSUER, 1), &key(1)));
    assert_eq!(verify(&token), Ok(claims));
    let jwk = access_jwk(&key_id(ISSUER, 1), key(1).verifying_key().as_bytes());
    assert_eq!(jwk["kid"], header()["kid"]);
}

#[test]
fn each_rule_of_a_token_is_checked() {
    use AccessRejection as Rejection;
    let good = || make(&header(), &claims(), &key(1));
    let claimed = |changes: &[(&str, Value)]| make(&header(), &with(claims(), changes), &key(1));
    let headed = |changes: &[(&str, Value)]| make(&with(header(), changes), &claims(), &key(1));
    let without = |name: &str| {
        let mut claims = claims();
        claims.as_object_mut().expect("claims").shift_remove(name);
        make(&header(), &claims, &key(1))
    };
    let assertion_key = key_id(ISSUER, 2);
    let other_key = key_id(ISSUER, 3);
    assert!(verify(&good()).is_ok());
    let table: Vec<(&str, String, Rejection)> = vec![
        ("9 KB", claimed(&[("more", json!("x".repeat(9_000)))]), Rejection::Length),
        ("no JWS", "x".into(), Rejection::Header),
        ("two signatures", format!("{}.{}", good(), good().rsplit_once('.').expect("a part").1), Rejection::Header),
        ("alg none", headed(&[("alg", json!("none"))]), Rejection::Header),
        ("alg HS256", headed(&[("alg", json!("HS256"))]), Rejection::Header),
        ("alg Ed25519", headed(&[("alg", json!("Ed25519"))]), Rejection::Header),
        ("typ JWT", headed(&[("typ", json!("JWT"))]), Rejection::Header),
        ("another member", headed(&[("jku", json!("https://evil.example"))]), Rejection::Header),
        ("crit", headed(&[("crit", json!([]))]), Rejection::Header),
        ("padding", format!("{}=", good()), Rejection::Header),
        ("another issuer", claimed(&[("iss", json!(PEER))]), Rejection::Issuer),
        ("a key of another DID", headed(&[("kid", json!(key_id(PEER, 1)))]), Rejection::Issuer),
        (
            "a key for assertions only",
            make(&with(header(), &[("kid", json!(assertion_key))]), &claims(), &key(2)),
            Rejection::Key,
        ),
        (
            "a key that is not there",
            make(&with(header(), &[("kid", json!(other_key))]), &claims(), &key(3)),
            Rejection::Key,
        ),
        ("signed by another key", make(&header(), &claims(), &key(2)), Rejection::Signature),
        ("another audience", claimed(&[("aud", json!("https://owner.example/mcp/"))]), Rejection::Audience),
        ("a list of audiences", claimed(&[("aud", json!([URL]))]), Rejection::Audience),
        (
            "expired",
            claimed(&[("iat", json!(NOW - 630)), ("nbf", json!(NOW - 630)), ("exp", json!(NOW - 30))]),
            Rejection::Time,
        ),
        ("of the future", claimed(&[("iat", json!(NOW + 31)), ("nbf", json!(NOW + 31))]), Rejection::Time),
        ("not yet", claimed(&[("nbf", json!(NOW + 31))]), Rejection::Time),
        ("16 minutes long", claimed(&[("exp", json!(NOW + 901))]), Rejection::Time),
        ("ends before it begins", claimed(&[("exp", json!(NOW - 1))]), Rejection::Time),
        ("an end beyond numbers", claimed(&[("iat", json!(i64::MIN)), ("exp", json!(i64::MAX))]), Rejection::Time),
        ("a text as time", claimed(&[("exp", json!((NOW + 600).to_string()))]), Rejection::Time),
        ("no nbf", without("nbf"), Rejection::Time),
        (
            "before valid_from",
            claimed(&[("iat", json!(NOW - 101)), ("nbf", json!(NOW - 101)), ("exp", json!(NOW + 500))]),
            Rejection::Void,
        ),
        ("revoked", claimed(&[("jti", json!("revoked"))]), Rejection::Revoked),
        ("no id", without("jti"), Rejection::Claims),
        ("no DID", claimed(&[("sub", json!("peer")), ("client_id", json!("peer"))]), Rejection::Subject),
        ("did:key", claimed(&[("sub", json!("did:key:z6")), ("client_id", json!("did:key:z6"))]), Rejection::Subject),
        (
            "a DID URL",
            claimed(&[("sub", json!("did:web:a#b")), ("client_id", json!("did:web:a#b"))]),
            Rejection::Subject,
        ),
        ("another client", claimed(&[("client_id", json!(ISSUER))]), Rejection::Subject),
        ("a scope for writes", claimed(&[("scope", json!("mcp:read ledger"))]), Rejection::Scope),
        ("no scope", without("scope"), Rejection::Scope),
        ("an endpoint of another", claimed(&[("endpoint", json!("did:web:other#mcp"))]), Rejection::Claims),
        // Several rules at once: the first decides.
        (
            "all of them",
            make(
                &with(header(), &[("kid", json!(key_id(PEER, 3)))]),
                &with(claims(), &[("aud", json!("x")), ("exp", json!(1)), ("jti", json!("revoked"))]),
                &key(4),
            ),
            Rejection::Issuer,
        ),
        (
            "audience, time and list",
            claimed(&[("aud", json!("x")), ("exp", json!(1)), ("jti", json!("revoked"))]),
            Rejection::Audience,
        ),
        ("time and list", claimed(&[("exp", json!(1)), ("jti", json!("revoked"))]), Rejection::Time),
    ];
    for (name, token, expected) in table {
        assert_eq!(verify(&token), Err(expected), "{name}");
    }
    let within_leeway = claimed(&[("iat", json!(NOW + 30)), ("nbf", json!(NOW + 30)), ("exp", json!(NOW + 600))]);
    assert!(verify(&within_leeway).is_ok(), "clocks differ by half a minute");
}

#[test]
fn every_changed_bit_of_a_token_is_noticed() {
    let token = make(&header(), &claims(), &key(1));
    for place in 0..token.len() {
        let mut bytes = token.clone().into_bytes();
        bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).expect("text");
        assert!(verify(&changed).is_err(), "place {place}");
    }
}

fn presented(
    changes: &[(&str, Value)],
    header_changes: &[(&str, Value)],
    by: u8,
) -> Result<PresentedCredential, AccessRejection> {
    let claims = json!({"@context": ["https://www.w3.org/ns/credentials/v2"], "type": ["VerifiablePresentation"],
        "verifiableCredential": [{"credentialSubject": {"id": PEER}}], "holder": PEER, "iss": PEER, "aud": URL,
        "iat": NOW, "exp": NOW + 300, "jti": "p-1"});
    let header = json!({"alg": "EdDSA", "typ": "vp+jwt", "kid": key_id(PEER, 5)});
    let text = make(&with(header, header_changes), &with(claims, changes), &key(by));
    let document = document(PEER, &[("authentication", 5), ("assertionMethod", 6)]);
    AccessPresentation::read(&text)?.verify(URL, &document, NOW)
}

#[test]
fn each_rule_of_a_presentation_is_checked() {
    use AccessRejection as Rejection;
    let credential = json!({"credentialSubject": {"id": PEER}, "type": ["VerifiableCredential"]});
    let text = sign_access_presentation(&credential, (PEER, URL), ("p-1", NOW), (&key_id(PEER, 5), &key(5)));
    let document = document(PEER, &[("authentication", 5)]);
    let verified = AccessPresentation::read(&text).expect("a presentation").verify(URL, &document, NOW);
    let expected = PresentedCredential { holder: PEER.into(), credential, id: "p-1".into(), expires_at: NOW + 300 };
    assert_eq!(verified, Ok(expected));
    for (name, changes, header_changes, by, rejection) in [
        ("a token", vec![], vec![("typ", json!("at+jwt"))], 5, Rejection::Header),
        ("a holder that did not sign", vec![("holder", json!(ISSUER))], vec![], 5, Rejection::Issuer),
        ("another issuer", vec![("iss", json!(ISSUER))], vec![], 5, Rejection::Issuer),
        ("a key for assertions", vec![], vec![("kid", json!(key_id(PEER, 6)))], 6, Rejection::Key),
        ("another key", vec![], vec![], 6, Rejection::Signature),
        ("another endpoint", vec![("aud", json!("https://other.example"))], vec![], 5, Rejection::Audience),
        ("too long", vec![("exp", json!(NOW + 301))], vec![], 5, Rejection::Time),
        ("no presentation", vec![("type", json!(["Other"]))], vec![], 5, Rejection::Claims),
        ("no credential", vec![("verifiableCredential", json!([]))], vec![], 5, Rejection::Claims),
        ("two credentials", vec![("verifiableCredential", json!([{}, {}]))], vec![], 5, Rejection::Claims),
        ("no id", vec![("jti", json!(""))], vec![], 5, Rejection::Claims),
        (
            "a credential about another",
            vec![("verifiableCredential", json!([{"credentialSubject": {"id": ISSUER}}]))],
            vec![],
            5,
            Rejection::Subject,
        ),
    ] {
        assert_eq!(presented(&changes, &header_changes, by), Err(rejection), "{name}");
    }
}

#[test]
fn a_presentation_is_used_once_and_their_memory_is_bounded() {
    let mut seen = SeenPresentations::new(2);
    let one = |id: &str, expires_at| PresentedCredential {
        holder: PEER.into(),
        credential: json!({}),
        id: id.into(),
        expires_at,
    };
    assert_eq!(seen.note(&one("a", NOW + 300), NOW), Ok(()));
    assert_eq!(
        seen.note(&one("a", NOW + 300), NOW + 329),
        Err(AccessRejection::Revoked),
        "within the leeway of its end"
    );
    assert_eq!(seen.note(&one("b", NOW + 300), NOW), Ok(()));
    assert_eq!(seen.note(&one("c", NOW + 300), NOW), Err(AccessRejection::Revoked), "no room");
    assert_eq!(seen.note(&one("c", NOW + 900), NOW + 331), Ok(()), "those that ended are forgotten");
}
