//! The first part of `svc devnet --demo-agent`: two agents become trusted by the steps that `svc agent init` takes.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Map, Value, json};
use svc_agent::SetupOptions;
use svc_net::upstream::NodeClient;
use svc_pipeline::query_account;
use tokio::time::timeout;

use crate::{
    admin::setup_body,
    cli::{agent::init::take_steps, output::print_line},
    mcp_client::McpClient,
    network::{LocalAgent, LocalNetwork, await_credential, received_claims},
};

/// Longest wait for a verdict.
const VERDICT_TIMEOUT: Duration = Duration::from_secs(60);

/// Makes both agents trusted, and shows that a second run sends nothing.
pub(super) async fn run(network: &LocalNetwork) -> anyhow::Result<()> {
    let demo = SetupDemo { network, client: McpClient::connect(&network.mcp_url(), &network.bearer_token).await? };
    let outcome = demo.run().await;
    demo.client.close().await;
    outcome
}

struct SetupDemo<'a> {
    network: &'a LocalNetwork,
    client: McpClient,
}

impl SetupDemo<'_> {
    async fn run(&self) -> anyhow::Result<()> {
        let [first, second] = &self.network.agents[..] else { anyhow::bail!("the scenario has not two agents") };
        let devnet = &self.network.devnet;
        let chamber = devnet.address("chamber.organization.issuer");

        print_line(format!("svc agent init --operator … --apply-to {chamber}, for {}:", first.server.did()));
        let waiting = self.init(first, chamber).await?;
        let validation = step(&waiting, "holder-validation")["message"].clone();
        print_line(
            "\nThe chamber, another corporation, validates the holder and issues the credential of its organisation:",
        );
        let validated = json!({
            "corporation": "$chamber.corporation", "operator": "$clerk", "id": validation["id"],
            "effective_until": validation["effective_until"],
        });
        devnet.send_messages("clerk", &[("pp.MsgSetParticipantOPToValidated", validated)]).await?;
        let mut subject = Map::from_iter([("id".to_owned(), Value::from(first.server.did()))]);
        subject.extend(received_claims(devnet, "organization"));
        let credential = devnet.issue_credential("chamber", "organization", Value::Object(subject)).await?;
        self.import(first, credential).await?;
        self.expect_complete(first, chamber).await?;

        let issuer = self.own_issuer(first).await?;
        print_line(format!("\nsvc agent init --operator …, for {}, whose parent is the first:", second.server.did()));
        self.init(second, "").await?;
        print_line(format!(
            "\nThe second asks the first for its credential by a flow; the first issues it by {issuer}:"
        ));
        await_credential(devnet, &second.server.agent).await?;
        self.expect_complete(second, "").await?;

        for (agent, pattern) in [(first, "self"), (second, "parent")] {
            let did = agent.server.did();
            timeout(VERDICT_TIMEOUT, self.await_trust(&did, pattern)).await.context("no verdict within a minute")??;
            print_line(format!("{did} is trusted, pattern {pattern}"));
        }
        let before = self.sequences().await?;
        self.init(first, chamber).await?;
        self.init(second, "").await?;
        ensure!(self.sequences().await? == before, "a second run has sent a transaction");
        print_line("The same commands again sent no transaction.\n");
        Ok(())
    }

    /// Takes the steps of an agent, as the command does.
    async fn init(&self, agent: &LocalAgent, apply_to: &str) -> anyhow::Result<Value> {
        let read = async |is_sent_at_once| self.read_setup(agent, apply_to, is_sent_at_once).await;
        take_steps(read, &self.client, true, |line| print_line(format!("   {line}"))).await
    }

    async fn read_setup(&self, agent: &LocalAgent, apply_to: &str, is_sent_at_once: bool) -> anyhow::Result<Value> {
        let apply_to = if apply_to.is_empty() { None } else { Some(apply_to.parse()?) };
        let options = SetupOptions { apply_to, is_sent_at_once, ..SetupOptions::default() };
        setup_body(agent.server.agent.credentials().setup(options).await?)
    }

    /// Waits until every step of an agent is done: its node shows each a little later.
    async fn expect_complete(&self, agent: &LocalAgent, apply_to: &str) -> anyhow::Result<()> {
        let mut heights = self.network.devnet.node.watch_heights();
        let mut setup = Value::Null;
        let complete = async {
            loop {
                setup = self.read_setup(agent, apply_to, false).await?;
                if setup["complete"] == true {
                    return anyhow::Ok(());
                }
                heights.changed().await?;
            }
        };
        let ended = timeout(VERDICT_TIMEOUT, complete).await;
        ended.with_context(|| format!("steps are left: {setup:#}"))??;
        print_line("   every step is done");
        Ok(())
    }

    async fn own_issuer(&self, agent: &LocalAgent) -> anyhow::Result<String> {
        let setup = self.read_setup(agent, self.network.devnet.address("chamber.organization.issuer"), false).await?;
        Ok(step(&setup, "service-issuer")["reason"].as_str().unwrap_or_default().to_owned())
    }

    async fn import(&self, agent: &LocalAgent, credential: Value) -> anyhow::Result<()> {
        let imported = agent.server.agent.credentials().import(credential).await?;
        print_line(format!("   svc agent credential import: {} is presented as {}", imported.id, imported.name));
        Ok(())
    }

    async fn await_trust(&self, did: &str, pattern: &str) -> anyhow::Result<()> {
        let url = format!("{}/v4/verifiable-trust/resolve", self.network.indexer_origin());
        let client = reqwest::Client::new();
        let mut heights = self.network.devnet.node.watch_heights();
        loop {
            let verdict: Value = client.post(&url).json(&json!({"did": did})).send().await?.json().await?;
            if verdict["trusted"] == true && verdict["pattern"] == pattern {
                return Ok(());
            }
            heights.changed().await?;
        }
    }

    /// Number of transactions of the operator.
    async fn sequences(&self) -> anyhow::Result<u64> {
        let devnet = &self.network.devnet;
        let operator = devnet.operator_slot.as_ref().context("the scenario has no seat")?;
        let node = NodeClient::new(devnet.node.origin())?;
        let account = query_account(&node, &operator.operator_address).await?;
        Ok(account.context("the operator has no account")?.sequence)
    }
}

fn step<'a>(setup: &'a Value, id: &str) -> &'a Value {
    let found = setup["steps"].as_array().into_iter().flatten().find(|step| step["id"] == id);
    found.unwrap_or(&Value::Null)
}
