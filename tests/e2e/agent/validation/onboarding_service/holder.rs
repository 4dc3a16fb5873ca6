//! A holder: its case goes back and is accepted, and the validation is renewed.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{
    at, days_from_now,
    service::{Decision, OnboardingService},
    start_agents,
};
use crate::e2e::agent::processes::two_agents::TwoAgents;

const CASE: &str = "https://onboarding.example/cases/1";

/// Terms of every decision about a holder: nothing is charged below it.
fn terms(effective_until: &str, digest: &str) -> Value {
    json!({
        "validationFees": 0, "issuanceFees": 0, "verificationFees": 0, "issuanceFeeDiscount": 0, "verificationFeeDiscount": 0,
        "effectiveUntil": effective_until, "opSummaryDigest": digest, "credentialFormat": "JSON_LD",
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_onboarding_service_leads_a_holder_to_its_credential_and_through_a_renewal() {
    let agents = start_agents().await;
    let (world, issuer) = (&agents.world, agents.world.id_of("flows.license.issuer"));
    let mut service = OnboardingService::start(&agents, issuer, "https://old.example").await;
    service.write_entry("https://onboarding.example").await;
    read_the_registry(&service, &agents.applicant_did).await;

    let participant = agents.apply().await;
    service.await_case(participant).await;
    assert!(service.registry.participants_of(&agents.applicant_did).await.contains(&participant));
    let actions = service.registry.participant(participant).await["validator_available_actions"].clone();
    assert!(actions.as_array().is_some_and(|all| all.contains(&json!("SetParticipantOPtoValidated"))), "{actions}");
    let path = service.path(participant).await;

    // The case is returned with a message.
    let both = json!({"url": CASE, "message": "a", "description": "b"});
    assert_eq!(
        service.call("POST", &format!("{path}/oob-link"), Some(&both)).await.error(),
        (400, "INVALID_INPUT"),
        "two texts"
    );
    service.submit(participant).await;
    // It may be pages of Markdown.
    let text = "* The address is **missing**.\n".repeat(500);
    let sent = service.return_case(participant, CASE, &text).await;
    assert_eq!((&sent["oobLinkUrl"], &sent["oobLink"]["description"]), (&json!(CASE), &json!(text)));
    agents.await_flow(&agents.applicant, participant, |flow| flow["oobLink"]["description"] == text.as_str()).await;
    let returned = service.await_status(participant, "AWAITING_APPLICANT_DATA").await;
    assert_eq!(returned["flowState"], "OOB_PENDING");

    // It is accepted: claims first, then the decision with terms.
    service.submit(participant).await;
    for (claims, code) in [(json!({"grade": ""}), "INVALID_CLAIMS"), (json!({"grade": "A"}), "INVALID_TERMS")] {
        let claims = json!({"claims": claims});
        assert_eq!(service.call("PUT", &format!("{path}/claims"), Some(&claims)).await.status, 200);
        let decision = json!({"credentialFormat": "JSON_LD", "credentialValidUntil": days_from_now(-1)});
        let refused = service.call("POST", &format!("{path}/validate"), Some(&decision)).await;
        assert_eq!(refused.error().1, code, "{}", refused.body);
    }
    let now = svc_kit::wall_clock::now().seconds;
    for refused in [
        json!({"credentialFormat": "SD_JWT"}),
        json!({"credentialValidFrom": days_from_now(2), "credentialValidUntil": days_from_now(1)}),
        json!({"presentAsLinkedVp": "yes"}),
        // Members of another kind are no terms either.
        json!({"credentialFormat": 5}),
        json!({"credentialFormat": null}),
        json!({"presentAsLinkedVp": null}),
        json!({"credentialValidFrom": "tomorrow"}),
        json!({"credentialValidUntil": 1}),
    ] {
        let answer = service.call("POST", &format!("{path}/validate"), Some(&refused)).await;
        assert_eq!(answer.error(), (400, "INVALID_TERMS"), "{refused}: {}", answer.body);
    }
    let (end, until) = (at(now + 100 * super::DAY), at(now + 90 * super::DAY));
    let digest = service.summary_digest(participant, 1, &json!({"effectiveUntil": end})).await;
    let mut first = terms(&end, &digest);
    first["credentialValidUntil"] = until.as_str().into();
    first["presentAsLinkedVp"] = false.into();
    let decided = service.accept(participant, Decision { claims: Some(json!({"grade": "A"})), terms: first }).await;
    assert_eq!(decided["validation"]["submission"], "AGENT", "{decided:#}");
    let (held, issued) = agents.await_completed(participant, 1).await;
    let shown = service.await_status(participant, "COMPLETED").await;
    assert_eq!((&shown["digestJCS"], &shown["credentialId"]), (&issued["credentialDigest"], &held["credentialId"]));
    let validation = &shown["validation"];
    assert_eq!(validation["opSummaryDigest"], digest.as_str());
    assert_eq!(validation["opSummaryDigestSent"], false, "the chain takes none for a holder");
    assert_eq!(validation["presentAsLinkedVp"], false);
    let validated = service.await_event("SetParticipantOPtoValidated", participant).await;
    assert_eq!(validation["tx"]["hash"], validated["tx_hash"], "the report of the transaction");
    let registered = service.registry.participant(participant).await;
    assert_eq!((&registered["op_summary_digest"], &registered["op_state"]), (&Value::Null, &json!("VALIDATED")));
    let of_validator = agents.validator.send("GET", "/v2/vt/issued-credentials?limit=500", None).await.body;
    let credential = of_validator["items"].as_array().into_iter().flatten();
    let credential = credential.into_iter().find(|one| one["id"] == held["credentialId"]).expect("the credential");
    assert_eq!(credential["validUntil"].as_str().map(|text| &text[..19]), Some(&until[..19]), "{credential}");
    // The applicant presents every credential but those that are not to be.
    let presents = async |credential: &Value| {
        let linked = agents.applicant.send("GET", "/v2/vt/linked-credentials?limit=500", None).await.body;
        linked["items"].as_array().expect("items").iter().any(|one| one["id"] == *credential)
    };
    assert!(!presents(&held["credentialId"]).await);

    // The applicant renews. The second round has claims and terms of its own.
    let actions = &registered["corporation_available_actions"];
    assert!(actions.as_array().is_some_and(|all| all.contains(&json!("RenewParticipantOP"))), "{actions}");
    world.call_ok("svc.ledger.pp.renewParticipantOp", json!({"id": participant})).await;
    service.await_renewal(participant, 2).await;
    service.submit(participant).await;
    let end = days_from_now(150);
    let digest = service.summary_digest(participant, 2, &json!({"effectiveUntil": end})).await;
    let second = Decision { claims: Some(json!({"grade": "B"})), terms: terms(&end, &digest) };
    service.accept(participant, second).await;
    let (renewed, _) = agents.await_completed(participant, 2).await;
    let shown = service.await_status(participant, "COMPLETED").await;
    assert_ne!(renewed["credentialId"], held["credentialId"]);
    assert_eq!((&shown["claims"], &shown["round"]), (&json!({"grade": "B"}), &json!(2)));
    assert_eq!(shown["validation"]["opSummaryDigest"], digest.as_str());
    let session = shown["participantSessionId"].as_str().expect("a session");
    assert_eq!(world.records_of(session).await, 2, "one for each validation");
    // Its terms let it be presented, and a service of another schema may demand it.
    let license = world.id_of("flows.license.schema");
    world.wait_until("the applicant presents it", async || presents(&renewed["credentialId"]).await).await;
    let is_shown = async || service.registry.shown_schemas(&agents.applicant_did).await.1.contains(&license);
    world.wait_until("the index has it", is_shown).await;
}

/// The reads before the first case: the parties, the claims, the framework, the rights, and the applicant's prerequisites.
async fn read_the_registry(service: &OnboardingService<'_>, applicant: &str) {
    let (world, registry) = (service.world(), &service.registry);
    let validator = registry.participant(service.validator).await;
    let schema = registry.schema(&validator["schema_id"]).await;
    let claims = &schema["json_schema"]["properties"]["credentialSubject"]["properties"];
    assert!(claims["grade"].is_object(), "the form of the claims: {schema:#}");
    assert_eq!(schema["holder_onboarding_mode"], "ISSUER_ONBOARDING_PROCESS");
    let framework = registry.framework(&schema["ecosystem_id"]).await;
    let is_bound = |document: &Value| document["url"].is_string() && document["digest_sri"].is_string();
    assert!(!framework.is_empty() && framework.iter().all(is_bound), "{framework:#?}");
    let corporation = registry.corporation(&validator["corporation_id"]).await;
    assert_eq!(corporation["id"], validator["corporation_id"]);
    let operator = &world.network.operator_slot.operator_address;
    assert!(registry.corporations_of(operator).await.contains(&corporation["id"]), "its operator acts for it");
    let messages = registry.messages_of_agent(service.validator).await;
    for message in ["MsgCreateOrUpdateParticipantSession", "MsgSetParticipantOPToValidated"] {
        assert!(messages.iter().any(|url| url.ends_with(message)), "{message} in {messages:?}");
    }
    assert!(registry.applicants_of(service.validator).await.is_empty());
    let (essential, presented) = registry.shown_schemas(applicant).await;
    let required = world.id_of("service.schema");
    assert!(essential.contains(&required) && presented.contains(&required), "{essential:?} {presented:?}");
}

/// Has the process of the applicant's agent stand still, or go on.
fn signal_applicant(agents: &TwoAgents, signal: Signal) {
    kill_process(Pid::from_child(&agents.applicant.child), signal).expect("sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_was_validated_without_claims_gets_its_credential_once_the_service_has_sent_them() {
    let agents = start_agents().await;
    let (world, issuer) = (&agents.world, agents.world.id_of("flows.license.issuer"));
    let mut service = OnboardingService::start(&agents, issuer, "https://onboarding.example").await;
    let participant = agents.apply().await;
    service.await_case(participant).await;
    service.submit(participant).await;
    let validated = json!({"id": participant, "effective_until": days_from_now(100)});
    world.call_ok("svc.ledger.pp.setParticipantOpToValidated", validated).await;
    let pending = service.await_status(participant, "ISSUANCE_PENDING_CLAIMS").await;
    assert_eq!((&pending["flowState"], &pending["credentialId"]), (&json!("VALIDATED_PENDING_CLAIMS"), &Value::Null));
    let session = pending["participantSessionId"].as_str().expect("a session").to_owned();
    assert_eq!(world.records_of(&session).await, 0, "nothing is paid yet");
    // First the claims, then the validation without inputs.
    let path = service.path(participant).await;
    let refused = service.call("POST", &format!("{path}/validate"), Some(&json!({}))).await;
    assert_eq!(refused.error().1, "INVALID_CLAIMS", "{}", refused.body);
    let claims = Decision { claims: Some(json!({"grade": "A"})), terms: json!({}) };
    service.accept(participant, claims).await;
    agents.await_completed(participant, 1).await;
    assert_eq!(service.await_status(participant, "COMPLETED").await["claims"], json!({"grade": "A"}));
    assert_eq!(world.records_of(&session).await, 1);

    // The applicant submits a renewal before its agent has sent the request of the round: the claims are sent again at the next poll.
    signal_applicant(&agents, Signal::STOP);
    world.call_ok("svc.ledger.pp.renewParticipantOp", json!({"id": participant})).await;
    service.await_state(participant, "AWAITING_OR").await;
    let claims = json!({"claims": {"grade": "B"}});
    let early = service.call("PUT", &format!("{path}/claims"), Some(&claims)).await;
    assert_eq!(early.error(), (409, "INVALID_STATE"), "{}", early.body);
    signal_applicant(&agents, Signal::CONT);
    service.await_renewal(participant, 2).await;
    let stored = service.call("PUT", &format!("{path}/claims"), Some(&claims)).await;
    assert_eq!((stored.status, &stored.body), (200, &claims["claims"]));
}
