//! A service that leads applicants through an onboarding, as others build it: it has a session at the agent's admin API, reads the chain at the
//! indexer, signs nothing, and uses words of an older text.

use serde_json::{Value, json};

use super::{
    agent_process::AgentProcess,
    identity_process::did_of,
    two_agents::{TwoAgents, ValidatorPlace},
};

const DAY: i64 = 86_400;

fn at(seconds: i64) -> String {
    svc_wire::timestamp::iso_seconds(&prost_types::Timestamp { seconds, nanos: 0 })
}

/// Its own entry, by which clients find it.
async fn write_entry(agent: &AgentProcess, did: &str, validator: &str) {
    let entry = json!({
        "id": format!("{did}#obs-{validator}"), "type": "EcosystemOnboardingService", "serviceEndpoint": "https://onboarding.example",
    });
    let added = agent.send("POST", "/v2/vt/service-endpoints", Some(&entry)).await;
    assert!(added.status < 300, "{}", added.body);
    let listed = agent.send("GET", "/v2/vt/service-endpoints", None).await.body.to_string();
    assert!(listed.contains("EcosystemOnboardingService"), "{listed}");
}

/// The flows of its validator, page by page.
async fn validator_flows(agent: &AgentProcess) -> Vec<Value> {
    let mut flows = Vec::new();
    let mut next = "/v2/vt/flows?role=validator&limit=1".to_owned();
    loop {
        let page = agent.send("GET", &next, None).await;
        assert_eq!(page.status, 200, "{}", page.body);
        flows.extend(page.body["items"].as_array().cloned().unwrap_or_default());
        let Some(cursor) = page.body["nextCursor"].as_str() else { return flows };
        next = format!("/v2/vt/flows?role=validator&limit=1&cursor={cursor}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_onboarding_service_leads_a_holder_to_its_credential_in_words_of_an_older_text() {
    let of_both = [("FLOW_PUBLISH_SCHEMAS", "*".to_owned()), ("FLOW_SEND_TERMS", "true".to_owned())];
    let place = ValidatorPlace { of_both: of_both.into(), ..ValidatorPlace::default() };
    let agents = TwoAgents::start(place).await;
    let (validator, issuer) = (&agents.validator, agents.world.id_of("flows.license.issuer").to_string());
    let did = did_of(validator).await;
    write_entry(validator, &did, &issuer).await;

    let participant = agents.apply().await;
    let is_open = |flow: &Value| flow["flowState"] == "VALIDATING";
    agents.await_flow(validator, participant, is_open).await;
    let found = validator_flows(validator).await;
    let flow = found.iter().find(|flow| flow["participantId"] == participant.to_string().as_str());
    let session = flow.expect("the flow by its older name")["participantSessionId"].as_str().expect("a session");
    let path = format!("/v2/vt/flows/{session}");

    // The case is returned with a message.
    let link = json!({"url": "https://onboarding.example/cases/1", "message": "The address is **missing**."});
    let both = json!({"url": "https://a.example", "message": "a", "description": "b"});
    assert_eq!(validator.send("POST", &format!("{path}/oob-link"), Some(&both)).await.error(), (400, "INVALID_INPUT"));
    let sent = validator.send("POST", &format!("{path}/oob-link"), Some(&link)).await;
    assert_eq!(sent.status, 200, "{}", sent.body);
    assert_eq!(sent.body["oobLinkUrl"], link["url"]);
    assert_eq!(sent.body["oobLink"]["description"], link["message"]);
    let hears = |flow: &Value| flow["oobLink"]["description"] == link["message"];
    agents.await_flow(&agents.applicant, participant, hears).await;

    // It is accepted: claims first, then the decision with terms.
    let claims = json!({"claims": {"grade": "A"}});
    assert_eq!(validator.send("PUT", &format!("{path}/claims"), Some(&claims)).await.status, 200);
    let now = svc_kit::wall_clock::now().seconds;
    for refused in [
        json!({"credentialFormat": "SD_JWT"}),
        json!({"credentialValidUntil": at(now - DAY)}),
        json!({"credentialValidFrom": at(now + 2 * DAY), "credentialValidUntil": at(now + DAY)}),
        json!({"presentAsLinkedVp": "yes"}),
    ] {
        let answer = validator.send("POST", &format!("{path}/validate"), Some(&refused)).await;
        assert_eq!(answer.error(), (400, "INVALID_TERMS"), "{refused}: {}", answer.body);
    }
    let until = at(now + 100 * DAY);
    let decision = json!({
        "credentialFormat": "JSON_LD", "presentAsLinkedVp": false, "credentialValidUntil": until, "opSummaryDigest": "sha384-AAEC",
    });
    let decided = validator.send("POST", &format!("{path}/validate"), Some(&decision)).await;
    assert_eq!(decided.status, 200, "{}", decided.body);
    let (held, issued) = agents.await_completed(participant, 1).await;
    assert_eq!(issued["digestJCS"], issued["credentialDigest"]);
    let validation = &issued["validation"];
    assert_eq!(validation["opSummaryDigest"], "sha384-AAEC");
    assert_eq!(validation["opSummaryDigestSent"], false, "the chain takes none for a holder");
    assert_eq!(validation["presentAsLinkedVp"], false);
    let issued_credentials = validator.send("GET", "/v2/vt/issued-credentials?limit=500", None).await.body;
    let credential = issued_credentials["items"].as_array().into_iter().flatten();
    let credential = credential.into_iter().find(|one| one["id"] == held["credentialId"]).expect("the credential");
    assert_eq!(credential["validUntil"].as_str().map(|text| &text[..19]), Some(&until[..19]), "{credential}");
    // The applicant presents every credential but those that are not to be.
    let document = agents.applicant.send("GET", "/v2/vt/linked-credentials?limit=500", None).await.body;
    let items = document["items"].as_array().cloned().unwrap_or_default();
    assert!(items.iter().all(|one| one["id"] != held["credentialId"]), "{items:#?}");
}
