//! One envelope of ours for each check, changed so that this check alone refuses it.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_wire::verification_method::{KeyKind, multikey};

use crate::{
    Message, Refusal,
    envelope::{Envelope, KeyAgreementKey, Opened, seal, seal_anonymously},
    from_prior::make_from_prior,
    limits, peer_did,
    protocol::{self, basic_message},
};

const OURS: &str = "did:web:ours.example";
const THEIRS: &str = "did:web:theirs.example";
const NOW: i64 = 1_800_000_000;

fn key(seed: u8) -> KeyAgreementKey {
    KeyAgreementKey::from_bytes(&[seed; 32])
}

fn document(did: &str, key: &KeyAgreementKey) -> Value {
    let method =
        json!({"id": "#ka", "type": "Multikey", "publicKeyMultibase": multikey(KeyKind::X25519, &key.public_key())});
    json!({"id": did, "verificationMethod": [method], "keyAgreement": ["#ka"]})
}

fn message() -> Message {
    let message = Message::new("1", basic_message::MESSAGE, json!({"content": "hello"}));
    Message { from: Some(THEIRS.into()), to: vec![OURS.into()], ..message }
}

fn sealed(message: &Message) -> Value {
    let (sender, recipient) = (format!("{THEIRS}#ka"), format!("{OURS}#ka"));
    let text = seal(message, (&sender, &key(2)), (&recipient, &key(1).public_key())).expect("an envelope");
    serde_json::from_str(&text).expect("JSON")
}

fn open_bytes(bytes: &[u8], sender_document: &Value) -> Result<Opened, Refusal> {
    let envelope = Envelope::read(bytes)?;
    envelope.open(&format!("{OURS}#ka"), &key(1), OURS, Some(sender_document), NOW)
}

fn open(envelope: &Value) -> Result<Opened, Refusal> {
    open_bytes(envelope.to_string().as_bytes(), &document(THEIRS, &key(2)))
}

/// The envelope with another protected header, whose `apv` fits the recipients.
fn with_header(change: impl FnOnce(&mut Value)) -> Value {
    let mut envelope = sealed(&message());
    let text = envelope["protected"].as_str().expect("text");
    let mut header: Value =
        serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(text).expect("base64url")).expect("JSON");
    change(&mut header);
    envelope["protected"] = json!(BASE64_URL_SAFE_NO_PAD.encode(header.to_string()));
    envelope
}

fn with_recipients(kids: &[String]) -> Value {
    let mut sorted = kids.to_vec();
    sorted.sort();
    let mut envelope =
        with_header(|header| header["apv"] = json!(BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(sorted.join(".")))));
    envelope["recipients"] = kids.iter().map(|kid| json!({"header": {"kid": kid}, "encrypted_key": "AA"})).collect();
    envelope
}

fn with(name: &str, value: Value) -> Value {
    let mut envelope = sealed(&message());
    envelope[name] = value;
    envelope
}

fn without(name: &str) -> Value {
    let mut envelope = sealed(&message());
    envelope.as_object_mut().expect("an object").remove(name);
    envelope
}

#[test]
fn a_message_of_a_peer_is_taken() {
    let opened = open(&sealed(&message())).expect("it opens");
    assert_eq!(opened.message, message());
}

