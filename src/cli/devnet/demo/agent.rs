//! `svc devnet --demo-agent`: two agents become trusted, then a service entry is added through MCP, and found again in the published
//! document, in a block, in the indexer and at a webhook consumer.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use svc_agent::Agent;
use svc_net::{did::DidResolver, host_policy::HostPolicy, upstream::NodeClient};
use tokio::time::timeout;

use super::{super::arguments::DevnetArgs, Demo, require_block_time, setup, webhook_consumer::WebhookConsumer};
use crate::{
    cli::output::print_line,
    mcp_client::McpClient,
    network::{LocalNetwork, LocalNetworkConfig},
};

/// Longest wait for one step.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// The demo of an agent.
#[derive(Default)]
pub(in crate::cli::devnet) struct AgentDemo {
    consumer: Option<WebhookConsumer>,
}

#[async_trait(?Send)]
impl Demo for AgentDemo {
    fn scenario(&self) -> Option<&'static str> {
        Some("marketplace")
    }

    async fn configure(&mut self, _args: &DevnetArgs, config: &mut LocalNetworkConfig) -> anyhow::Result<()> {
        require_block_time(config)?;
        let consumer = self.consumer.insert(WebhookConsumer::start().await?);
        config.agent.receiver = Some(consumer.receiver());
        config.agent.waits_for_setup = true;
        Ok(())
    }

    /// Fails when a step does not show the entry.
    async fn show(&mut self, network: &LocalNetwork) -> anyhow::Result<()> {
        let consumer = self.consumer.as_mut().context("the demo is not configured")?;
        setup::run(network).await?;
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

        let event = timeout(STEP_TIMEOUT, next_trigger(consumer, &agent.agent, version, network)).await;
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
