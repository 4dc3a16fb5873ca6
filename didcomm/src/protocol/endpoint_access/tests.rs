//! Frames as they are written and read, and those that cannot be read.

use super::*;

const ID: &str = "018f4c5e-7a2b-4c3d-8e9f-0a1b2c3d4e5f";
const ENDPOINT: &str = "did:web:a.example#mcp";

fn grant(material: GrantedMaterial) -> AccessGrant {
    AccessGrant {
        id: ID.into(),
        endpoint: ENDPOINT.into(),
        url: "https://a.example/mcp".into(),
        scopes: vec!["mcp:read".into()],
        expires_at: Some(1_800_000_000),
        material,
    }
}

fn secret(text: &str) -> MaterialSecret {
    MaterialSecret::new(text.to_owned())
}

#[test]
fn every_frame_is_read_as_it_is_written() {
    let request = AccessRequest {
        id: ID.into(),
        endpoint: ENDPOINT.into(),
        scopes: Some(vec!["mcp:read".into()]),
        accept: Some(vec![Material::Bearer, Material::None]),
    };
    assert_eq!(AccessFrame::read(&request.to_content()), Some(AccessFrame::Request(request)));
    for material in [
        GrantedMaterial::None,
        GrantedMaterial::Bearer { token: secret("a.b.c") },
        GrantedMaterial::Key { header: "X-Key".into(), value: secret("a\"b\\c é") },
        GrantedMaterial::Credential { schema_id: "7".into(), issuer: "did:web:issuer".into() },
    ] {
        let grant = grant(material);
        let content = grant.to_content();
        assert_eq!(AccessFrame::read(&content), Some(AccessFrame::Grant(Box::new(grant))), "{}", *content);
    }
    let denial = AccessDenial {
        id: ID.into(),
        endpoint: Some(ENDPOINT.into()),
        code: DenyCode::RateLimited,
        message: "too many".into(),
        retry_after: Some(7),
    };
    assert_eq!(AccessFrame::read(&denial.to_content()), Some(AccessFrame::Denial(denial)));
    let revocation = AccessRevocation { id: ID.into(), endpoint: ENDPOINT.into(), reason: None };
    assert_eq!(AccessFrame::read(&revocation.to_content()), Some(AccessFrame::Revocation(revocation)));
}

#[test]
fn a_grant_shows_no_secret_in_formats_and_is_the_same_text_each_time() {
    let granted = grant(GrantedMaterial::Bearer { token: secret("planted-secret") });
    assert!(!format!("{granted:?}").contains("planted-secret"));
    assert_eq!(
        *granted.to_content(),
        concat!(
            r#"{"svc":"endpoint-access/1","op":"grant","id":"018f4c5e-7a2b-4c3d-8e9f-0a1b2c3d4e5f","#,
            r#""endpoint":"did:web:a.example#mcp","url":"https://a.example/mcp","material":"bearer","scopes":["mcp:read"],"#,
            r#""expires_at":"2027-01-15T08:00:00.000Z","token_type":"Bearer","token":"planted-secret"}"#
        )
    );
}

#[test]
fn texts_for_people_are_no_frames() {
    for text in [
        "hello",
        "",
        "{}",
        r#"{"svc":"other/1"}"#,
        r#"{"text":"see endpoint-access/1"}"#,
        r#"{"svc":7,"text":"endpoint-access/1"}"#,
        r#"see {"svc":"endpoint-access/1"}"#,
        "{ this is endpoint-access/1, for people }",
    ] {
        assert_eq!(AccessFrame::read(text), None, "{text}");
    }
}

#[test]
fn a_frame_that_cannot_be_read_is_no_text_either() {
    let request = |change: fn(&mut Value)| {
        let mut frame = json!({"svc": VERSION, "op": "request", "id": ID, "endpoint": ENDPOINT});
        change(&mut frame);
        AccessFrame::read(&frame.to_string())
    };
    let refused = |frame: Option<AccessFrame>| match frame {
        Some(AccessFrame::UnreadableRequest { id, code, .. }) => (id.is_some(), code),
        other => panic!("{other:?}"),
    };
    for (frame, expected) in [
        (request(|frame| frame["endpoint"] = json!("did:web:a.example")), (true, DenyCode::InvalidRequest)),
        (request(|frame| frame["endpoint"] = json!("https://a.example#mcp")), (true, DenyCode::InvalidRequest)),
        (request(|frame| frame["endpoint"] = json!("did:web:a.example#a b")), (true, DenyCode::InvalidRequest)),
        (request(|frame| frame["scopes"] = json!(["Not a scope"])), (true, DenyCode::InvalidRequest)),
        (request(|frame| frame["scopes"] = json!(vec!["a"; 17])), (true, DenyCode::InvalidRequest)),
        (request(|frame| frame["scopes"] = json!("a")), (true, DenyCode::InvalidRequest)),
        (request(|frame| frame["accept"] = json!([7])), (true, DenyCode::InvalidRequest)),
        (request(|frame| frame["more"] = json!("x".repeat(MAX_FRAME_BYTES))), (true, DenyCode::InvalidRequest)),
        (request(|frame| frame["svc"] = json!("endpoint-access/2")), (true, DenyCode::UnsupportedVersion)),
        (request(|frame| frame["id"] = json!("7")), (false, DenyCode::InvalidRequest)),
        (request(|frame| frame["id"] = json!(ID.to_uppercase())), (false, DenyCode::InvalidRequest)),
    ] {
        assert_eq!(refused(frame), expected);
    }
    let readable = request(|frame| frame["unknown"] = json!({"a": 1}));
    assert!(matches!(readable, Some(AccessFrame::Request(_))), "unknown members are ignored");
    let later = request(|frame| frame["accept"] = json!(["gold", "none"]));
    assert!(matches!(later, Some(AccessFrame::Request(request)) if request.accept == Some(vec![Material::None])));
    let twice = request(|frame| frame["scopes"] = json!(["a", "a"]));
    assert!(matches!(twice, Some(AccessFrame::Request(request)) if request.scopes == Some(vec!["a".to_owned()])));
    let valid = grant(GrantedMaterial::Bearer { token: secret("t") }).to_content();
    for (from, to) in [
        ("\"Bearer\"", "\"MAC\""),
        ("\"bearer\"", "\"gold\""),
        (",\"token\":\"t\"", ""),
        ("\"2027-01-15T08:00:00.000Z\"", "1800000000"),
        ("\"expires_at\":\"2027-01-15T08:00:00.000Z\",", ""),
        ("\"grant\"", "\"gift\""),
        ("\"grant\"", "\"deny\""),
        ("\"grant\",", "\"grant\",\"op\":\"grant\","),
        ("\"t\"}", "\"t\""),
        ("endpoint-access/1", "endpoint-access/2"),
    ] {
        let wrong = valid.replacen(from, to, 1);
        assert_ne!(wrong, *valid, "{from}");
        let read = AccessFrame::read(&wrong);
        assert!(matches!(read, Some(AccessFrame::Unreadable(_))), "{wrong} is {read:?}");
    }
}