#[test]
fn each_wrong_form_is_refused_before_a_key_is_used() {
    let kids = |count: usize| (0..count).map(|index| format!("{OURS}#{index}")).collect::<Vec<_>>();
    let nested = |levels: usize| {
        let mut value = json!(0);
        for _ in 0..levels {
            value = json!([value]);
        }
        value
    };
    let point = |bytes: [u8; 32]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    for (what, envelope, expected) in [
        ("a signed message", json!({"payload": "e30", "signatures": []}), Refusal::OnlySigned),
        ("a message in the clear", message().to_json(), Refusal::NotEncrypted),
        ("a list", json!([]), Refusal::NotAnEnvelope),
        ("nothing", json!({}), Refusal::NotAnEnvelope),
        ("no tag", without("tag"), Refusal::NotAnEnvelope),
        ("additional authenticated data", with("aad", json!("AA")), Refusal::NotAnEnvelope),
        ("an unprotected header", with("unprotected", json!({})), Refusal::NotAnEnvelope),
        ("a number for the iv", with("iv", json!(7)), Refusal::NotAnEnvelope),
        ("33 levels", with("x", nested(limits::MAX_JSON_LEVELS)), Refusal::TooDeep),
        ("many values", with("x", json!(vec![0; limits::MAX_JSON_VALUES])), Refusal::TooManyValues),
        ("no recipient", with("recipients", json!([])), Refusal::Recipients),
        ("nine recipients", with_recipients(&kids(9)), Refusal::Recipients),
        ("a thousand recipients", with_recipients(&kids(1000)), Refusal::Recipients),
        ("a header that is no JSON", with("protected", json!("AAAA")), Refusal::Header),
        ("a long header", with("protected", json!("A".repeat(limits::MAX_HEADER_BYTES + 1))), Refusal::Header),
        ("compression", with_header(|header| header["zip"] = json!("DEF")), Refusal::Header),
        ("a critical member", with_header(|header| header["crit"] = json!(["x"])), Refusal::Header),
        ("another typ", with_header(|header| header["typ"] = json!("application/json")), Refusal::Typ),
        ("no typ", with_header(|header| header["typ"] = json!(null)), Refusal::Typ),
        ("another alg", with_header(|header| header["alg"] = json!("dir")), Refusal::Alg),
        ("another enc", with_header(|header| header["enc"] = json!("XC20P")), Refusal::Enc),
        ("another curve", with_header(|header| header["epk"]["crv"] = json!("P-256")), Refusal::EphemeralKey),
        ("a short key", with_header(|header| header["epk"]["x"] = json!("AA")), Refusal::EphemeralKey),
        (
            "a key of small order",
            with_header(|header| header["epk"]["x"] = json!(point([0; 32]))),
            Refusal::EphemeralKey,
        ),
        ("apu of another", with_header(|header| header["apu"] = json!("AA")), Refusal::Apu),
        ("no apu", with_header(|header| header["apu"] = json!(null)), Refusal::Apu),
        ("apv of another", with_header(|header| header["apv"] = json!("AA")), Refusal::Apv),
        ("no skid", with_header(|header| header["skid"] = json!(null)), Refusal::SenderKeyId),
        ("a skid without fragment", with_header(|header| header["skid"] = json!(THEIRS)), Refusal::SenderKeyId),
        ("a skid without DID", with_header(|header| header["skid"] = json!("#ka")), Refusal::SenderKeyId),
        (
            "a skid in an anonymous envelope",
            with_header(|header| header["alg"] = json!("ECDH-ES+A256KW")),
            Refusal::SenderKeyId,
        ),
    ] {
        let bytes = envelope.to_string();
        assert_eq!(Envelope::read(bytes.as_bytes()).map(|_| ()), Err(expected), "{what}");
    }
    let text = sealed(&message()).to_string();
    let repeated = text.replacen('{', "{\"tag\":\"AA\",", 1);
    assert_eq!(Envelope::read(repeated.as_bytes()).map(|_| ()), Err(Refusal::NotAnEnvelope), "a repeated member");
    assert_eq!(Envelope::read(b"{").map(|_| ()), Err(Refusal::NotJson));
    assert_eq!(Envelope::read(b"\xff").map(|_| ()), Err(Refusal::NotJson));
    let large = " ".repeat(limits::MAX_MESSAGE_BYTES + 1);
    assert_eq!(Envelope::read(large.as_bytes()).map(|_| ()), Err(Refusal::TooLarge));
}

