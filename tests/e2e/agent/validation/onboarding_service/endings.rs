//! Cases that are rejected, and a validation that fails for lack of coins until there are some.

use serde_json::json;

use super::{
    create_root, days_from_now,
    service::{Decision, OnboardingService},
    start_agents,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_case_ends_on_both_sides_and_after_its_cancellation_another_one_begins() {
    let agents = start_agents().await;
    let issuer = agents.world.id_of("flows.license.issuer");
    let mut service = OnboardingService::start(&agents, issuer, "https://onboarding.example").await;
    let participant = agents.apply().await;
    service.await_case(participant).await;
    service.submit(participant).await;
    let text = "The certificate is not readable.";
    let rejected = service.reject(participant, text).await;
    assert_eq!(rejected["flowState"], "TERMINATED_BY_VALIDATOR", "{rejected:#}");
    service.await_status(participant, "REJECTED").await;
    let is_over = |flow: &serde_json::Value| {
        flow["flowState"] == "TERMINATED_BY_VALIDATOR"
            && flow["errorMessage"].as_str().is_some_and(|message| message.contains(text))
    };
    agents.await_flow(&agents.applicant, participant, is_over).await;
    let path = service.path(participant).await;
    for (call, body) in [
        ("reject", json!({"description": "again"})),
        ("validate", json!({})),
        ("oob-link", json!({"url": "https://onboarding.example/cases/1", "message": "again"})),
    ] {
        let refused = service.call("POST", &format!("{path}/{call}"), Some(&body)).await;
        assert_eq!(refused.error(), (409, "INVALID_STATE"), "{call}: {}", refused.body);
    }
    // The chain knows of no rejection: the applicant takes its request back, and gets its escrow.
    assert!(service.registry.applicants_of(issuer).await.contains(&participant));
    agents.world.call_ok("svc.ledger.pp.cancelParticipantOpLastRequest", json!({"id": participant})).await;
    service.await_event("CancelParticipantOPLastRequest", participant).await;
    service.await_status(participant, "CANCELLED").await;
    let next = agents.apply().await;
    service.await_case(next).await;
    assert!(!service.registry.applicants_of(issuer).await.contains(&participant));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_validation_without_coins_fails_and_the_same_inputs_again_succeed_once_there_are_some() {
    let agents = start_agents().await;
    let (world, root) = (&agents.world, create_root(&agents, false).await);
    let mut service = OnboardingService::start(&agents, root, "https://onboarding.example").await;
    let participant = agents.apply_under("ISSUER", root).await;
    service.await_case(participant).await;
    service.submit(participant).await;
    // The agent's account pays itself. Its coins go, but for some that pay no fee: the second transfer costs as much as the first.
    let state = async || agents.validator.info().await["resolution"]["state"].clone();
    world.wait_until("the account sends nothing more by itself", async || state().await == "idle").await;
    let (has, sent) = (world.coins_of("agent").await, 800_000);
    world.send("agent", "member", sent).await;
    let left = world.coins_of("agent").await;
    world.send("agent", "member", left - (has - sent - left) - 500).await;

    let end = days_from_now(100);
    let digest = service.summary_digest(participant, 1, &json!({"effectiveUntil": end})).await;
    let terms = json!({"validationFees": 300, "effectiveUntil": end, "opSummaryDigest": digest});
    service.accept(participant, Decision { claims: None, terms }).await;
    let failed = service.await_status(participant, "VALIDATION_FAILED").await;
    let tx = &failed["validation"]["tx"];
    assert_eq!((&tx["status"], &tx["reason"]), (&json!("FAILED"), &json!("INSUFFICIENT_FUNDS_AGENT")), "{failed:#}");
    assert!(tx["error"].is_string(), "the remedy in words: {failed:#}");
    assert_eq!(failed["pendingAction"], "VALIDATOR");
    // Without coins the same call fails the same way.
    assert_eq!(service.validate(participant).await["flowState"], "VALIDATION_TX_FAILED");

    world.send("member", "agent", 1_000_000).await;
    let decided = service.validate(participant).await;
    assert_eq!(decided["validation"]["submission"], "AGENT", "{decided:#}");
    let shown = service.await_status(participant, "VALIDATED").await;
    agents.await_flow(&agents.validator, participant, |flow| flow["flowState"] == "VALIDATED").await;
    assert_eq!(shown["validation"]["fees"]["validationFees"], 300);
    service.await_event("SetParticipantOPtoValidated", participant).await;
    assert_eq!(service.events_of("SetParticipantOPtoValidated", participant).len(), 1, "one transaction");
    let registered = service.registry.participant(participant).await;
    assert_eq!((&registered["op_summary_digest"], &registered["validation_fees"]), (&json!(digest), &json!(300)));
    // A call after the success finds the participant validated.
    let path = service.path(participant).await;
    let late = service.call("POST", &format!("{path}/validate"), Some(&json!({"validationFees": 300}))).await;
    assert_eq!(late.error(), (409, "INVALID_STATE"), "{}", late.body);
}
