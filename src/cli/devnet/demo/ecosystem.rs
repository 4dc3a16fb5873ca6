//! `svc devnet --demo`: an ecosystem is created through a real MCP client over HTTP, and read back.

use anyhow::bail;
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use svc_devnet::scenario::Scenario;
use tokio::time::Instant;

use super::{super::arguments::DevnetArgs, Demo};
use crate::{
    cli::output::{print_line, render_table},
    mcp_client::McpClient,
    network::{LocalNetwork, LocalNetworkConfig},
};

/// The demo of the main job.
pub(in crate::cli::devnet) struct EcosystemDemo {
    begun: Instant,
}

impl EcosystemDemo {
    /// Begins to measure the start of the network.
    pub(in crate::cli::devnet) fn begin() -> Self {
        Self { begun: Instant::now() }
    }
}

#[async_trait(?Send)]
impl Demo for EcosystemDemo {
    async fn configure(&mut self, args: &DevnetArgs, config: &mut LocalNetworkConfig) -> anyhow::Result<()> {
        let scenario = Scenario::load(&config.devnet.scenario)?;
        args.check_ports(config, &scenario)?;
        if scenario.operator_slot.is_none() {
            bail!("the demo needs a scenario with a seat, such as corporation");
        }
        Ok(())
    }

    /// Fails when the read-back differs from the written ecosystem.
    async fn show(&mut self, network: &LocalNetwork) -> anyhow::Result<()> {
        let booted = self.begun.elapsed();
        let client = McpClient::connect(&network.mcp_url(), &network.bearer_token).await?;
        let arguments = json!({
            "did": "did:web:ecosystem.devnet.example", "language": "en", "doc_url": "https://ecosystem.devnet.example/framework-v1.pdf",
            "doc_digest_sri": "sha384-Ly4tLCsqKSgnJiUkIyIhIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA",
        });
        let Value::Object(object) = arguments.clone() else { bail!("arguments are an object") };
        let begun = tokio::time::Instant::now();
        let written =
            client.call_tool("svc.ledger.es.createEcosystem", object).await?.structured_content.unwrap_or_default();
        let took = begun.elapsed();
        print_line(format!("svc.ledger.es.createEcosystem answered:\n{}\n", serde_json::to_string_pretty(&written)?));
        let id = written["response"]["ecosystem_id"].clone();
        let mut by_id = Map::new();
        by_id.insert("id".to_owned(), id.clone());
        let begun = tokio::time::Instant::now();
        let read = client.call_tool("svc.idx.es.getEcosystem", by_id).await?.structured_content.unwrap_or_default();
        let read_took = begun.elapsed();
        client.close().await;
        print_line(format!("svc.idx.es.getEcosystem answered:\n{}\n", serde_json::to_string_pretty(&read)?));
        let stages = &written["timings_ms"];
        let rows = [
            ("start of the network", format!("{} ms", booted.as_millis())),
            ("simulate, sign, broadcast", format!("{} ms", stages["submit"])),
            ("inclusion in a block", format!("{} ms", stages["inclusion"])),
            ("indexer barrier", format!("{} ms", stages["index"])),
            ("whole write, as the client saw it", format!("{} ms", took.as_millis())),
            ("read back", format!("{} ms", read_took.as_millis())),
        ]
        .map(|(left, right)| (left.to_owned(), right));
        print_line(render_table(&rows));
        let is_same = read["ecosystem"]["did"] == arguments["did"]
            && read["ecosystem"]["id"].as_u64() == id.as_str().and_then(|id| id.parse().ok());
        if written["indexer_synced"] != true || !is_same {
            bail!("the read-back differs from the written ecosystem");
        }
        print_line("indexer_synced was true, and the read-back matches.");
        Ok(())
    }
}
