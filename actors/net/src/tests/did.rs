//! The lookup of an agent whose DID another implementation has made.

use std::sync::Arc;

use crate::{
    did::{DidResolver, service_origin},
    host_policy::HostPolicy,
};
use didwebvh_rs::{
    Multibase,
    prelude::{DIDWebVHState, Parameters, Secret},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

/// Makes the log of an agent at a port of this machine with the library's own functions, and updates it once.
async fn agent_did_log(port: u16) -> (String, String) {
    let mut key = Secret::generate_ed25519(None, Some(&[7; 32]));
    let public = key.get_public_keymultibase().expect("a key");
    key.id = format!("did:key:{public}#{public}");
    let parameters = Parameters { update_keys: Some(Arc::new(vec![Multibase::new(public)])), ..Parameters::default() };
    let location = format!("localhost%3A{port}:agents:a");
    let document =
        json!({"@context": ["https://www.w3.org/ns/did/v1"], "id": format!("did:webvh:{{SCID}}:{location}")});
    let mut state = DIDWebVHState::default();
    let created = "2025-01-01T00:00:00Z".parse().expect("a time");
    state.create_log_entry(Some(created), &document, &parameters, &key).await.expect("created");
    let mut document = state.log_entries()[0].get_state().clone();
    let did = document["id"].as_str().expect("a DID").to_owned();
    document["service"] = json!([{
        "id": format!("{did}#admin-api"), "type": "VsAgentAdminAPI", "serviceEndpoint": format!("http://localhost:{port}"),
    }]);
    let updated = "2025-01-02T00:00:00Z".parse().expect("a time");
    state.create_log_entry(Some(updated), &document, &parameters, &key).await.expect("updated");
    let entries = state.log_entries().iter();
    let lines = entries.map(|entry| serde_json::to_string(&entry.log_entry).expect("an entry") + "\n");
    (did.clone(), lines.collect())
}

#[tokio::test]
async fn the_admin_api_of_an_agent_is_found_through_its_did_webvh() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (did, log) = agent_did_log(port).await;
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(stream.read_u8().await.expect("a request"));
            }
            assert!(request.starts_with(b"GET /agents/a/did.jsonl HTTP/1.1\r\n"));
            // Agents serve their log with this type, and forbid caches.
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: text/jsonl\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n";
            stream.write_all(format!("{head}{log}").as_bytes()).await.expect("sent");
        }
    });
    let resolver = DidResolver::new(HostPolicy::AllowPrivate).expect("a client");
    let document = resolver.resolve_fresh(&format!("{did}#admin-api")).await.expect("it resolves");
    let origin = service_origin(&document, "VsAgentAdminAPI").expect("an admin API");
    assert_eq!(origin, format!("http://localhost:{port}"));
    resolver.policy().check_url(&origin).expect("an origin that may be contacted");
    let kinds: Vec<&str> = document["service"]
        .as_array()
        .expect("services")
        .iter()
        .filter_map(|service| service["type"].as_str())
        .collect();
    assert_eq!(kinds, ["VsAgentAdminAPI", "relativeRef", "LinkedVerifiablePresentation"]);
}
