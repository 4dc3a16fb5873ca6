//! Every route of the service entries, with every status and code, on both databases.

use serde_json::{Value, json};
use svc_agent::DidMethod;
use svc_net::{did::DidResolver, host_policy::HostPolicy};
use svc_test_support::postgres_server::PostgresServer;

use crate::e2e::{
    agent::{AgentServer, Mode, answer, request, sqlite_url},
    harness::pause,
};

const ENDPOINTS: &str = "/v2/vt/service-endpoints";

#[tokio::test(flavor = "multi_thread")]
async fn service_entries_are_changed_on_both_databases_and_the_document_follows() {
    let directory = tempfile::tempdir().expect("a directory");
    walk_the_routes(&directory, &sqlite_url(directory.path()), DidMethod::WebVh).await;
    let directory = tempfile::tempdir().expect("a directory");
    if let Some(server) = PostgresServer::start(None) {
        walk_the_routes(&directory, &server.url(), DidMethod::Web).await;
    }
}

async fn walk_the_routes(directory: &tempfile::TempDir, store_url: &str, method: DidMethod) {
    let server = AgentServer::start(directory.path(), store_url, method, Mode::Internal).await;
    let info = server.send("GET", "/v2/agent/info", None).await;
    let did = info.body["did"].as_str().expect("a DID").to_owned();
    assert_eq!((info.status, &info.body["document"]["entries"]), (200, &json!(1)));
    assert_eq!(info.headers["cache-control"], "no-store");

    let added = server
        .send(
            "POST",
            ENDPOINTS,
            Some(r##"{"id": "#mcp", "type": "MCP", "serviceEndpoint": "https://example.com/mcp"}"##),
        )
        .await;
    let entry = json!({"id": format!("{did}#mcp"), "type": "MCP", "serviceEndpoint": "https://example.com/mcp"});
    assert_eq!((added.status, &added.body), (200, &entry));
    let body = r#"{"serviceEndpoint": {"uri": "https://example.com/a2a"}, "type": "A2A"}"#;
    let updated = server.send("PATCH", &format!("{ENDPOINTS}/%23mcp"), Some(body)).await;
    let entry =
        json!({"id": format!("{did}#mcp"), "type": "A2A", "serviceEndpoint": {"uri": "https://example.com/a2a"}});
    assert_eq!((updated.status, &updated.body), (200, &entry));
    let versions = server.send("GET", "/v2/agent/info", None).await.body["document"]["entries"].clone();
    let same = server.send("PATCH", &format!("{ENDPOINTS}/mcp"), Some(r#"{"type": "A2A"}"#)).await;
    assert_eq!((same.status, &same.body), (200, &entry));
    assert_eq!(
        server.send("GET", "/v2/agent/info", None).await.body["document"]["entries"],
        versions,
        "nothing has changed"
    );

    // Any resolver sees the entry: this one fetches the public files and verifies them.
    let resolver = DidResolver::new(HostPolicy::AllowPrivate).expect("a resolver");
    let document = resolver.resolve_fresh(&did).await.expect("it resolves");
    assert!(document["service"].as_array().is_some_and(|services| services.contains(&entry)), "{document}");

    let bodies = ["b", "a/c", "c"].map(|id| json!({"id": id, "type": "X", "serviceEndpoint": {"a": 1}}).to_string());
    let adds = bodies.iter().map(|body| server.send("POST", ENDPOINTS, Some(body)));
    assert!(futures::future::join_all(adds).await.iter().all(|added| added.status == 200));
    let mut found = Vec::new();
    let mut path = format!("{ENDPOINTS}?managed=false&limit=3");
    loop {
        let page = server.send("GET", &path, None).await;
        assert_eq!(page.status, 200, "{}", page.body);
        found.extend(page.body["items"].as_array().expect("items").iter().map(|item| item["id"].clone()));
        let Some(cursor) = page.body["nextCursor"].as_str() else { break };
        path = format!("{ENDPOINTS}?managed=false&limit=3&cursor={cursor}");
    }
    assert_eq!(found, ["a/c", "b", "c", "mcp"].map(|id| Value::from(format!("{did}#{id}"))));

    let whole = format!("{ENDPOINTS}/{}%23a%2Fc", did.replace('%', "%25"));
    let deleted = server.send("DELETE", &whole, None).await;
    let entry = json!({"id": format!("{did}#a/c"), "type": "X", "serviceEndpoint": {"a": 1}});
    assert_eq!((deleted.status, &deleted.body), (200, &entry), "a deleted entry can be sent back");
    assert_eq!(server.send("POST", ENDPOINTS, Some(&deleted.body.to_string())).await.body, entry);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_has_its_status_and_its_code_on_both_databases() {
    let directory = tempfile::tempdir().expect("a directory");
    refuse_everything(&directory, &sqlite_url(directory.path())).await;
    let directory = tempfile::tempdir().expect("a directory");
    if let Some(server) = PostgresServer::start(None) {
        refuse_everything(&directory, &server.url()).await;
    }
}

async fn refuse_everything(directory: &tempfile::TempDir, store_url: &str) {
    let server = AgentServer::start(directory.path(), store_url, DidMethod::Web, Mode::Internal).await;
    let good = |id: &str| json!({"id": id, "type": "MCP", "serviceEndpoint": "https://example.com"}).to_string();
    assert_eq!(server.send("POST", ENDPOINTS, Some(&good("mcp"))).await.status, 200);
    let deep = format!(r#"{{"type": "MCP", "serviceEndpoint": {}1{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    let cursor = "eyJ2IjoxLCJzIjoiMDAwMDAwMDAwMDAwMDAwMCIsImsiOiJhIn0";
    let input = (400, "INVALID_INPUT");
    let endpoint = (400, "INVALID_SERVICE_ENDPOINT");
    let one = format!("{ENDPOINTS}/mcp");
    let flows = |rest: &str| format!("/v2/vt/flows{rest}");
    let peers = |path: &str| format!("/v2/didcomm/{path}");
    let text = |id: &str, content: &str| json!({"connectionId": id, "content": content}).to_string();
    for (method, path, body, expected) in [
        ("GET", format!("{ENDPOINTS}?limit=0"), None, input),
        ("GET", format!("{ENDPOINTS}?limit=501"), None, input),
        ("GET", format!("{ENDPOINTS}?limit=+1"), None, input),
        ("GET", format!("{ENDPOINTS}?limit=1&limit=1"), None, input),
        ("GET", format!("{ENDPOINTS}?colour=red"), None, input),
        ("GET", format!("{ENDPOINTS}?managed=yes"), None, input),
        ("GET", format!("{ENDPOINTS}?cursor=x"), None, (400, "INVALID_CURSOR")),
        ("GET", format!("{ENDPOINTS}?cursor={cursor}"), None, (400, "INVALID_CURSOR")),
        ("GET", format!("{ENDPOINTS}?cursor={}", "a".repeat(1_025)), None, (400, "INVALID_CURSOR")),
        ("GET", "/v2/agent/info?a=b".to_owned(), None, input),
        ("POST", ENDPOINTS.to_owned(), Some(good("mcp")), (409, "DUPLICATE_ID")),
        ("POST", ENDPOINTS.to_owned(), Some(good("did:web:other.example#mcp")), input),
        ("POST", ENDPOINTS.to_owned(), Some(good("files")), input),
        ("POST", ENDPOINTS.to_owned(), Some("{}".to_owned()), input),
        ("POST", ENDPOINTS.to_owned(), Some("[]".to_owned()), input),
        ("POST", ENDPOINTS.to_owned(), Some("{".to_owned()), input),
        ("POST", ENDPOINTS.to_owned(), Some(deep), input),
        (
            "POST",
            ENDPOINTS.to_owned(),
            Some(r#"{"type": "A", "type": "B", "serviceEndpoint": "https://example.com"}"#.to_owned()),
            input,
        ),
        (
            "POST",
            ENDPOINTS.to_owned(),
            Some(r#"{"type": "A", "serviceEndpoint": "https://example.com", "a": 1}"#.to_owned()),
            input,
        ),
        (
            "POST",
            ENDPOINTS.to_owned(),
            Some(r#"{"type": 1, "serviceEndpoint": "https://example.com"}"#.to_owned()),
            input,
        ),
        ("POST", ENDPOINTS.to_owned(), Some(r#"{"type": "A", "serviceEndpoint": null}"#.to_owned()), input),
        ("POST", ENDPOINTS.to_owned(), Some(r#"{"type": "A", "serviceEndpoint": "example.com"}"#.to_owned()), endpoint),
        (
            "POST",
            ENDPOINTS.to_owned(),
            Some(r#"{"type": "A", "serviceEndpoint": "https://10.0.0.1"}"#.to_owned()),
            endpoint,
        ),
        (
            "POST",
            ENDPOINTS.to_owned(),
            Some(json!({"type": "A", "serviceEndpoint": {"a": "x".repeat(65_536)}}).to_string()),
            endpoint,
        ),
        ("POST", ENDPOINTS.to_owned(), Some(good("a").replace("MCP", "DIDCommMessaging")), (409, "DIDCOMM_ENTRY")),
        (
            "POST",
            ENDPOINTS.to_owned(),
            Some(good("a").replace("MCP", "LinkedVerifiablePresentation")),
            (409, "LINKED_VP_ENTRY"),
        ),
        ("POST", ENDPOINTS.to_owned(), Some(good("a").replace("MCP", "vsagentadminapi")), (409, "ADMIN_API_ENTRY")),
        ("POST", ENDPOINTS.to_owned(), Some(good("a").replace("MCP", "AnonCredsRegistry")), input),
        (
            "POST",
            ENDPOINTS.to_owned(),
            Some(format!(r#"{{"type": "{}"}}"#, "x".repeat(5_242_881))),
            (413, "INVALID_INPUT"),
        ),
        ("PATCH", one.clone(), Some("{}".to_owned()), input),
        ("PATCH", one.clone(), Some(r#"{"type": null}"#.to_owned()), input),
        ("PATCH", one.clone(), Some(r#"{"id": "a", "type": "B"}"#.to_owned()), input),
        ("PATCH", format!("{ENDPOINTS}/other"), Some(r#"{"type": "B"}"#.to_owned()), (404, "UNKNOWN_ID")),
        ("DELETE", format!("{ENDPOINTS}/other"), None, (404, "UNKNOWN_ID")),
        ("DELETE", format!("{ENDPOINTS}/did:web:other.example%23mcp"), None, input),
        ("DELETE", format!("{ENDPOINTS}/%FF"), None, input),
        ("PUT", ENDPOINTS.to_owned(), None, (405, "INVALID_INPUT")),
        ("GET", one.clone(), None, (405, "INVALID_INPUT")),
        ("GET", flows("?role=issuer"), None, input),
        ("GET", flows("?flowState=open"), None, input),
        ("GET", flows("?connectionState=open"), None, input),
        ("GET", flows("?schemaId=x"), None, input),
        ("GET", flows("?cursor=x"), None, (400, "INVALID_CURSOR")),
        ("GET", flows("?participantId=1"), None, input),
        ("GET", flows("/none"), None, (404, "UNKNOWN_ID")),
        ("POST", flows(""), Some("{}".to_owned()), input),
        ("POST", flows(""), Some(r#"{"participantId": "1", "did": "did:web:a"}"#.to_owned()), input),
        ("POST", flows(""), Some(r#"{"did": "did:web:a"}"#.to_owned()), input),
        ("POST", flows(""), Some(r#"{"participantId": 1}"#.to_owned()), input),
        ("POST", flows(""), Some(r#"{"participantId": "1"}"#.to_owned()), (503, "NOT_READY")),
        ("PUT", flows("/none/claims"), Some(r#"{"claims": {}}"#.to_owned()), (404, "UNKNOWN_ID")),
        ("PUT", flows("/none/claims"), Some(r#"{"claims": {"id": "did:web:a"}}"#.to_owned()), input),
        ("PUT", flows("/none/claims"), Some(r#"{"claims": {"a": 1, "a": 2}}"#.to_owned()), input),
        ("PUT", flows("/none/claims"), Some(r#"{"claims": []}"#.to_owned()), input),
        ("POST", flows("/none/oob-link"), Some(r#"{"url": "http://a.example", "description": "d"}"#.to_owned()), input),
        ("POST", flows("/none/oob-link"), Some(r#"{"url": "https://a.example"}"#.to_owned()), input),
        ("POST", flows("/none/start-validation"), None, (404, "UNKNOWN_ID")),
        ("POST", flows("/none/validate"), None, (404, "UNKNOWN_ID")),
        ("POST", flows("/none/validate"), Some(r#"{"issuanceFees": -1}"#.to_owned()), input),
        ("POST", flows("/none/validate"), Some(r#"{"issuanceFeeDiscount": 1.5}"#.to_owned()), input),
        ("POST", flows("/none/validate"), Some(r#"{"effectiveUntil": "later"}"#.to_owned()), input),
        ("POST", flows("/none/reject"), Some("{}".to_owned()), input),
        ("POST", flows("/none/reject"), Some(r#"{"description": "d", "code": "no"}"#.to_owned()), input),
        ("POST", flows("/none/resend"), None, (404, "UNKNOWN_ID")),
        ("POST", flows("/none/end"), None, (404, "UNKNOWN_ID")),
        ("GET", peers("connections?state=open"), None, input),
        ("GET", peers("connections?role=sender"), None, input),
        ("GET", peers("connections?didcommVersion=v3"), None, input),
        ("GET", peers("connections?colour=red"), None, input),
        ("GET", peers("connections?cursor=x"), None, (400, "INVALID_CURSOR")),
        ("GET", peers("connections/none"), None, (404, "UNKNOWN_ID")),
        ("DELETE", peers("connections/none"), None, (404, "UNKNOWN_ID")),
        ("POST", peers("connections"), Some("{}".to_owned()), input),
        ("POST", peers("connections"), Some(json!({"did": "did:key:z6Mk"}).to_string()), input),
        (
            "POST",
            peers("connections"),
            Some(json!({"did": "did:web:a.example"}).to_string()),
            (503, "RESOLVER_UNAVAILABLE"),
        ),
        ("GET", peers("basic-messages?wait=61"), None, input),
        ("GET", peers("basic-messages?role=holder"), None, input),
        ("POST", peers("basic-messages"), Some(text("none", "x")), (404, "UNKNOWN_ID")),
        ("POST", peers("basic-messages"), Some(text("none", "")), input),
        ("POST", peers("basic-messages"), Some(text("none", &"x".repeat(65_537))), input),
        ("POST", peers("invitations"), Some(json!({"connectionId": "none"}).to_string()), (404, "UNKNOWN_ID")),
        (
            "POST",
            peers("invitations"),
            Some(json!({"connectionId": "none", "goalCode": "x".repeat(129)}).to_string()),
            input,
        ),
        ("GET", peers("credential-exchanges?state=open"), None, input),
        ("GET", peers("credential-exchanges?role=sender"), None, input),
        ("GET", peers("credential-exchanges/none"), None, (404, "UNKNOWN_ID")),
        ("DELETE", peers("credential-exchanges/none"), None, (404, "UNKNOWN_ID")),
        ("POST", peers("credential-exchanges/none/accept-offer"), Some("{}".to_owned()), (404, "UNKNOWN_ID")),
        ("POST", peers("credential-exchanges/none/accept-offer"), Some(r#"{"a": 1}"#.to_owned()), input),
        ("POST", peers("credential-exchanges/none/accept-request"), None, (404, "UNKNOWN_ID")),
        ("POST", peers("credential-exchanges/none/accept-credential"), None, (404, "UNKNOWN_ID")),
        ("POST", peers("credential-exchanges/none/decline"), Some(r#"{"reason": 7}"#.to_owned()), input),
        (
            "POST",
            peers("credential-offer"),
            Some(json!({"credentialDefinitionId": "d", "claims": []}).to_string()),
            (404, "UNKNOWN_ID"),
        ),
        (
            "POST",
            peers("credential-offer"),
            Some(json!({"credentialDefinitionId": "d", "claims": [7]}).to_string()),
            input,
        ),
        ("GET", peers("presentations"), None, (404, "UNKNOWN_ID")),
        ("POST", peers("presentation-request"), Some("{}".to_owned()), (404, "UNKNOWN_ID")),
        ("POST", peers("receipts"), Some("{}".to_owned()), (404, "UNKNOWN_ID")),
        ("GET", "/".to_owned(), None, (404, "UNKNOWN_ID")),
        ("POST", "/v2/auth/challenge".to_owned(), Some(r#"{"account": "a"}"#.to_owned()), (404, "UNKNOWN_ID")),
    ] {
        let answer = server.send(method, &path, body.as_deref()).await;
        let shown: String = body.unwrap_or_default().chars().take(80).collect();
        assert_eq!(answer.error(), expected, "{method} {path} {shown}: {}", answer.body);
        assert!(answer.body["error"]["message"].as_str().is_some_and(|message| !message.is_empty()));
        assert_eq!(answer.headers["cache-control"], "no-store");
        assert!(answer.status != 405 || method != "PUT" || answer.headers["allow"] == "GET,HEAD,POST");
    }
    let text = request("POST", &format!("{}{ENDPOINTS}", server.admin)).header("content-type", "text/plain").body("{}");
    assert_eq!(answer(text).await.error(), (415, "INVALID_INPUT"));
    let violation = server.send("POST", ENDPOINTS, Some(r#"{"serviceEndpoint": "https://example.com"}"#)).await;
    assert_eq!(violation.body["error"]["details"]["violations"][0]["path"], "type");
    let left = server.send("GET", &format!("{ENDPOINTS}?managed=false"), None).await;
    assert_eq!(left.body["items"].as_array().map(Vec::len), Some(1));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_changes_at_once_go_into_few_versions() {
    let directory = tempfile::tempdir().expect("a directory");
    let server =
        AgentServer::start(directory.path(), &sqlite_url(directory.path()), DidMethod::WebVh, Mode::Internal).await;
    // The document has room for all of them.
    let bodies: Vec<String> = (0..500)
        .map(|number| json!({"id": format!("a{number}"), "type": "X", "serviceEndpoint": {"a": 1}}).to_string())
        .collect();
    let adds = bodies.iter().map(|body| server.send("POST", ENDPOINTS, Some(body)));
    let answers = futures::future::join_all(adds).await;
    let added = answers.iter().filter(|answer| answer.status == 200).count();
    let refused = answers.iter().filter(|answer| answer.status != 200);
    refused.for_each(|answer| assert_eq!(answer.error(), (503, "NOT_READY"), "{}", answer.body));
    assert!(
        answers.iter().filter(|answer| answer.status == 503).all(|answer| answer.headers.contains_key("retry-after"))
    );
    let info = server.send("GET", "/v2/agent/info", None).await.body;
    let entries = info["document"]["entries"].as_u64().expect("entries");
    assert!(added >= 256 && entries * 4 < added as u64, "{added} {info}");
    let services = server.agent.keeper().published().document.services();
    assert_eq!(services.iter().filter(|service| !service.is_managed()).count(), added);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_database_file_nothing_is_published() {
    let directory = tempfile::tempdir().expect("a directory");
    let server =
        AgentServer::start(directory.path(), &sqlite_url(directory.path()), DidMethod::WebVh, Mode::Internal).await;
    let before = server.agent.keeper().published().version.clone();
    std::fs::remove_file(directory.path().join("agent.db")).expect("removed");
    let body = json!({"id": "a", "type": "MCP", "serviceEndpoint": "https://example.com"}).to_string();
    let refused = server.send("POST", ENDPOINTS, Some(&body)).await;
    assert_eq!(
        (refused.error(), &refused.body["error"]["details"]["waiting"]),
        ((503, "NOT_READY"), &json!(["store"]))
    );
    assert_eq!(server.agent.keeper().published().version, before);
    let mut ready = server.send("GET", "/v2/agent/health/ready", None).await;
    while ready.body["error"]["details"]["waiting"][0] != "store" {
        pause().await;
        ready = server.send("GET", "/v2/agent/health/ready", None).await;
    }
    assert_eq!(ready.status, 503);
    server.stop().await;
}