#[test]
fn each_wrong_sender_recipient_and_content_is_refused() {
    let changed = |change: fn(&mut Message)| {
        let mut message = message();
        change(&mut message);
        sealed(&message)
    };
    for (what, envelope, expected) in [
        ("from of another", changed(|message| message.from = Some("did:web:victim.example".into())), Refusal::From),
        ("no from", changed(|message| message.from = None), Refusal::From),
        ("to of another", changed(|message| message.to = vec![THEIRS.into()]), Refusal::To),
        ("no to", changed(|message| message.to = Vec::new()), Refusal::To),
        ("expired", changed(|message| message.expires_time = Some(NOW)), Refusal::Expired),
        ("a forward", changed(|message| message.kind = protocol::FORWARD.into()), Refusal::Forward),
        ("a long id", changed(|message| message.id = "x".repeat(129)), Refusal::NotAMessage),
        ("another recipient", with_recipients(&[format!("{OURS}#other")]), Refusal::RecipientKey),
    ] {
        assert_eq!(open(&envelope).map(|_| ()), Err(expected), "{what}");
    }
    let nested = {
        let mut message = message();
        message.kind = String::new();
        message.other = sealed(&message).as_object().expect("an object").clone();
        message
    };
    assert_eq!(open(&sealed(&nested)).map(|_| ()), Err(Refusal::NotAMessage), "a message without type");
    for (what, document, expected) in [
        ("another key", document(THEIRS, &key(3)), Refusal::Decryption),
        ("a document without the key", json!({"id": THEIRS}), Refusal::SenderKey),
        ("the document of another", document("did:web:victim.example", &key(2)), Refusal::SenderKey),
        (
            "a key that only signs",
            json!({"id": THEIRS, "authentication": document(THEIRS, &key(2))["verificationMethod"]}),
            Refusal::SenderKey,
        ),
    ] {
        let bytes = sealed(&message()).to_string();
        assert_eq!(open_bytes(bytes.as_bytes(), &document).map(|_| ()), Err(expected), "{what}");
        assert!(expected.may_be_an_old_document());
    }
}

#[test]
fn without_a_sender_only_the_end_of_a_connection_is_taken() {
    let prior = make_from_prior(&SigningKey::from_bytes(&[5; 32]), &format!("{THEIRS}#k"), THEIRS, None, NOW);
    let end =
        Message { to: vec![OURS.into()], from_prior: Some(prior), ..Message::new("1", protocol::EMPTY, json!({})) };
    let anonymous = |message: &Message| {
        let text = seal_anonymously(message, (&format!("{OURS}#ka"), &key(1).public_key())).expect("an envelope");
        Envelope::read(text.as_bytes())?.open(&format!("{OURS}#ka"), &key(1), OURS, None, NOW).map(|_| ())
    };
    assert_eq!(anonymous(&end), Ok(()));
    let text = Message { from: None, ..message() };
    for (what, message, expected) in [
        ("a text", text.clone(), Refusal::Anonymous),
        ("a text with a from", message(), Refusal::Anonymous),
        ("an end with a from", Message { from: Some(THEIRS.into()), ..end.clone() }, Refusal::Anonymous),
        ("an end without proof", Message { from_prior: None, ..end.clone() }, Refusal::Anonymous),
        ("a text with proof", Message { from_prior: end.from_prior.clone(), ..text }, Refusal::Anonymous),
        ("an end for another", Message { to: vec![THEIRS.into()], ..end.clone() }, Refusal::To),
    ] {
        assert_eq!(anonymous(&message), Err(expected), "{what}");
    }
}

