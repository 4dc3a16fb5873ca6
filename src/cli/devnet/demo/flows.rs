//! `svc devnet --demo-flows`: a participant is validated and gets its credential between two agents, driven through MCP, and the
//! credential is found again in its document and at the indexer. Then an agent of the first generation does the same on either side.

use anyhow::{Context, bail, ensure};
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    super::arguments::DevnetArgs,
    Demo, first_agent,
    flow_session::{FlowSession, STEP_TIMEOUT},
    home::DemoHome,
    require_block_time,
    webhook_consumer::WebhookConsumer,
};
use crate::{
    cli::output::print_line,
    mcp_client::McpClient,
    network::{LocalNetwork, LocalNetworkConfig},
};

/// The demo of flows.
#[derive(Default)]
pub(in crate::cli::devnet) struct FlowDemo {
    helpers: Option<(WebhookConsumer, DemoHome)>,
}

#[async_trait(?Send)]
impl Demo for FlowDemo {
    fn scenario(&self) -> Option<&'static str> {
        Some("generations")
    }

    async fn configure(&mut self, _args: &DevnetArgs, config: &mut LocalNetworkConfig) -> anyhow::Result<()> {
        require_block_time(config)?;
        let consumer = WebhookConsumer::start().await?;
        config.agent.receiver = Some(consumer.receiver());
        let home = DemoHome::make()?;
        home.keep(&mut config.agent);
        self.helpers = Some((consumer, home));
        Ok(())
    }

    async fn show(&mut self, network: &LocalNetwork) -> anyhow::Result<()> {
        let (consumer, home) = self.helpers.as_mut().context("the demo is not configured")?;
        let agent = home.socket(network.agents.first().context("the scenario has no agent")?);
        let [validator, applicant, ..] = &network.agents[..] else { bail!("the scenario has not two agents") };
        let (validator, applicant) = (validator.server.did(), applicant.server.did());
        print_line(format!("The validator is {validator}\nThe applicant is {applicant}"));
        let client = McpClient::connect(&network.mcp_url(), &network.bearer_token).await?;
        let demo = FlowSession { network, client };
        let issuer: u64 =
            network.devnet.address("flows.license.issuer").parse().context("the scenario has no license")?;
        let schema = network.devnet.address("flows.license.schema");

        // A validator hears trusted agents alone.
        let trusted = demo.await_answer(&applicant, |answer| answer["trusted"] == true);
        timeout(STEP_TIMEOUT, trusted).await.context("the applicant is not trusted")??;
        let started = json!({"role": "HOLDER", "validator_participant_id": issuer, "did": applicant});
        let started = demo.call("svc.ledger.pp.startParticipantOp", started).await?;
        let participant = &started["response"]["participant_id"];
        print_line(format!(
            "\n1. startParticipantOp: participant {participant} waits in block {}",
            started["block_height"]
        ));
        let listed = json!({"agent_did": validator, "role": "validator", "applicantParticipantId": participant});
        let flow = demo.await_flow(listed, "VALIDATING").await?;
        let session = flow["participantSessionId"].clone();
        print_line(format!("\n2. The applicant's agent has opened flow {session}; the validator's agent validates it"));

        let of = |did: &str, mut given: Value| {
            given["agent_did"] = did.into();
            given["participantSessionId"] = session.clone();
            given
        };
        let link = json!({"url": "https://agent.devnet.example/upload", "description": "Upload your certificate."});
        demo.call("svc.vsa.flow.sendOobLink", of(&validator, link)).await?;
        let waiting = demo.await_flow(of(&applicant, json!({})), "OOB_PENDING").await?;
        print_line(format!("\n3. sendOobLink: the applicant reads {}", waiting["oobLink"]["description"]));
        demo.call("svc.vsa.flow.startValidation", of(&validator, json!({}))).await?;
        let claims = json!({"claims": {"grade": "A"}});
        let stored = demo.call("svc.vsa.flow.editCredentialClaims", of(&validator, claims)).await?;
        print_line(format!("\n4. editCredentialClaims: {stored}"));
        let decided = demo.call("svc.vsa.flow.validateFlow", of(&validator, json!({}))).await?;
        print_line(format!(
            "\n5. validateFlow: {}, sent by the {}",
            decided["flowState"], decided["validation"]["submission"]
        ));
        let held = demo.await_flow(of(&applicant, json!({})), "COMPLETED").await?;
        let issued = demo.await_flow(of(&validator, json!({})), "COMPLETED").await?;
        let credential = held["credentialId"].as_str().context("the applicant's flow names no credential")?;
        ensure!(held["credentialId"] == issued["credentialId"], "the two sides name different credentials");
        print_line(format!(
            "\n6. Both flows are COMPLETED: {credential}\n   paid and anchored by {}",
            issued["issuance"]["tx"]["hash"]
        ));
        let presented =
            demo.await_answer(&applicant, |answer| answer["presentations"].to_string().contains(credential));
        timeout(STEP_TIMEOUT, presented).await.context("the indexer lacks it")??;
        print_line(format!(
            "\n7. The indexer finds the credential of schema {schema} among the applicant's presentations"
        ));
        let completed = timeout(
            STEP_TIMEOUT,
            consumer.next(|body| {
                body["type"] == "vt.flows.state-updated"
                    && body["data"]["credentialId"] == credential
                    && body["data"]["flowState"] == "COMPLETED"
            }),
        );
        completed.await.context("no webhook came within a minute")??;
        print_line("\n8. The validator's webhook consumer heard of every state, up to COMPLETED");
        first_agent::run(&demo, agent).await?;
        demo.client.close().await;
        Ok(())
    }
}
