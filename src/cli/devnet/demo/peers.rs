//! `svc devnet --demo-peers`: two fresh agents become trusted, one opens the tool server to peers, and the other one calls a tool as
//! `svc peer call` does.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use svc_agent::{AccessGrantFilter, GrantState};
use svc_net::host_policy::HostPolicy;
use svc_peer::{AgentApi, CallOptions, PeerCall, PeerClient, PeerError, PeerFailure};

use super::{
    super::arguments::DevnetArgs,
    Demo,
    home::{CONDITIONS, DemoHome},
    require_block_time, setup,
};
use crate::{
    cli::{output::print_line, peer::trust::describe},
    mcp_client::McpClient,
    network::{LocalNetwork, LocalNetworkConfig},
};

/// Longest wait for one step.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// The demo of a peer.
#[derive(Default)]
pub(in crate::cli::devnet) struct PeerDemo {
    home: Option<DemoHome>,
}

#[async_trait(?Send)]
impl Demo for PeerDemo {
    fn scenario(&self) -> Option<&'static str> {
        Some("marketplace")
    }

    async fn configure(&mut self, _args: &DevnetArgs, config: &mut LocalNetworkConfig) -> anyhow::Result<()> {
        require_block_time(config)?;
        let home = self.home.insert(DemoHome::make()?);
        home.configure(&mut config.agent);
        Ok(())
    }

    async fn show(&mut self, network: &LocalNetwork) -> anyhow::Result<()> {
        let home = self.home.as_ref().context("the demo is not configured")?;
        let [owner, caller] = &network.agents[..] else { bail!("the scenario has not two agents") };
        let did = owner.server.did();
        let endpoint = format!("{did}#mcp");
        let agent = AgentApi::new(home.socket(caller), "in this demo")?;
        let client = PeerClient::new(agent, HostPolicy::AllowPrivate)?;

        print_line(format!("1. Before anything: svc peer trust {did}"));
        let unknown = client.trust(&did).await?;
        ensure!(!unknown.trusted, "a fresh DID is trusted");
        print_line(indented(&describe(&unknown)));

        print_line("\n2. Both become trusted:\n");
        setup::run(network).await?;

        let url = network.mcp_url();
        print_line(format!(
            "3. The owner adds the entry #mcp with the URL of its tool server, {url}, and the conditions:"
        ));
        print_line(indented(CONDITIONS));
        add_entry(network, &did, &url).await?;

        print_line(format!("\n4. svc peer trust {did}"));
        let peer = await_endpoint(network, &client, &did, &endpoint).await?;
        print_line(indented(&describe(&peer)));

        let call = PeerCall::Tool {
            name: "svc.idx.es.getEcosystem".to_owned(),
            arguments: Map::from_iter([("id".to_owned(), Value::from(1))]),
        };
        print_line(format!("\n5. svc peer call {endpoint} svc.idx.es.getEcosystem id=1"));
        let found = client.find_endpoint(&endpoint).await?;
        let answer = client.call(&found, &call, &CallOptions::default()).await?;
        ensure!(answer.text.contains("did:"), "the tool has answered {}", answer.text);
        print_line(indented(&excerpt(&answer.text)));

        let access = owner.server.agent.access();
        let filter = AccessGrantFilter { state: Some(GrantState::Active), ..AccessGrantFilter::default() };
        let grants = access.grants(&filter, None, 10).await?;
        let grant = grants.first().context("the owner has no grant")?;
        print_line(format!(
            "\n6. svc agent access list, at the owner:\n   {} for {}: {}",
            grant.id, grant.peer, grant.endpoint
        ));

        print_line(format!("\n7. svc peer call {endpoint} svc.ledger.es.createEcosystem: a peer only reads"));
        let write = PeerCall::Tool { name: "svc.ledger.es.createEcosystem".to_owned(), arguments: Map::new() };
        match client.call(&found, &write, &CallOptions::default()).await {
            Err(PeerError { failure: PeerFailure::Refused, message, .. }) => print_line(indented(&excerpt(&message))),
            other => bail!("the ledger is not refused: {other:?}"),
        }
        print_line("\nThe peer has called a tool with a token that was granted over DIDComm.");
        Ok(())
    }
}

async fn add_entry(network: &LocalNetwork, did: &str, url: &str) -> anyhow::Result<()> {
    let client = McpClient::connect(&network.mcp_url(), &network.bearer_token).await?;
    let given = json!({"agent_did": did, "id": "mcp", "type": "MCP", "serviceEndpoint": url});
    let called =
        client.call_tool("svc.vsa.se.addServiceEndpoint", given.as_object().cloned().unwrap_or_default()).await?;
    client.close().await;
    ensure!(called.is_error != Some(true), "addServiceEndpoint failed: {:?}", called.structured_content);
    Ok(())
}

/// Waits until the peer shows the endpoint with its conditions: the agent publishes them with a version of the document.
async fn await_endpoint(
    network: &LocalNetwork,
    client: &PeerClient,
    did: &str,
    endpoint: &str,
) -> anyhow::Result<svc_peer::PeerResolution> {
    let mut heights = network.devnet.node.watch_heights();
    let shown = async {
        loop {
            let peer = client.trust(did).await?;
            let entry = peer.endpoints.iter().find(|one| one.id == endpoint);
            if entry.is_some_and(|entry| entry.material.as_deref() == Some("bearer")) {
                return anyhow::Ok(peer);
            }
            heights.changed().await?;
        }
    };
    tokio::time::timeout(STEP_TIMEOUT, shown).await.context("the endpoint is not shown within a minute")?
}

fn indented(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("   {line}")).collect::<Vec<_>>().join("\n")
}

/// The first characters of a text.
fn excerpt(text: &str) -> String {
    const MAX: usize = 400;
    if text.chars().count() <= MAX { text.to_owned() } else { text.chars().take(MAX).chain(['…']).collect() }
}
