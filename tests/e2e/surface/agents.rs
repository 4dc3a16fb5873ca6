//! Agents: their discovery, their shared logins, and the error code of each failure.

use std::time::Duration;

use serde_json::{Value, json};

use crate::e2e::{
    fakes::{DidDocumentMode, FakeAgent},
    harness::{TestNetwork, assert_output_schema, network_config, start_network},
};

const LIST: &str = "svc.vsa.se.listServiceEndpoints";

/// A corporation with an agent: a participant with the agent's DID, and an authorized VS operator.
async fn world_with(agent: &FakeAgent) -> TestNetwork {
    let world = start_network(network_config(100)).await;
    world.create_vs_participant(&agent.did).await;
    world
        .wait_until("the agent is known and looked up", async || {
            let agents = world.call_ok("svc.wallet.listVSAgents", json!({})).await;
            agents["vs_agents"][0]["admin_url"].is_string()
        })
        .await;
    world
}

fn of(agent: &FakeAgent, mut given: Value) -> Value {
    given["agent_did"] = agent.did.as_str().into();
    given
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_of_an_agent_share_one_login() {
    let agent = FakeAgent::start().await;
    let without = start_network(network_config(100)).await;
    assert!(!without.tool_names().await.iter().any(|name| name.starts_with("svc.vsa.")), "no agents, no tools");
    without.call_error(LIST, of(&agent, json!({})), "VSA_NOT_AUTHORIZED").await;
    assert_eq!(agent.request_count(), 0, "refused without a contact");

    let world = world_with(&agent).await;
    let agents = world.call_ok("svc.wallet.listVSAgents", json!({})).await;
    assert_eq!(
        (&agents["vs_agents"][0]["did"], &agents["vs_agents"][0]["admin_url"]),
        (&json!(agent.did), &json!(agent.origin))
    );
    for (tool, given, method, path, body) in [
        (LIST, json!({}), "GET", "/v2/vt/service-endpoints".to_owned(), Value::Null),
        (
            "svc.vsa.se.addServiceEndpoint",
            json!({"type": "MCP", "serviceEndpoint": "https://a.example"}),
            "POST",
            "/v2/vt/service-endpoints".to_owned(),
            json!({"type": "MCP", "serviceEndpoint": "https://a.example"}),
        ),
        (
            "svc.vsa.se.updateServiceEndpoint",
            json!({"serviceEndpointId": "#mcp", "type": "A2A"}),
            "PATCH",
            "/v2/vt/service-endpoints/%23mcp".to_owned(),
            json!({"type": "A2A"}),
        ),
        (
            "svc.vsa.se.deleteServiceEndpoint",
            json!({"serviceEndpointId": "#mcp"}),
            "DELETE",
            "/v2/vt/service-endpoints/%23mcp".to_owned(),
            Value::Null,
        ),
    ] {
        let answer = world.call_ok(tool, of(&agent, given)).await;
        let asked = &answer["asked"];
        assert_eq!((&asked["method"], &asked["path"], &asked["body"]), (&json!(method), &json!(path), &body), "{tool}");
        let listed = world.client.list_tools().await.expect("listed");
        assert_output_schema(listed.iter().find(|one| one.name == tool).expect("listed"), &answer);
    }
    assert_eq!(agent.login_count(), 1, "one login for all");
    let error = world
        .call_error("svc.vsa.flow.getFlow", of(&agent, json!({"participantSessionId": "missing"})), "INPUT_INVALID")
        .await;
    assert_eq!(error["details"]["violations"][0]["pointer"], "/participantSessionId");
    let error = world
        .call_error(
            "svc.vsa.se.deleteServiceEndpoint",
            of(&agent, json!({"serviceEndpointId": "missing"})),
            "NOT_FOUND",
        )
        .await;
    assert!(
        error["details"]["status"] == 404
            && error["details"]["body"].as_str().is_some_and(|body| body.contains("UNKNOWN_ID"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_is_shared_renewed_after_a_401_and_not_used_after_its_expiry() {
    let agent = FakeAgent::start().await;
    agent.configure(|manners| {
        manners.login_delay = Duration::from_millis(200);
    });
    let world = world_with(&agent).await;
    let calls = (0..20).map(|_| world.call_ok(LIST, of(&agent, json!({}))));
    futures::future::join_all(calls).await;
    assert_eq!(agent.login_count(), 1, "twenty callers, one login");
    agent.forget_tokens();
    futures::future::join_all((0..20).map(|_| world.call_ok(LIST, of(&agent, json!({}))))).await;
    assert_eq!(agent.login_count(), 2, "twenty refused tokens, one more login");
    // The session actor is killed; its successor logs in again.
    assert!(world.network.operator.supervisor().kill(&format!("agent_session/{}", agent.did)).await);
    world.wait_until("it is back", async || !world.call_tool(LIST, of(&agent, json!({}))).await.is_error).await;
    assert_eq!(agent.login_count(), 3);
    // The tokens have expired when they arrive.
    agent.configure(|manners| manners.token_lifetime = Duration::ZERO);
    agent.forget_tokens();
    let before = agent.login_count();
    let error = world.call_error(LIST, of(&agent, json!({})), "VSA_AUTH_FAILED").await;
    assert!(error["message"].as_str().is_some_and(|text| text.contains("already ended")), "{error:#}");
    assert_eq!(agent.login_count(), before + 1, "and it is not asked again and again");
    agent.configure(|manners| manners.token_lifetime = Duration::from_secs(900));
    world.call_ok(LIST, of(&agent, json!({}))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_failure_of_an_agent_has_an_error_code() {
    let agent = FakeAgent::start().await;
    let world = world_with(&agent).await;
    for (document, code) in [
        (DidDocumentMode::Absent, "VSA_DID_RESOLUTION_FAILED"),
        (DidDocumentMode::OtherSubject, "VSA_DID_RESOLUTION_FAILED"),
        (DidDocumentMode::WithoutAdminApi, "VSA_ADMIN_URL_NOT_FOUND"),
    ] {
        agent.configure(|manners| manners.document_mode = document);
        let error = world.call_error(LIST, of(&agent, json!({})), code).await;
        assert_eq!(error["details"]["agent_did"], agent.did, "{document:?}");
    }
    agent.configure(|manners| {
        manners.document_mode = DidDocumentMode::Complete;
        manners.audience = Some("https://elsewhere.example".to_owned());
    });
    let error = world.call_error(LIST, of(&agent, json!({})), "VSA_AUTH_FAILED").await;
    assert!(error["message"].as_str().is_some_and(|text| text.contains("nothing was signed")), "{error:#}");
    // A signature without an audience is one that the agent could pass on.
    agent.configure(|manners| manners.audience = None);
    let error = world.call_error(LIST, of(&agent, json!({})), "VSA_AUTH_FAILED").await;
    assert!(error["message"].as_str().is_some_and(|text| text.contains("names no audience")), "{error:#}");
    let origin = agent.origin.clone();
    agent.configure(|manners| {
        manners.audience = Some(origin);
        manners.accepts_login = false;
    });
    let error = world.call_error(LIST, of(&agent, json!({})), "VSA_AUTH_FAILED").await;
    assert_eq!(error["details"]["origin"], agent.origin);
    assert_eq!(agent.login_count(), 0);
    agent.configure(|manners| manners.accepts_login = true);
    world.call_ok(LIST, of(&agent, json!({}))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_only_the_indexer_states_gets_no_login() {
    let agent = FakeAgent::start().await;
    let mut world = start_network(network_config(100)).await;
    let participant = world.create_vs_participant(&agent.did).await;
    world.wait_until("the agent is known", async || !world.call_tool(LIST, of(&agent, json!({}))).await.is_error).await;
    let logins = agent.login_count();
    // The participant begins in a minute, and ends when the indexer, whose word stays as it was, has stopped.
    world.network.devnet.node.advance_clock(Duration::from_secs(120));
    world.network.kill_indexer();
    let begun = world.height();
    world.wait_until("blocks have the later time", async || world.height() > begun + 2).await;
    world.network.kill_indexer();
    world.call_ok("svc.ledger.pp.revokeParticipant", json!({"id": participant})).await;
    agent.forget_tokens();
    let error = world.call_error(LIST, of(&agent, json!({})), "VSA_NOT_AUTHORIZED").await;
    assert!(error["message"].as_str().is_some_and(|text| text.contains("the chain has no participant")), "{error:#}");
    assert_eq!(agent.login_count(), logins);
}
