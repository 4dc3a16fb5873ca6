use serde_json::{Value, json};
use svc_agent_core::error::RefusalCode;
use svc_net::host_policy::HostPolicy;

use super::*;

const DID: &str = "did:web:agent.example.com";

fn document() -> DidDocument {
    let keys = DocumentKeys { signing: "z6MkSigning".to_owned(), agreement: "z6LSAgreement".to_owned() };
    DidDocument::new(DID, &keys).with_admin_api(Some("https://admin.example.com"))
}

fn add(id: Option<&str>, kind: &str, endpoint: Value) -> ServiceChange {
    ServiceChange::Add { id: id.map(ServiceIdPath::new), kind: kind.to_owned(), endpoint }
}

fn refusal(document: &mut DidDocument, change: &ServiceChange) -> Option<RefusalCode> {
    let before = document.clone();
    let code = change.apply(document, HostPolicy::PublicOnly).err().map(|refusal| refusal.code);
    assert!(code.is_none() || *document == before, "a refused change leaves the document as it was");
    code
}

#[test]
fn ids_are_fragments_of_the_own_did_in_three_forms() {
    for text in ["mcp", "#mcp", "did:web:agent.example.com#mcp"] {
        let mut document = document();
        let entry = add(Some(text), "MCP", json!("https://example.com")).apply(&mut document, HostPolicy::PublicOnly);
        assert_eq!(entry.expect("added").id, "did:web:agent.example.com#mcp", "{text}");
    }
    for text in [
        "",
        "#",
        "did:web:other.example#mcp",
        "did:web:agent.example.com",
        "a b",
        "a#b",
        "admin%2Dapi",
        "%66iles",
        "%4",
        "ü",
        "files",
        "#whois",
        "admin-api",
        "vpr-schemas-org-vtc-vp",
        "didcomm-1",
        &"a".repeat(129),
    ] {
        let change = add(Some(text), "MCP", json!("https://example.com"));
        assert_eq!(refusal(&mut document(), &change), Some(RefusalCode::InvalidInput), "{text}");
    }
    for text in ["%23", "a/b?c", "A-._~!$&'()*+,;=:@", &"a".repeat(128)] {
        assert_eq!(refusal(&mut document(), &add(Some(text), "MCP", json!("https://example.com"))), None, "{text}");
    }
}

#[test]
fn an_id_is_used_once_also_as_that_of_a_key() {
    let mut document = document();
    assert_eq!(refusal(&mut document, &add(Some("mcp"), "MCP", json!("https://example.com"))), None);
    for id in ["mcp", "z6MkSigning"] {
        let change = add(Some(id), "MCP", json!("https://example.com"));
        assert_eq!(refusal(&mut document, &change), Some(RefusalCode::DuplicateId));
    }
}

#[test]
fn an_entry_without_an_id_has_one_made_of_its_type() {
    let mut document = document();
    for (kind, fragment) in [
        ("MCP", "mcp"),
        ("MCP", "mcp-2"),
        ("mcp", "mcp-3"),
        ("Linked Domains!", "linked-domains"),
        ("…", "service"),
        ("Whois", "service-whois"),
        ("DidComm Mediator", "service-didcomm-mediator"),
    ] {
        let entry = add(None, kind, json!("https://example.com")).apply(&mut document, HostPolicy::PublicOnly);
        assert_eq!(entry.expect("added").id, format!("{DID}#{fragment}"));
    }
    let long = add(None, &"x".repeat(128), json!("https://example.com")).apply(&mut document, HostPolicy::PublicOnly);
    assert!(long.is_ok_and(|entry| entry.id.len() < 160));
}

#[test]
fn entries_of_the_agent_are_not_changed_by_callers_in_any_way() {
    let types = [
        ("DIDCommMessaging", RefusalCode::DidCommEntry),
        ("did-communication", RefusalCode::DidCommEntry),
        ("linkedverifiablepresentation", RefusalCode::LinkedPresentationEntry),
        ("VsAgentAdminAPI", RefusalCode::AdminApiEntry),
        ("AnonCredsRegistry", RefusalCode::InvalidInput),
        ("RELATIVEREF", RefusalCode::InvalidInput),
        ("EndpointAccess", RefusalCode::InvalidInput),
        ("", RefusalCode::InvalidInput),
        ("a\u{7}", RefusalCode::InvalidInput),
        (&"x".repeat(129), RefusalCode::InvalidInput),
    ];
    let mut document = document();
    assert_eq!(refusal(&mut document, &add(Some("mcp"), "MCP", json!("https://example.com"))), None);
    for (kind, code) in types {
        assert_eq!(refusal(&mut document, &add(None, kind, json!("https://example.com"))), Some(code), "{kind}");
        let update = ServiceUpdate { kind: Some(kind.to_owned()), endpoint: None };
        let change = ServiceChange::Update { id: ServiceIdPath::new("mcp"), update };
        assert_eq!(refusal(&mut document, &change), Some(code), "{kind}");
    }
    let id = ServiceIdPath::new("#admin-api");
    let update = ServiceUpdate { endpoint: Some(json!("https://example.com")), ..ServiceUpdate::default() };
    for change in [ServiceChange::Update { id: id.clone(), update }, ServiceChange::Delete { id }] {
        assert_eq!(refusal(&mut document, &change), Some(RefusalCode::AdminApiEntry));
    }
    let unknown = ServiceChange::Delete { id: ServiceIdPath::new("other") };
    assert_eq!(refusal(&mut document, &unknown), Some(RefusalCode::UnknownId));
}