#[test]
fn both_forms_of_a_did_peer_are_one_sender_and_one_recipient() {
    let input = |seed: u8| {
        let mut document = document("", &key(seed));
        document.as_object_mut().expect("an object").remove("id");
        peer_did::encode(&document)
    };
    let (ours, theirs) = (input(1), input(2));
    let document = peer_did::resolve(&theirs.long).expect("a document");
    for (own_form, their_form) in
        [(&ours.long, &theirs.long), (&ours.short, &theirs.long), (&ours.short, &theirs.short)]
    {
        let message = Message { from: Some(their_form.clone()), to: vec![own_form.clone()], ..message() };
        let (sender, recipient) = (format!("{their_form}#ka"), format!("{own_form}#ka"));
        let text = seal(&message, (&sender, &key(2)), (&recipient, &key(1).public_key())).expect("an envelope");
        let envelope = Envelope::read(text.as_bytes()).expect("an envelope");
        let opened = envelope.open(&recipient, &key(1), &ours.long, Some(&document), NOW).expect("it opens");
        assert_eq!(opened.sender, crate::envelope::Sender::Authenticated { did: theirs.long.clone() });
    }
}

#[test]
fn a_from_prior_of_another_form_key_or_issuer_is_refused() {
    use crate::from_prior::FromPrior;
    let signer = SigningKey::from_bytes(&[5; 32]);
    let multikey = multikey(KeyKind::Ed25519, signer.verifying_key().as_bytes());
    let document = |did: &str, relation: &str| {
        let method = json!({"id": "#k", "type": "Multikey", "publicKeyMultibase": multikey});
        let mut document = json!({"id": did, "verificationMethod": [method]});
        document[relation] = json!(["#k"]);
        document
    };
    let made = |key_id: &str, issuer: &str| make_from_prior(&signer, key_id, issuer, Some("did:web:next"), NOW);
    let good = made(&format!("{THEIRS}#k"), THEIRS);
    let verified = |jwt: &str, document: &Value| FromPrior::read(jwt)?.verify(document, NOW);
    let authentication = document(THEIRS, "authentication");
    assert_eq!(verified(&good, &authentication), Ok(()));
    assert_eq!(verified(&made("#k", THEIRS), &authentication), Ok(()), "a relative key id");
    for (what, jwt, document, expected) in [
        (
            "a key that does not authenticate",
            good.clone(),
            document(THEIRS, "assertionMethod"),
            Refusal::FromPriorProof,
        ),
        (
            "the document of another",
            good.clone(),
            document("did:web:victim", "authentication"),
            Refusal::FromPriorProof,
        ),
        ("the key of another DID", made("did:web:victim#k", THEIRS), authentication.clone(), Refusal::FromPriorProof),
        (
            "an issuer that did not sign",
            made(&format!("{THEIRS}#k"), "did:web:victim"),
            authentication.clone(),
            Refusal::FromPriorProof,
        ),
        ("an unknown key", made(&format!("{THEIRS}#z"), THEIRS), authentication.clone(), Refusal::FromPriorProof),
        (
            "two parts",
            good.rsplit_once('.').expect("parts").0.to_owned(),
            authentication.clone(),
            Refusal::FromPriorForm,
        ),
        ("no JWT", "x".to_owned(), authentication.clone(), Refusal::FromPriorForm),
        (
            "another algorithm",
            forged(&json!({"alg": "none", "kid": "#k"}), &good),
            authentication.clone(),
            Refusal::FromPriorForm,
        ),
        (
            "a subject that is no DID",
            made_with(&json!({"iss": THEIRS, "sub": 7, "iat": NOW}), &good),
            authentication,
            Refusal::FromPriorForm,
        ),
    ] {
        assert_eq!(verified(&jwt, &document), Err(expected), "{what}");
    }
}

fn forged(header: &Value, jwt: &str) -> String {
    let (_, rest) = jwt.split_once('.').expect("parts");
    format!("{}.{rest}", BASE64_URL_SAFE_NO_PAD.encode(header.to_string()))
}

fn made_with(claims: &Value, jwt: &str) -> String {
    let mut parts = jwt.split('.');
    let (header, signature) = (parts.next().expect("a header"), parts.nth(1).expect("a signature"));
    format!("{header}.{}.{signature}", BASE64_URL_SAFE_NO_PAD.encode(claims.to_string()))
}
