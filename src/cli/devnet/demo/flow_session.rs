//! The tools, and the waits for flows and verdicts, that the steps of the demo of flows share.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{mcp_client::McpClient, network::LocalNetwork};

/// Longest wait for one step.
pub(super) const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// A network, and a client of its tool server.
pub(super) struct FlowSession<'a> {
    pub network: &'a LocalNetwork,
    pub client: McpClient,
}

impl FlowSession<'_> {
    /// DID of an agent, by its place in the scenario.
    pub fn agent_did(&self, place: usize) -> anyhow::Result<String> {
        Ok(self.network.agents.get(place).context("the scenario has no such agent")?.server.did())
    }

    /// Calls a tool, and returns its answer.
    pub async fn call(&self, tool: &str, given: Value) -> anyhow::Result<Value> {
        let Value::Object(arguments) = given else { bail!("arguments are an object") };
        let called = self.client.call_tool(tool, arguments).await?;
        let answer = called.structured_content.unwrap_or_default();
        ensure!(called.is_error != Some(true), "{tool} failed: {answer}");
        Ok(answer)
    }

    /// Waits until an agent lists a flow in a state.
    pub async fn await_flow(&self, filter: Value, state: &str) -> anyhow::Result<Value> {
        let mut heights = self.network.devnet.node.watch_heights();
        let mut last = Value::Null;
        let reached = async {
            loop {
                last = self.call("svc.vsa.flow.listFlows", filter.clone()).await?["items"][0].clone();
                if last["flowState"] == state {
                    return anyhow::Ok(last.clone());
                }
                heights.changed().await?;
            }
        };
        match timeout(STEP_TIMEOUT, reached).await {
            Ok(found) => found,
            Err(_) => bail!("the flow is not in {state}: {last:#}"),
        }
    }

    /// Waits for the indexer's judgement of a DID; it changes with blocks only.
    pub async fn await_answer(&self, did: &str, is_wanted: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
        let client = reqwest::Client::new();
        let url = format!("{}/v4/verifiable-trust/resolve", self.network.indexer_origin());
        let mut heights = self.network.devnet.node.watch_heights();
        loop {
            let answer = client.post(&url).json(&json!({"did": did, "presentations": true})).send().await?;
            if is_wanted(&answer.json().await?) {
                return Ok(());
            }
            heights.changed().await?;
        }
    }
}
