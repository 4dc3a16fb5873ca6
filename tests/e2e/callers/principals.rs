//! Principals: each sees its tools and its records alone, confirms for itself alone, and loses its sessions with its rights.

use std::path::PathBuf;

use serde_json::{Value, json};
use svc::{
    mcp::{CallPolicy, PolicyRule, ToolNames, ToolPattern, ToolSelection},
    mcp_client::McpClient,
    network::{LocalNetwork, LocalNetworkConfig},
    principals::token_digest,
};
use tempfile::TempDir;

use crate::e2e::harness::{
    CREATE_ECOSYSTEM, TEST_TIMEOUT, TestNetwork, assert_envelope, call_tool, ecosystem_arguments, network_config,
    start_network,
};

const ARCHIVE: &str = "svc.ledger.es.archiveEcosystem";
const READER: &str = "reader-token-reader-token-reader-token";
const WRITER: &str = "writer-token-writer-token-writer-token";
const CHIEF: &str = "chief-token-chief-token-chief-token-chief";

/// A file of principals in a directory of its own.
struct PrincipalsFile {
    directory: TempDir,
}

impl PrincipalsFile {
    fn new(rows: &[(&str, &str, &str)]) -> Self {
        let file = Self { directory: tempfile::tempdir().expect("a directory") };
        file.write(rows);
        file
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("principals.toml")
    }

    /// Replaces the file as an editor does: whole.
    fn write(&self, rows: &[(&str, &str, &str)]) {
        let row = |(name, token, rights): &(&str, &str, &str)| {
            let digest = hex::encode(token_digest(token));
            format!("[[principal]]\nname = \"{name}\"\ntoken_sha256 = \"{digest}\"\n{rights}\n")
        };
        let next = self.directory.path().join("next.toml");
        std::fs::write(&next, rows.iter().map(row).collect::<String>()).expect("written");
        std::fs::rename(next, self.path()).expect("replaced");
    }

    fn config(&self) -> LocalNetworkConfig {
        LocalNetworkConfig { principals: Some(self.path()), ..network_config(100) }
    }
}

async fn connect(network: &LocalNetwork, token: &str) -> McpClient {
    McpClient::connect(&network.mcp_url(), token).await.expect("connects")
}

async fn names(client: &McpClient) -> Vec<String> {
    client.list_tools().await.expect("listed").into_iter().map(|tool| tool.name.to_string()).collect()
}

async fn own(client: &McpClient, resource: &str) -> Value {
    client.read_resource(&format!("svc://own/{resource}")).await.expect("readable")
}

/// A raw request, whose status and headers a test looks at.
fn post(network: &LocalNetwork, token: &str, message: &Value) -> reqwest::RequestBuilder {
    let client = reqwest::Client::new();
    let request =
        client.post(network.mcp_url()).bearer_auth(token).header("accept", "application/json, text/event-stream");
    request.header("content-type", "application/json").body(message.to_string())
}

