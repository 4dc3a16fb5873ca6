//! Issuers: one is validated by the agent, and one by an operator of the validator's corporation. Neither gets a credential.

use serde_json::{Value, json};

use crate::e2e::agent::{
    processes::agent_process::own_account,
    validation::onboarding_service::{
        create_root, days_from_now,
        service::{Decision, OnboardingService},
        start_agents,
    },
};

/// The inputs of an acceptance.
fn terms(effective_until: &str, digest: &str) -> Value {
    json!({
        "validationFees": 300, "issuanceFees": 200, "verificationFees": 100, "issuanceFeeDiscount": 0.25,
        "verificationFeeDiscount": 0, "effectiveUntil": effective_until, "opSummaryDigest": digest,
        "credentialFormat": "JSON_LD",
    })
}

/// The participant has the values of an acceptance.
fn assert_validated(registered: &Value, terms: &Value) {
    assert_eq!(registered["op_state"], "VALIDATED");
    assert_eq!(registered["op_summary_digest"], terms["opSummaryDigest"]);
    for (name, term) in [
        ("validation_fees", "validationFees"),
        ("issuance_fees", "issuanceFees"),
        ("verification_fees", "verificationFees"),
        ("issuance_fee_discount", "issuanceFeeDiscount"),
    ] {
        assert_eq!(registered[name].as_f64(), terms[term].as_f64(), "{name} in {registered:#}");
    }
    let end = |value: &Value| value.as_str().map(|text| text[..19].to_owned());
    assert_eq!(end(&registered["effective_until"]), end(&terms["effectiveUntil"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_is_accepted_by_the_agent_and_by_an_operator_with_terms_that_the_chain_keeps() {
    let agents = start_agents().await;
    let by_agent = create_root(&agents, true).await;
    let by_operator = agents.world.id_of("flows.accreditation.root");
    let mut first = OnboardingService::start(&agents, by_agent, "https://first.example").await;
    let mut second = OnboardingService::start(&agents, by_operator, "https://second.example").await;
    assert!(first.registry.messages_of_agent(by_agent).await.iter().any(|url| url.ends_with("OPToValidated")));
    assert!(second.registry.messages_of_agent(by_operator).await.is_empty());
    validate_by_the_agent(&mut first).await;
    validate_by_an_operator(&mut second).await;
    // Each service has one entry, and sees the cases of its participant alone.
    assert!(first.registry.applicants_of(by_agent).await.is_empty());
}

async fn validate_by_the_agent(service: &mut OnboardingService<'_>) {
    let agents = service.agents();
    let participant = agents.apply_under("ISSUER", service.validator).await;
    service.await_case(participant).await;
    service.submit(participant).await;
    let path = service.path(participant).await;
    let claims = json!({"claims": {"grade": "A"}});
    let refused = service.call("PUT", &format!("{path}/claims"), Some(&claims)).await;
    assert_eq!(refused.error(), (409, "NO_CREDENTIAL_FOR_ROLE"), "{}", refused.body);
    for of_credential in [json!({"presentAsLinkedVp": true}), json!({"credentialValidUntil": days_from_now(9)})] {
        let refused = service.call("POST", &format!("{path}/validate"), Some(&of_credential)).await;
        assert_eq!(refused.error(), (400, "INVALID_TERMS"), "{of_credential}: {}", refused.body);
    }

    let end = days_from_now(100);
    let digest = service.summary_digest(participant, 1, &json!({"effectiveUntil": end})).await;
    let given = terms(&end, &digest);
    let decided = service.accept(participant, Decision { claims: None, terms: given.clone() }).await;
    assert_eq!(decided["validation"]["submission"], "AGENT", "{decided:#}");
    service.await_event("SetParticipantOPtoValidated", participant).await;
    agents.await_flow(&agents.validator, participant, |flow| flow["flowState"] == "VALIDATED").await;
    agents.await_flow(&agents.applicant, participant, |flow| flow["flowState"] == "VALIDATED").await;
    let shown = service.await_status(participant, "VALIDATED").await;
    let validation = &shown["validation"];
    assert_eq!((&validation["opSummaryDigest"], &validation["tx"]["status"]), (&json!(digest), &json!("SUCCEEDED")));
    assert!(validation.get("opSummaryDigestSent").is_none(), "{validation:#}");
    assert_eq!(shown["pendingAction"], "NONE", "an issuer gets no credential");
    let validated = service.events_of("SetParticipantOPtoValidated", participant);
    assert_eq!(validated.len(), 1);
    assert_eq!(
        (&validated[0]["payload"]["sender"], &validated[0]["tx_hash"]),
        (&json!(own_account()), &validation["tx"]["hash"])
    );
    assert_validated(&service.registry.participant(participant).await, &given);

    // A renewal keeps the fees, and has an end and a summary of its own.
    agents.world.call_ok("svc.ledger.pp.renewParticipantOp", json!({"id": participant})).await;
    service.await_renewal(participant, 2).await;
    service.submit(participant).await;
    let end = days_from_now(200);
    let digest = service.summary_digest(participant, 2, &json!({"effectiveUntil": end})).await;
    let path = service.path(participant).await;
    let other_fees = json!({"validationFees": 301, "effectiveUntil": end});
    let refused = service.call("POST", &format!("{path}/validate"), Some(&other_fees)).await;
    assert_eq!(refused.error(), (400, "INVALID_INPUT"), "{}", refused.body);
    let given = terms(&end, &digest);
    service.accept(participant, Decision { claims: None, terms: given.clone() }).await;
    let shown = service.await_status(participant, "VALIDATED").await;
    assert_eq!(shown["round"], 2);
    assert_validated(&service.registry.participant(participant).await, &given);
}

async fn validate_by_an_operator(service: &mut OnboardingService<'_>) {
    let agents = service.agents();
    let participant = agents.apply_under("ISSUER", service.validator).await;
    service.await_case(participant).await;
    service.submit(participant).await;
    let end = days_from_now(100);
    let digest = service.summary_digest(participant, 1, &json!({"effectiveUntil": end})).await;
    let given = terms(&end, &digest);
    let decided = service.accept(participant, Decision { claims: None, terms: given.clone() }).await;
    assert_eq!(
        (&decided["flowState"], &decided["validation"]["submission"], &decided["pendingAction"]),
        (&json!("AWAITING_VALIDATION_TX"), &json!("OPERATOR"), &json!("VALIDATOR"))
    );
    let waiting = service.await_status(participant, "ACCEPTED_PENDING_CHAIN").await;
    assert!(waiting["validation"].get("tx").is_none(), "{waiting:#}");

    // The front end has the validator's operator sign the same values.
    let signed = json!({
        "id": participant, "validation_fees": given["validationFees"], "issuance_fees": given["issuanceFees"],
        "verification_fees": given["verificationFees"], "issuance_fee_discount": 2_500, "verification_fee_discount": 0,
        "effective_until": end, "op_summary_digest": digest,
    });
    let sent = agents.world.call_ok("svc.ledger.pp.setParticipantOpToValidated", signed).await;
    let validated = service.await_event("SetParticipantOPtoValidated", participant).await;
    let operator = &agents.world.network.operator_slot.operator_address;
    assert_eq!((&validated["tx_hash"], &validated["payload"]["sender"]), (&sent["tx_hash"], &json!(operator)));
    agents.await_flow(&agents.validator, participant, |flow| flow["flowState"] == "VALIDATED").await;
    agents.await_flow(&agents.applicant, participant, |flow| flow["flowState"] == "VALIDATED").await;
    let shown = service.await_status(participant, "VALIDATED").await;
    assert_eq!((&shown["validation"]["submission"], &shown["pendingAction"]), (&json!("OPERATOR"), &json!("NONE")));
    assert_validated(&service.registry.participant(participant).await, &given);
}
