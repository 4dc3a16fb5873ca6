//! Agents: who is one, how it is found, how many share a login, and what each failure is called.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    harness::{World, check_output, config, world},
    standins::{Agent, Document},
};

const LIST: &str = "svc.vsa.flow.listFlows";

/// A corporation with an agent: a participant with the agent's DID, and an authorized VS operator.
async fn world_with(agent: &Agent) -> World {
    let world = world(config(100)).await;
    world.participate(&agent.did).await;
    world
        .until("the agent is known and looked up", async || {
            let agents = world.ok("svc.wallet.listVSAgents", json!({})).await;
            agents["vs_agents"][0]["admin_url"].is_string()
        })
        .await;
    world
}

fn of(agent: &Agent, mut given: Value) -> Value {
    given["agent_did"] = agent.did.as_str().into();
    given
}

#[tokio::test(flavor = "multi_thread")]
async fn every_agent_tool_asks_its_agent_behind_one_login() {
    let agent = Agent::start().await;
    let without = world(config(100)).await;
    assert!(!without.tool_names().await.iter().any(|name| name.starts_with("svc.vsa.")), "no agents, no tools");
    without.fails(LIST, of(&agent, json!({})), "VSA_NOT_AUTHORIZED").await;
    assert_eq!(agent.contacts(), 0, "refused without a contact");

    let world = world_with(&agent).await;
    let agents = world.ok("svc.wallet.listVSAgents", json!({})).await;
    assert_eq!(
        (&agents["vs_agents"][0]["did"], &agents["vs_agents"][0]["admin_url"]),
        (&json!(agent.did), &json!(agent.origin))
    );
    let session = "0b0e5a39-6c3f-4b8e-9d43-0d2f9b8c7a61";
    let flow = |rest: &str| format!("/v2/vt/flows/{session}{rest}");
    for (tool, given, method, path, body) in [
        (LIST, json!({"role": "validator"}), "GET", "/v2/vt/flows".to_owned(), Value::Null),
        ("svc.vsa.flow.getFlow", json!({"participantSessionId": session}), "GET", flow(""), Value::Null),
        (
            "svc.vsa.flow.editCredentialClaims",
            json!({"participantSessionId": session, "claims": {"name": "x"}}),
            "PUT",
            flow("/claims"),
            json!({"claims": {"name": "x"}}),
        ),
        (
            "svc.vsa.flow.sendOobLink",
            json!({"participantSessionId": session, "url": "https://x.example", "description": "d"}),
            "POST",
            flow("/oob-link"),
            json!({"url": "https://x.example", "description": "d"}),
        ),
        (
            "svc.vsa.flow.startValidation",
            json!({"participantSessionId": session}),
            "POST",
            flow("/start-validation"),
            json!({}),
        ),
        (
            "svc.vsa.flow.validateFlow",
            json!({"participantSessionId": session, "issuanceFees": 5}),
            "POST",
            flow("/validate"),
            json!({"issuanceFees": 5}),
        ),
        (
            "svc.vsa.flow.rejectFlow",
            json!({"participantSessionId": session, "description": "no"}),
            "POST",
            flow("/reject"),
            json!({"description": "no"}),
        ),
        ("svc.vsa.se.listServiceEndpoints", json!({}), "GET", "/v2/vt/service-endpoints".to_owned(), Value::Null),
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
        let answer = world.ok(tool, of(&agent, given)).await;
        let asked = &answer["asked"];
        assert_eq!((&asked["method"], &asked["path"], &asked["body"]), (&json!(method), &json!(path), &body), "{tool}");
        let listed = world.client.tools().await.expect("listed");
        check_output(listed.iter().find(|one| one.name == tool).expect("listed"), &answer);
    }
    assert_eq!(agent.logins(), 1, "one login for all");
    let error = world
        .fails("svc.vsa.flow.getFlow", of(&agent, json!({"participantSessionId": "missing"})), "INPUT_INVALID")
        .await;
    assert_eq!(error["details"]["violations"][0]["pointer"], "/participantSessionId");
    let error = world
        .fails(
            "svc.vsa.se.deleteServiceEndpoint",
            of(&agent, json!({"serviceEndpointId": "missing"})),
            "UPSTREAM_HTTP_ERROR",
        )
        .await;
    assert!(
        error["details"]["status"] == 404
            && error["details"]["body"].as_str().is_some_and(|body| body.contains("UNKNOWN_ID"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_is_shared_renewed_after_a_401_and_never_used_past_its_end() {
    let agent = Agent::start().await;
    agent.behave(|manners| {
        manners.login_takes = Duration::from_millis(200);
        manners.audience = None;
    });
    let world = world_with(&agent).await;
    let calls = (0..20).map(|_| world.ok(LIST, of(&agent, json!({}))));
    futures::future::join_all(calls).await;
    assert_eq!(agent.logins(), 1, "twenty callers, one login");
    agent.forget_tokens();
    futures::future::join_all((0..20).map(|_| world.ok(LIST, of(&agent, json!({}))))).await;
    assert_eq!(agent.logins(), 2, "twenty refused tokens, one more login");
    // The session dies; its successor logs in anew.
    assert!(world.network.operator.supervisor().kill(&format!("agent_session/{}", agent.did)).await);
    world.until("it is back", async || !world.call(LIST, of(&agent, json!({}))).await.is_error).await;
    assert_eq!(agent.logins(), 3);
    // With an audience, and with tokens that have ended when they arrive.
    let origin = agent.origin.clone();
    agent.behave(|manners| {
        manners.audience = Some(origin);
        manners.token_life = Duration::ZERO;
    });
    agent.forget_tokens();
    let before = agent.logins();
    let error = world.fails(LIST, of(&agent, json!({})), "VSA_AUTH_FAILED").await;
    assert!(error["message"].as_str().is_some_and(|text| text.contains("already ended")), "{error:#}");
    assert_eq!(agent.logins(), before + 1, "and it is not asked again and again");
    agent.behave(|manners| manners.token_life = Duration::from_secs(900));
    world.ok(LIST, of(&agent, json!({}))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_failure_of_an_agent_has_its_name() {
    let agent = Agent::start().await;
    let world = world_with(&agent).await;
    for (document, code) in [
        (Document::Absent, "VSA_DID_RESOLUTION_FAILED"),
        (Document::OfSomebodyElse, "VSA_DID_RESOLUTION_FAILED"),
        (Document::WithoutAdminApi, "VSA_ADMIN_URL_NOT_FOUND"),
    ] {
        agent.behave(|manners| manners.document = document);
        let error = world.fails(LIST, of(&agent, json!({})), code).await;
        assert_eq!(error["details"]["agent_did"], agent.did, "{document:?}");
    }
    agent.behave(|manners| {
        manners.document = Document::Complete;
        manners.audience = Some("https://elsewhere.example".to_owned());
    });
    let error = world.fails(LIST, of(&agent, json!({})), "VSA_AUTH_FAILED").await;
    assert!(error["message"].as_str().is_some_and(|text| text.contains("nothing was signed")), "{error:#}");
    agent.behave(|manners| {
        manners.audience = None;
        manners.admits = false;
    });
    let error = world.fails(LIST, of(&agent, json!({})), "VSA_AUTH_FAILED").await;
    assert_eq!(error["details"]["origin"], agent.origin);
    assert_eq!(agent.logins(), 0);
    agent.behave(|manners| manners.admits = true);
    world.ok(LIST, of(&agent, json!({}))).await;
}
