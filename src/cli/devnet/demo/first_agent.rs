//! The part of `svc devnet --demo-flows` with an agent of the registry's first generation, which a script plays: it is trusted, gets and
//! renews a credential, and issues one. Its log, document, credentials and messages have the forms of that software, and it refuses others.

use anyhow::{Context, ensure};
use serde_json::{Map, Value, json};
use svc_devnet::first_generation::FirstAgent;
use svc_net::host_policy::HostPolicy;
use svc_peer::{AgentAddress, AgentApi, PeerClient};
use tokio::time::timeout;

use super::flow_session::{FlowSession, STEP_TIMEOUT};
use crate::cli::{output::print_line, peer::trust::describe};

/// The service of the scenario with the agent, and its schema.
const SERVICE: &str = "elder";
const SCHEMA: &str = "permit";

fn grade(grade: &str) -> Map<String, Value> {
    Map::from_iter([("grade".to_owned(), grade.into())])
}

/// Runs the part. `agent` is the admin API of the validator, for `svc peer trust`.
pub(super) async fn run(demo: &FlowSession<'_>, agent: AgentAddress) -> anyhow::Result<()> {
    let devnet = &demo.network.devnet;
    let mut elder = FirstAgent::start(devnet, SERVICE)?;
    let did = elder.did().to_owned();
    print_line(format!("\nAn agent of the first generation, played by a script, is {did}"));
    let schema_credential = elder.publish_schema(SCHEMA).await?;
    print_line(format!("\n9. It publishes the credential of its schema: {schema_credential}"));

    timeout(STEP_TIMEOUT, demo.await_answer(&did, |answer| answer["trusted"] == true))
        .await
        .context("the index does not trust the agent of the first generation")??;
    let peers = PeerClient::new(AgentApi::new(agent, "in this demo")?, HostPolicy::AllowPrivate)?;
    let peer = peers.trust(&did).await?;
    ensure!(peer.trusted, "svc peer trust does not trust it: {}", describe(&peer));
    let lines: Vec<String> = describe(&peer).trim_end().lines().map(|line| format!("   {line}")).collect();
    print_line(format!("\n10. The indexer trusts it, and svc peer trust says:\n{}", lines.join("\n")));

    apply(demo, &mut elder).await?;
    validate(demo, &mut elder, &schema_credential).await
}

/// It applies at an agent of this project, and renews without claims.
async fn apply(demo: &FlowSession<'_>, elder: &mut FirstAgent<'_>) -> anyhow::Result<()> {
    let validator = demo.agent_did(0)?;
    let issuer = demo.network.devnet.address("flows.license.issuer").to_owned();
    let flow = elder.apply(&validator, &issuer, grade("B")).await?;
    let of = || json!({"agent_did": validator, "role": "validator", "participantSessionId": flow.session});
    let call = || json!({"agent_did": validator, "participantSessionId": flow.session});
    demo.await_flow(of(), "VALIDATING").await?;
    demo.call("svc.vsa.flow.validateFlow", call()).await?;
    let first = elder.take_credential(&flow).await?;
    let issued = demo.await_flow(of(), "COMPLETED").await?;
    ensure!(issued["credentialId"] == first["id"], "the two sides name different credentials");
    print_line(format!(
        "\n11. It applies, and takes the credential with {}: COMPLETED, {}",
        first["proof"]["type"], first["id"]
    ));

    let flow = elder.renew(flow.clone()).await?;
    let renewing = demo.await_flow(of(), "VALIDATING").await?;
    demo.call("svc.vsa.flow.validateFlow", call()).await?;
    let second = elder.take_credential(&flow).await?;
    demo.await_flow(of(), "COMPLETED").await?;
    ensure!(
        second["credentialSubject"]["grade"] == first["credentialSubject"]["grade"] && second["id"] != first["id"],
        "the renewal without claims has not the claims of the round before: {second}"
    );
    print_line(format!(
        "\n12. It renews without claims: round {} is COMPLETED with the claims of the round before, {}",
        renewing["round"], second["credentialSubject"]["grade"]
    ));

    elder.publish_credential(&second, &flow.participant).await?;
    let id = second["id"].as_str().context("the credential has no id")?;
    timeout(STEP_TIMEOUT, demo.await_answer(elder.did(), |answer| answer["presentations"].to_string().contains(id)))
        .await
        .context("the indexer lacks the credential that it presents")??;
    print_line("\n13. It presents the credential, and the indexer finds it among its presentations");
    Ok(())
}

/// It validates an agent of this project, and issues the credential.
async fn validate(demo: &FlowSession<'_>, elder: &mut FirstAgent<'_>, schema_credential: &str) -> anyhow::Result<()> {
    let applicant = demo.agent_did(1)?;
    let issuer: u64 = elder.saved(&format!("{SCHEMA}.issuer"))?.parse()?;
    let started = json!({"role": "HOLDER", "validator_participant_id": issuer, "did": applicant});
    let started = demo.call("svc.ledger.pp.startParticipantOp", started).await?;
    let participant = &started["response"]["participant_id"];
    let heard = elder.hear_applicant().await?;
    let of = || json!({"agent_did": applicant, "role": "applicant", "participantSessionId": heard.session});
    demo.await_flow(of(), "VALIDATING").await?;
    ensure!(json!(heard.participant) == *participant, "it has heard of participant {}", heard.participant);
    let issued = elder.issue(&heard, (SCHEMA, schema_credential), grade("C")).await?;
    let held = demo.await_flow(of(), "COMPLETED").await?;
    ensure!(held["credentialId"] == issued["id"], "the two sides name different credentials");
    let id = issued["id"].as_str().context("the credential has no id")?;
    timeout(STEP_TIMEOUT, demo.await_answer(&applicant, |answer| answer["presentations"].to_string().contains(id)))
        .await
        .context("the indexer lacks the credential of the agent of the first generation")??;
    print_line(format!(
        "\n14. The other way round, it validates {applicant}\n    and issues {id}: COMPLETED, and the indexer finds it there"
    ));
    Ok(())
}
