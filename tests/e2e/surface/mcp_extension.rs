//! An extension of the tool server adds tools to its sessions; authentication applies to them too.

use std::sync::Arc;

use serde_json::json;
use svc::{
    listener::ListenerConfig,
    mcp::{HttpServer, HttpServerConfig, SessionLimits, ToolNames},
    mcp_client::McpClient,
    principals::PrincipalDirectory,
};
use svc_wire::secret::SecretString;

use crate::{
    conformance_suite::ConformanceFixtures,
    e2e::harness::{call_tool, start_quick_network},
};

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_answers_for_what_it_adds_and_for_nothing_else() {
    let world = start_quick_network().await;
    let bearer = world.network.bearer_token.clone();
    let names = ToolNames::load().expect("tables");
    let config = HttpServerConfig {
        principals: PrincipalDirectory::open(&SecretString::new(bearer.clone()), None, names).expect("no file"),
        oauth: None,
        peers: None,
        allowed_hosts: Vec::new(),
        sessions: SessionLimits::default(),
        listener: ListenerConfig::for_local_network(),
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("set");
    let tool_server = Arc::clone(&world.network.tool_server);
    let server =
        HttpServer::start_extended(listener, tool_server, config, &ConformanceFixtures).expect("an extended server");
    let url = format!("http://{}/mcp", server.address);

    let own: Vec<String> = names_of(&world.client).await;
    let client = McpClient::connect(&url, &bearer).await.expect("connects");
    let listed = names_of(&client).await;
    let added: Vec<&String> = listed.iter().filter(|name| !own.contains(name)).collect();
    assert!(added.iter().any(|name| *name == "test_simple_text"), "{added:?}");
    assert_eq!(listed.len(), own.len() + added.len(), "no tool of the server is hidden");
    assert_eq!(listed[..added.len()].iter().collect::<Vec<_>>(), added, "the fixtures are on the first page");

    let answer = client.call_tool("test_simple_text", serde_json::Map::new()).await;
    assert!(answer.is_ok(), "{answer:?}");
    let read = call_tool(&client, "svc.wallet.getStatus", json!({})).await;
    assert!(!read.is_error, "{read:?}");
    assert!(McpClient::connect(&url, "0000000000000000000000000000dead").await.is_err(), "a wrong token");
    client.close().await;
}

async fn names_of(client: &McpClient) -> Vec<String> {
    client.list_tools().await.expect("listed").into_iter().map(|tool| tool.name.into_owned()).collect()
}
