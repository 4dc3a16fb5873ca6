//! The store as a file: exported over HTTP and by the command, imported into the other database, and back.

use std::path::Path;

use serde_json::{Value, json};
use svc_agent::{DidMethod, ImportError, ImportReport, StoreKey, StoreKeys, StoreSettings, import_store};
use svc_test_support::postgres_server::PostgresServer;

use crate::e2e::agent::{
    AdminAnswer, AgentServer, Mode, document::resolution::start_registry, processes::agent_process::AgentHome, request,
    sqlite_url,
};

const EXPORT: &str = "/v2/agent/export";
const ENDPOINTS: &str = "/v2/vt/service-endpoints";

async fn import(directory: &Path, url: &str, content: &str) -> Result<ImportReport, ImportError> {
    let path = directory.join("agent.export");
    std::fs::write(&path, content).expect("written");
    let keys = StoreKeys { current: StoreKey::from_bytes([1; 32]), previous: None };
    let settings = StoreSettings { url: url.to_owned(), keys };
    import_store(settings, &directory.join("agent.head"), std::fs::File::open(&path).expect("opens")).await
}

async fn add(server: &AgentServer, id: &str) {
    let body = json!({"id": id, "type": "MCP", "serviceEndpoint": "https://example.com"}).to_string();
    assert_eq!(server.send("POST", ENDPOINTS, Some(&body)).await.status, 200);
}

async fn did_and_endpoints(server: &AgentServer) -> (Value, Value) {
    let info = server.send("GET", "/v2/agent/info", None).await;
    (info.body["did"].clone(), server.send("GET", ENDPOINTS, None).await.body["items"].clone())
}

/// The file of a running agent.
async fn export(server: &AgentServer) -> String {
    let AdminAnswer { status, headers, body } = server.send("GET", EXPORT, None).await;
    assert_eq!(status, 200);
    assert_eq!(headers["content-type"], "application/jsonl");
    assert_eq!(headers["cache-control"], "no-store");
    body.as_str().expect("several lines").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_moves_to_postgres_and_back_with_its_did_and_an_older_export_is_refused() {
    let Some(postgres) = PostgresServer::start(None) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let home = directory.path();
    let first = AgentServer::start(home, &sqlite_url(home), DidMethod::WebVh, Mode::Internal).await;
    add(&first, "one").await;
    let (older, expected) = (export(&first).await, did_and_endpoints(&first).await);
    first.stop().await;

    assert_eq!(import(home, &postgres.url(), &older).await.expect("imported").versions, 2);
    let second = AgentServer::start(home, &postgres.url(), DidMethod::WebVh, Mode::Internal).await;
    assert_eq!(did_and_endpoints(&second).await, expected);
    add(&second, "two").await;
    let (newer, expected) = (export(&second).await, did_and_endpoints(&second).await);
    second.stop().await;

    let url = format!("sqlite://{}?mode=rwc", home.join("last.db").display());
    let refused = import(home, &url, &older).await.expect_err("refused").to_string();
    assert!(refused.contains("older than the head file") && refused.contains("3-"), "{refused}");
    import(home, &url, &newer).await.expect("imported");
    let last = AgentServer::start(home, &url, DidMethod::WebVh, Mode::Internal).await;
    assert_eq!(did_and_endpoints(&last).await, expected);
    add(&last, "three").await;
    last.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_is_for_trusted_callers_and_takes_no_parameter() {
    let directory = tempfile::tempdir().expect("a directory");
    let home = directory.path();
    let server = AgentServer::start(home, &sqlite_url(home), DidMethod::Web, Mode::Internal).await;
    assert_eq!(server.send("GET", &format!("{EXPORT}?a=b"), None).await.error(), (400, "INVALID_INPUT"));
    assert_eq!(server.send("POST", EXPORT, None).await.error(), (405, "INVALID_INPUT"));
    let proxied = request("GET", &format!("{}{EXPORT}", server.admin)).header("x-forwarded-for", "192.0.2.1");
    assert_eq!(crate::e2e::agent::answer(proxied).await.error(), (403, "FORBIDDEN"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_write_a_file_whole_and_refuse_to_replace_one() {
    use std::os::unix::fs::PermissionsExt;
    let network = start_registry().await;
    let home = AgentHome::new(&network);
    let agent = home.start();
    let did = agent.info().await["did"].as_str().expect("a DID").to_owned();
    let file = home.path("agent.export");
    let name = file.to_str().expect("a text");
    let (is_ok, shown) = home.run(&["export", name]).await;
    assert!(is_ok && shown.contains("bytes"), "{shown}");
    assert_eq!(file.metadata().expect("there").permissions().mode() & 0o777, 0o600);
    let (is_ok, shown) = home.run(&["export", name]).await;
    assert!(!is_ok && shown.contains("--force"), "{shown}");
    assert!(home.run(&["export", name, "--force"]).await.0);
    let (is_ok, shown) = home.run(&["import", name]).await;
    assert!(!is_ok && shown.contains("in use by process"), "{shown}");
    assert!(agent.terminate().0);
    let (is_ok, shown) = home.run(&["import", name]).await;
    assert!(!is_ok && shown.contains(&did) && shown.contains("empty store"), "{shown}");
    let (is_ok, shown) = home.run(&["export", home.path("other.export").to_str().expect("a text")]).await;
    assert!(!is_ok && shown.contains("no agent answers") && !home.path("other.export").exists(), "{shown}");
    let parts = std::fs::read_dir(file.parent().expect("a directory")).expect("readable").flatten();
    assert_eq!(parts.filter(|found| found.file_name().to_string_lossy().ends_with(".part")).count(), 0);

    // A directory of its own is another machine: the same settings with an empty store.
    let other = AgentHome::new(&network);
    let damaged = other.path("damaged.export");
    let mut content = std::fs::read(&file).expect("readable");
    let middle = content.len() / 2;
    content[middle] ^= 1;
    std::fs::write(&damaged, &content).expect("written");
    let (is_ok, shown) = other.run(&["import", damaged.to_str().expect("a text")]).await;
    assert!(!is_ok && shown.contains("it was changed after the export") && !other.path("agent.db").exists(), "{shown}");
    let (is_ok, shown) = other.run(&["import", "--json", name]).await;
    assert!(is_ok && shown.contains(&did) && shown.contains("\"versions\": 1"), "{shown}");
    assert!(other.path("agent.head").exists());
}
