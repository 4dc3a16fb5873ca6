//! `svc devnet --demo-agent`: a service entry is added through MCP, and found again in the published document, in a block, in the
//! indexer and at a webhook consumer.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use serde_json::{Map, Value, json};
use svc_agent::Agent;
use svc_net::{did::DidResolver, host_policy::HostPolicy, upstream::NodeClient};
use tokio::{sync::mpsc, time::timeout};

use crate::{
    cli::output::print_line,
    mcp_client::McpClient,
    network::{LocalNetwork, ReceiverConfig},
};

/// Longest wait for one step.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// A webhook consumer on loopback.
pub(super) struct WebhookConsumer {
    url: url::Url,
    bodies: mpsc::Receiver<Value>,
}

impl WebhookConsumer {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let (sender, bodies) = mpsc::channel(1_024);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/registry-events", listener.local_addr()?).parse()?;
        let router = Router::new().route("/registry-events", post(receive)).with_state(sender);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { url, bodies })
    }

    /// Waits for a body; others before it are dropped.
    pub(super) async fn next(&mut self, is_wanted: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        loop {
            let body = self.bodies.recv().await.context("the consumer has ended")?;
            if is_wanted(&body) {
                return Ok(body);
            }
        }
    }

    pub(super) fn receiver(&self) -> ReceiverConfig {
        ReceiverConfig { url: self.url.clone(), secret: None }
    }
}

async fn receive(State(sender): State<mpsc::Sender<Value>>, Json(body): Json<Value>) -> StatusCode {
    match sender.send(body).await {
        Ok(()) => StatusCode::OK,
        Err(_) => StatusCode::GONE,
    }
}

/// Runs the demo, and prints each step. Fails when one of them does not show the entry.
pub(super) async fn run(network: &LocalNetwork, mut consumer: WebhookConsumer) -> anyhow::Result<()> {
    let agent = &network.agents.first().context("the scenario has no agent")?.server;
    let did = agent.did();
    print_line(format!("The agent is {did}"));
    let client = McpClient::connect(&network.mcp_url(), &network.bearer_token).await?;
    let entry = add_entry(&client, &did).await?;
    client.close().await;
    let version = agent.agent.keeper().published().version.number;

    let resolver = DidResolver::new(HostPolicy::AllowPrivate)?;
    let document = resolver.resolve_fresh(&did).await?;
    let is_served = document["service"].as_array().is_some_and(|services| services.contains(&entry));
    ensure!(is_served, "the document at its public URL lacks the entry: {document}");
    print_line(format!("\n2. The document at http://localhost:{} has it: version {version}", agent.public.port()));

    let event = timeout(STEP_TIMEOUT, next_trigger(&mut consumer, &agent.agent, version, network)).await;
    let event = event.context("no webhook came within a minute")??;
    let (hash, height) = (&event["data"]["txHash"], event["data"]["blockHeight"].as_u64().unwrap_or(0));
    let hash = hash.as_str().unwrap_or_default();
    let node = NodeClient::new(network.devnet.node.origin())?;
    let included = node.tx(hash).await?.context("the node does not know the transaction")?;
    ensure!(included.height == height && included.tx_result.code == 0, "the node states {included:?}");
    print_line(format!("\n3. Block {height} has the transaction of the agent's account: {hash}"));

    let services = timeout(STEP_TIMEOUT, resolved_services(network, &did, &entry)).await;
    services.context("the indexer does not show the entry within a minute")??;
    print_line("\n4. The indexer's resolve shows it among the services of the DID");

    print_line(format!("\n5. The webhook consumer heard of it:\n{}", serde_json::to_string_pretty(&event)?));
    print_line("\nEvery step shows the same entry.");
    Ok(())
}

async fn add_entry(client: &McpClient, did: &str) -> anyhow::Result<Value> {
    let arguments = json!({
        "agent_did": did, "id": "mcp", "type": "MCP", "serviceEndpoint": "https://agent.devnet.example/mcp",
    });
    let Value::Object(arguments) = arguments else { bail!("arguments are an object") };
    let tool = "svc.vsa.se.addServiceEndpoint";
    let called = client.call_tool(tool, arguments).await?;
    let entry = called.structured_content.unwrap_or_default();
    ensure!(called.is_error != Some(true), "{tool} failed: {entry}");
    print_line(format!("\n1. {tool} answered:\n{}", serde_json::to_string_pretty(&entry)?));
    Ok(entry)
}

/// Waits for the transaction that covers a version, and for its event.
async fn next_trigger(
    consumer: &mut WebhookConsumer,
    agent: &Agent,
    version: u64,
    network: &LocalNetwork,
) -> anyhow::Result<Value> {
    let mut heights = network.devnet.node.watch_heights();
    let hash = loop {
        let progress = agent.resolution_progress().await?;
        match progress.tx_hash {
            Some(hash) if progress.done >= version => break hash,
            _ => heights.changed().await?,
        }
    };
    consumer.next(|body| body["data"]["eventType"] == "TriggerResolver" && body["data"]["txHash"] == hash).await
}

/// Waits until the indexer's judgement of the DID has the entry; it changes with blocks only.
async fn resolved_services(network: &LocalNetwork, did: &str, entry: &Value) -> anyhow::Result<()> {
    let client = reqwest::Client::new();
    let url = format!("{}/v4/verifiable-trust/resolve", network.indexer_origin());
    let mut heights = network.devnet.node.watch_heights();
    loop {
        let answer = client.post(&url).json(&json!({"did": did, "services": true})).send().await?;
        let answer: Map<String, Value> = answer.json().await?;
        let services = answer.get("services").and_then(Value::as_array);
        if services.is_some_and(|services| services.iter().any(|one| has_endpoint(one, entry))) {
            return Ok(());
        }
        heights.changed().await?;
    }
}

fn has_endpoint(service: &Value, entry: &Value) -> bool {
    service["id"] == entry["id"] && service["serviceEndpoint"] == entry["serviceEndpoint"]
}