fn initialize() -> Value {
    let info = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_principal_has_its_own_tools_records_keys_and_fees() {
    let file = PrincipalsFile::new(&[
        ("reader", READER, "read_only = true\nsurfaces = [\"idx\"]"),
        ("writer", WRITER, "tools = [\"svc.ledger.es.*\"]\nmessages = [\"MsgCreate*\"]\nmax_fee_per_day = \"20000\""),
    ]);
    let world = start_network(file.config()).await;
    let (reader, writer) = (connect(&world.network, READER).await, connect(&world.network, WRITER).await);
    assert!(names(&reader).await.iter().all(|name| name.starts_with("svc.idx.") || name.starts_with("svc.wallet.")));
    let of_writer = names(&writer).await;
    assert!(of_writer.iter().any(|name| name == CREATE_ECOSYSTEM) && !of_writer.iter().any(|name| name == ARCHIVE));
    // A tool outside the rights is answered like one that does not exist.
    let refused = call_tool(&reader, CREATE_ECOSYSTEM, ecosystem_arguments("a")).await;
    let unknown = call_tool(&reader, "svc.ledger.es.nothing", json!({})).await;
    let without_name =
        |answer: &Value| answer.to_string().replace(CREATE_ECOSYSTEM, "N").replace("svc.ledger.es.nothing", "N");
    assert!(
        refused.is_error && without_name(&refused.content) == without_name(&unknown.content),
        "{:#}",
        refused.content
    );

    let with_key = |name: &str| {
        let mut arguments = ecosystem_arguments(name);
        arguments["idempotency_key"] = "same".into();
        arguments
    };
    let first = call_tool(&writer, CREATE_ECOSYSTEM, with_key("of-writer")).await;
    assert!(!first.is_error, "{:#}", first.content);
    let again = call_tool(&writer, CREATE_ECOSYSTEM, with_key("of-writer")).await;
    assert_eq!(first.content["tx_hash"], again.content["tx_hash"], "the key of the writer");
    let of_default = world.call_ok(CREATE_ECOSYSTEM, with_key("of-default")).await;
    assert_ne!(first.content["tx_hash"], of_default["tx_hash"], "the same key of another principal is another one");

    // The fees of the writer are below its ceiling once, and those of the default principal do not count.
    let mut number = 0;
    let refused = loop {
        let made = call_tool(&writer, CREATE_ECOSYSTEM, ecosystem_arguments(format!("more-{number}"))).await;
        if made.is_error {
            break made.content;
        }
        number += 1;
        assert!(number < 20, "the ceiling is reached");
    };
    assert_envelope(&refused, "FEE_ABOVE_CEILING");
    assert_eq!(refused["details"]["kind"], "principal_fee_per_day");
    world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("default-goes-on")).await;

    let principals = |rows: &Value| -> Vec<String> {
        let mut all: Vec<String> = rows
            .as_array()
            .expect("rows")
            .iter()
            .map(|row| row["principal"].as_str().expect("named").to_owned())
            .collect();
        all.sort();
        all.dedup();
        all
    };
    assert_eq!(principals(&own(&writer, "transactions").await["transactions"]), ["writer"]);
    assert_eq!(principals(&own(&writer, "audit").await["records"]), ["writer"]);
    assert_eq!(own(&reader, "transactions").await["transactions"], json!([]));
    assert_eq!(principals(&own(&world.client, "audit").await["records"]), ["default", "writer"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_of_one_principal_and_ends_with_its_rights() {
    let file = PrincipalsFile::new(&[("reader", READER, "read_only = true"), ("writer", WRITER, "")]);
    let world = start_network(file.config()).await;
    let opened = post(&world.network, READER, &initialize()).send().await.expect("an answer");
    let session = opened.headers()["mcp-session-id"].to_str().expect("text").to_owned();
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let status = async |token: &str| {
        let request = post(&world.network, token, &list).header("mcp-session-id", &session);
        request.send().await.expect("an answer").status().as_u16()
    };
    assert_eq!((status(READER).await, status(WRITER).await), (200, 404), "the session of another one is unknown");
    let mut stream = reqwest::Client::new()
        .get(world.network.mcp_url())
        .bearer_auth(READER)
        .header("mcp-session-id", &session)
        .header("accept", "text/event-stream")
        .send()
        .await
        .expect("a stream");
    assert_eq!(stream.status(), 200);
    file.write(&[("writer", WRITER, "")]);
    // The stream of a principal that is gone ends, and its token opens nothing.
    let ended = async { while let Ok(Some(_)) = stream.chunk().await {} };
    tokio::time::timeout(TEST_TIMEOUT, ended).await.expect("the stream ends");
    assert_eq!((status(READER).await, status(WRITER).await), (401, 404));
}

fn strict(selection: ToolSelection) -> ToolSelection {
    ToolSelection { is_strict: true, ..selection }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_no_person_can_confirm_waits_for_another_principal() {
    let file = PrincipalsFile::new(&[("writer", WRITER, ""), ("chief", CHIEF, "may_approve = true\nread_only = true")]);
    let config = LocalNetworkConfig { selection: strict(ToolSelection::default()), ..file.config() };
    let world = start_network(config).await;
    let writer = connect(&world.network, WRITER).await;
    let id =
        call_tool(&writer, CREATE_ECOSYSTEM, ecosystem_arguments("guild")).await.content["response"]["ecosystem_id"]
            .clone();
    let archive = || json!({"id": id, "archive": true});
    let asked = call_tool(&writer, ARCHIVE, archive()).await;
    assert!(asked.is_error);
    assert_envelope(&asked.content, "AUTHZ_PRECONDITION_FAILED");
    let approval = asked.content["details"]["approval_id"].as_str().expect("an id").to_owned();
    let approve = async |token: &str, arguments: &[&str]| {
        let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_svc"))
            .args(["approve", "--url", &world.network.mcp_url()])
            .args(arguments)
            .env("MCP_BEARER_TOKEN", token)
            .output()
            .await
            .expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (listed, text) = approve(CHIEF, &[]).await;
    assert!(listed && text.contains(&approval) && text.contains("archive: true") && text.contains("writer"), "{text}");
    let (done, text) = approve(WRITER, &[&approval, "--yes"]).await;
    assert!(!done && text.contains("another principal"), "{text}");
    assert!(call_tool(&writer, ARCHIVE, archive()).await.is_error, "still waiting");
    let (done, text) = approve(CHIEF, &[&approval, "--yes"]).await;
    assert!(done, "{text}");
    let other = call_tool(&writer, ARCHIVE, json!({"id": id, "archive": false})).await;
    assert!(other.is_error, "the approval is of one message");
    let done = call_tool(&writer, ARCHIVE, archive()).await;
    assert!(!done.is_error, "{:#}", done.content);
    let audit = own(&writer, "audit").await;
    let confirmed =
        audit["records"].as_array().expect("records").iter().find(|row| row["tool"] == ARCHIVE).expect("one");
    assert_eq!(confirmed["confirmed_by"], "the principal chief");
    assert!(call_tool(&writer, ARCHIVE, archive()).await.is_error, "once");
    let waiting = own(&writer, "approvals").await;
    let id = waiting["approvals"][0]["id"].as_str().expect("an id").to_owned();
    let (done, _) = approve(CHIEF, &[&id, "--decline"]).await;
    assert!(done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_hides_its_grantee_is_not_confirmed_unseen() {
    let names = ToolNames::load().expect("the tables");
    let pattern = ToolPattern::parse("svc.ledger.de.*", &names).expect("a pattern");
    let policy = vec![PolicyRule { pattern, policy: CallPolicy::Confirm }];
    let selection = ToolSelection { policy, ..ToolSelection::default() };
    let world: TestNetwork = start_network(LocalNetworkConfig { selection, ..network_config(100) }).await;
    let grantee = world.network.devnet.address("member");
    let types =
        |count: usize| -> Vec<String> { (0..count).map(|_| "/svc.ec.v1.MsgCreateEcosystem".to_owned()).collect() };
    let grant = |count: usize| json!({"grantee": grantee, "msg_types": types(count)});
    // 100 KB of message types do not fit beside the grantee.
    let refused = world.call_tool("svc.ledger.de.grantOperatorAuthorization", grant(4_000)).await;
    assert!(refused.is_error);
    assert!(refused.content["details"]["bytes"].as_u64().is_some_and(|bytes| bytes > 16_000), "{:#}", refused.content);
    let asked = world.call_tool("svc.ledger.de.grantOperatorAuthorization", grant(2)).await;
    assert!(asked.content["details"]["approval_id"].is_string(), "{:#}", asked.content);
    let waiting = own(&world.client, "approvals").await;
    let shown = waiting["approvals"][0]["shown"].as_str().expect("a text");
    assert!(shown.contains(grantee) && shown.contains("fee "), "{shown}");
}
