//! Envelopes recorded from the reference agent, with the keys of their recipients. The keys were thrown away.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use svc_wire::verification_method::did_of_url;

use crate::{
    Refusal, delivery,
    envelope::{Envelope, KeyAgreementKey, Opened, Sender},
    from_prior::FromPrior,
    limits, peer_did,
    protocol::{Content, vt_flow::VtFlow},
};

const VECTORS: [&str; 17] = [
    include_str!("../../tests/fixtures/01-basicmessage-authcrypt-webvh-to-webvh.json"),
    include_str!("../../tests/fixtures/02-basicmessage-from-prior-peer4.json"),
    include_str!("../../tests/fixtures/03-basicmessage-to-peer4.json"),
    include_str!("../../tests/fixtures/04-basicmessage-peer4-no-from-prior.json"),
    include_str!("../../tests/fixtures/05-reference-to-didweb-peer.json"),
    include_str!("../../tests/fixtures/10-vtflow-onboarding-request.json"),
    include_str!("../../tests/fixtures/11-vtflow-validating.json"),
    include_str!("../../tests/fixtures/12-vtflow-oob-link.json"),
    include_str!("../../tests/fixtures/13-issue-credential-offer.json"),
    include_str!("../../tests/fixtures/14-issue-credential-request.json"),
    include_str!("../../tests/fixtures/15-issue-credential-issue.json"),
    include_str!("../../tests/fixtures/16-issue-credential-ack.json"),
    include_str!("../../tests/fixtures/17-vtflow-credential-state-change.json"),
    include_str!("../../tests/fixtures/18-vtflow-issuance-request.json"),
    include_str!("../../tests/fixtures/19-vtflow-problem-report-reject.json"),
    include_str!("../../tests/fixtures/20-issue-credential-problem-report.json"),
    include_str!("../../tests/fixtures/21-empty-rotate-to-nothing-anoncrypt.json"),
];

struct Vector(Value);

impl Vector {
    fn all() -> impl Iterator<Item = Self> {
        VECTORS.iter().map(|text| Self(serde_json::from_str(text).expect("JSON")))
    }

    fn document(&self, did: &str) -> Value {
        let places = [
            &self.0["sender"]["did_document"],
            &self.0["from_prior"]["issuer_did_document"],
            &self.0["did_documents"][did],
        ];
        let found = places.into_iter().find(|document| document["id"] == did);
        found.cloned().unwrap_or_else(|| peer_did::resolve(did).expect("a did:peer"))
    }

    fn open(&self, envelope: &Value) -> Result<Opened, Refusal> {
        let recipient = &self.0["recipient"];
        let secret = recipient["private_jwk"]["d"].as_str().expect("a key");
        let secret = BASE64_URL_SAFE_NO_PAD.decode(secret).expect("base64url").try_into().expect("32 bytes");
        let own_did = self.0["plaintext"]["to"][0].as_str().expect("a DID");
        let text = envelope.to_string();
        let envelope = Envelope::read(text.as_bytes())?;
        let document = envelope.sender_key_id().map(|id| self.document(did_of_url(id)));
        let kid = recipient["kid"].as_str().expect("a key id");
        envelope.open(kid, &KeyAgreementKey::from_bytes(&secret), own_did, document.as_ref(), 1_795_331_000)
    }
}

#[test]
fn every_recorded_envelope_opens_to_its_message() {
    for vector in Vector::all() {
        let opened = vector.open(&vector.0["envelope"]).expect("it opens");
        let mut message = opened.message.to_json();
        message.as_object_mut().expect("an object").remove("typ");
        assert_eq!(message, vector.0["plaintext"], "{}", vector.0["description"]);
        assert!(Content::read(&opened.message).is_ok(), "{}", opened.message.kind);
        let is_anonymous = vector.0["protected_decoded"]["alg"] == "ECDH-ES+A256KW";
        assert_eq!(opened.sender == Sender::Anonymous, is_anonymous);
    }
}