#[test]
fn endpoints_are_uris_objects_or_several_of_them() {
    let deep = (0..16).fold(json!("x"), |inner, _| json!({"a": inner}));
    for endpoint in [
        json!("https://example.com/a?b#c"),
        json!("http://example.com"),
        json!("HTTP://example.com"),
        json!("wss://10.0.0.1/"),
        json!("mailto:a@example.com"),
        json!("did:web:other.example"),
        json!({"uri": "https://example.com", "accept": ["didcomm/v2"]}),
        json!({"a": 1}),
        deep.clone(),
        json!(["https://example.com", {"a": 1}]),
        json!(format!("https://example.com/{}", "a".repeat(2_028))),
    ] {
        assert_eq!(refusal(&mut document(), &add(None, "MCP", endpoint.clone())), None, "{endpoint}");
    }
    for endpoint in [
        json!(""),
        json!("example.com"),
        json!("/a"),
        json!("https://exa mple.com"),
        json!(null),
        json!(1),
        json!(true),
        json!({}),
        json!([]),
        json!([[]]),
        json!(["https://example.com", 1]),
        json!(vec!["https://example.com"; 17]),
        json!({"uri": 1}),
        json!({"uri": "a"}),
        json!({"uri": "javascript:alert(1)"}),
        json!("JavaScript:alert(1)"),
        json!("data:text/html,a"),
        json!("file:///etc/passwd"),
        json!("blob:https://example.com/a"),
        json!("vbscript:a"),
        json!("https://a:b@example.com"),
        json!("http://a@example.com"),
        json!("https:a:b@example.com"),
        json!("https://127.0.0.1"),
        json!("http://10.0.0.1/"),
        json!("https://localhost"),
        json!("https://[::1]/"),
        json!("https://a.internal"),
        json!("https://0x7f.1/"),
        json!({"a": deep}),
        json!(format!("https://example.com/{}", "a".repeat(2_029))),
    ] {
        let change = add(None, "MCP", endpoint.clone());
        assert_eq!(refusal(&mut document(), &change), Some(RefusalCode::InvalidServiceEndpoint), "{endpoint}");
    }
    let private = add(None, "MCP", json!("http://127.0.0.1:8080/mcp"));
    assert!(private.apply(&mut document(), HostPolicy::AllowPrivate).is_ok());
}

#[test]
fn an_update_replaces_the_given_members_whole() {
    let mut document = document();
    assert_eq!(refusal(&mut document, &add(Some("mcp"), "MCP", json!({"uri": "https://example.com", "a": 1}))), None);
    let update = ServiceUpdate { endpoint: Some(json!({"b": 2})), ..ServiceUpdate::default() };
    let change = ServiceChange::Update { id: ServiceIdPath::new("mcp"), update };
    let entry = change.apply(&mut document, HostPolicy::PublicOnly).expect("updated");
    assert_eq!((entry.kind.as_str(), &entry.endpoint), ("MCP", &json!({"b": 2})));
    let before = document.clone();
    change.apply(&mut document, HostPolicy::PublicOnly).expect("the same again");
    assert_eq!(document, before);
    let deleted = ServiceChange::Delete { id: ServiceIdPath::new("mcp") };
    assert_eq!(deleted.apply(&mut document, HostPolicy::PublicOnly).expect("removed"), entry);
    assert_eq!(document.services().len(), 1);
}

#[test]
fn a_document_at_its_bound_takes_deletions_only() {
    let mut document = document();
    let large = |number: usize| add(Some(&format!("a{number}")), "MCP", json!({"text": "x".repeat(2_000)}));
    let refused = (0..100).find_map(|number| refusal(&mut document, &large(number)).map(|code| (number, code)));
    assert!(
        refused.is_some_and(|(number, code)| number > 25 && code == RefusalCode::InvalidServiceEndpoint),
        "{refused:?}"
    );
    assert!(document.canonical_length() <= MAX_DOCUMENT_BYTES);
    let delete = ServiceChange::Delete { id: ServiceIdPath::new("a0") };
    assert_eq!(refusal(&mut document, &delete), None);
    assert_eq!(refusal(&mut document, &large(0)), None);
}

#[test]
fn a_document_that_no_resolver_takes_is_refused() {
    let heavy = add(None, "MCP", json!({"a": vec![json!({"a": 0}); 2_000]}));
    assert_eq!(refusal(&mut document(), &heavy), Some(RefusalCode::InvalidServiceEndpoint));
}

#[test]
fn the_parallel_document_names_the_webvh_did_as_an_alias() {
    let keys = DocumentKeys { signing: "z6Mk".to_owned(), agreement: "z6LS".to_owned() };
    let web = DidDocument::new("did:webvh:QmS:agent.example.com:a", &keys)
        .to_parallel_web("QmS", "https://agent.example.com/a");
    assert_eq!(web["id"], "did:web:agent.example.com:a");
    assert_eq!(web["alsoKnownAs"], json!(["did:webvh:QmS:agent.example.com:a"]));
    assert_eq!(
        web["authentication"],
        json!(["did:web:agent.example.com:a#z6Mk", "did:web:agent.example.com:a#z6Mk-2020"])
    );
    assert_eq!(web["service"][0]["serviceEndpoint"], "https://agent.example.com/a");
    assert_eq!(web["service"][1]["serviceEndpoint"], "https://agent.example.com/a/whois.vp");
}