#[test]
fn a_changed_byte_is_refused_wherever_it_is() {
    fn changed(text: &str) -> Value {
        let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(text).expect("base64url");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        json!(BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }
    for vector in Vector::all() {
        for place in ["/protected", "/recipients/0/encrypted_key", "/iv", "/ciphertext", "/tag"] {
            let mut envelope = vector.0["envelope"].clone();
            let member = envelope.pointer_mut(place).expect("a member");
            *member = changed(member.as_str().expect("text"));
            assert!(vector.open(&envelope).is_err(), "{place} of {}", vector.0["description"]);
        }
    }
}

#[test]
fn every_recorded_from_prior_is_that_of_its_issuer() {
    let with_prior = Vector::all().filter(|vector| vector.0["plaintext"]["from_prior"].is_string());
    let mut count = 0;
    for vector in with_prior {
        let jwt = vector.0["plaintext"]["from_prior"].as_str().expect("a JWT");
        let prior = FromPrior::read(jwt).expect("a from_prior");
        if !vector.0["from_prior"].is_object() {
            continue;
        }
        count += 1;
        let claims = &vector.0["from_prior"]["claims"];
        assert_eq!(
            (claims["iss"].as_str(), claims["iat"].as_i64()),
            (Some(prior.issuer.as_str()), Some(prior.issued_at))
        );
        assert_eq!(claims["sub"].as_str(), prior.subject.as_deref());
        let document = vector.document(&prior.issuer);
        assert_eq!(prior.verify(&document, prior.issued_at), Ok(()), "{}", vector.0["description"]);
        let (signed, signature) = jwt.rsplit_once('.').expect("three parts");
        let (_, claims_part) = signed.split_once('.').expect("two parts");
        let other = json!({"alg": "EdDSA", "kid": vector.0["from_prior"]["header"]["kid"], "typ": "x"});
        let forged = format!("{}.{claims_part}.{signature}", BASE64_URL_SAFE_NO_PAD.encode(other.to_string()));
        let forged = FromPrior::read(&forged).expect("its form is right");
        assert_eq!(forged.verify(&document, prior.issued_at), Err(Refusal::FromPriorProof));
    }
    assert!(count >= 3, "{count}");
}

#[test]
fn the_recorded_did_peer_is_read_and_made() {
    let vector: Value = serde_json::from_str(include_str!("../../tests/fixtures/40-did-peer-4.json")).expect("JSON");
    let (long, short) = (vector["long"].as_str().expect("text"), vector["short"].as_str().expect("text"));
    let mut document = peer_did::resolve(long).expect("a document");
    assert!(peer_did::is_same_did(long, short));
    assert_eq!((&document["id"], &document["alsoKnownAs"]), (&json!(long), &json!([short])));
    let made = peer_did::encode(&vector["decoded_input_document"]);
    assert_eq!(peer_did::resolve(&made.long).expect("a document")["keyAgreement"], document["keyAgreement"]);
    for name in ["id", "alsoKnownAs"] {
        document.as_object_mut().expect("an object").remove(name);
    }
    assert_eq!(document, vector["decoded_input_document"]);
}

#[test]
fn a_link_ends_at_the_time_that_others_write_beside_its_body() {
    let vector =
        Vector::all().find(|vector| vector.0["plaintext"]["type"] == "https://didcomm.org/vt-flow/1.0/oob-link");
    let vector = vector.expect("an oob-link");
    let opened = vector.open(&vector.0["envelope"]).expect("it opens");
    let Ok(Content::VtFlow(VtFlow::OobLink { expires_time, .. })) = Content::read(&opened.message) else {
        panic!("an oob-link");
    };
    assert_eq!(expires_time, Some(1_798_761_600), "2027-01-01T00:00:00Z");
}

#[test]
fn the_limits_are_those_of_the_contract() {
    let contract: Value = serde_json::from_str(include_str!("../../tests/fixtures/contract.json")).expect("JSON");
    let contract = &contract["didcomm"];
    assert_eq!(
        contract["limits"],
        json!({
            "messageBytes": limits::MAX_MESSAGE_BYTES,
            "jsonDepth": limits::MAX_JSON_LEVELS,
            "recipients": limits::MAX_RECIPIENTS,
            "didBytes": limits::MAX_DID_BYTES,
            "idBytes": limits::MAX_ID_BYTES,
            "basicMessageBytes": limits::MAX_BASIC_MESSAGE_BYTES,
            "attachments": limits::MAX_ATTACHMENTS,
            "clockSkewSeconds": limits::CLOCK_SKEW_SECONDS,
        })
    );
    let not_sent = contract["delivery"]["notSent"].as_str().expect("text");
    for status in [404, 408, 425, 429, 502, 503, 504] {
        assert!(not_sent.contains(&status.to_string()));
        assert_eq!(delivery::attempt_of_status(status), delivery::Attempt::NotSent);
    }
}
