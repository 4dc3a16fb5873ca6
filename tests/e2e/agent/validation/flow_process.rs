//! Two agents as processes of their own, with flows between them: killed at any moment, with a restored backup, and without space on the
//! disk. The chain counts the credentials that were paid for.

use std::time::Duration;

use serde_json::{Value, json};
use svc_test_support::{
    otlp_receiver::{ExportedSpan, OtlpReceiver},
    small_disk::{SmallDisk, fill},
};

use crate::e2e::{
    agent::{
        answer,
        credentials::identity_process::{ask_until_ok, did_of, kills},
        document::resolution::registry_id,
        processes::two_agents::{TwoAgents, ValidatorPlace},
    },
    harness::TEST_TIMEOUT,
};

/// Writes of 60 kB that fill the small disk for certain.
const WRITES_OF_A_DISK: usize = 200;

impl TwoAgents {
    /// The trust deposit of the corporation of the root, to which a part of every session goes.
    async fn deposit_of_beneficiary(&self) -> i64 {
        let read = json!({"corporation_id": registry_id(&self.world.network.devnet)});
        let found = self.world.call_ok("svc.idx.td.getTrustDeposit", read).await;
        let deposit = &found["trust_deposit"]["deposit"];
        deposit.as_i64().unwrap_or_else(|| panic!("a deposit in {found:#}"))
    }

    /// Claims that are too large, too deep or ambiguous are refused, and nothing of them is kept.
    async fn refuse_hostile_claims(&self, participant: u64, path: &str) {
        let deep = format!("{}1{}", "[".repeat(33), "]".repeat(33));
        for claims in [
            format!(r#"{{"grade":"{}"}}"#, "x".repeat(655_360)),
            format!(r#"{{"grade":{deep}}}"#),
            r#"{"grade":"A","grade":"B"}"#.to_owned(),
            r#"["A"]"#.to_owned(),
        ] {
            let request = self.validator.request("PUT", &format!("{path}/claims"), None);
            let body = format!(r#"{{"claims":{claims}}}"#);
            let refused = answer(request.header("content-type", "application/json").body(body)).await;
            let (status, code) = refused.error();
            assert!([400, 413, 422].contains(&status), "{status} {}", refused.body);
            assert!(["INVALID_INPUT", "INVALID_CLAIMS", "INVALID_BODY"].contains(&code), "{code} {}", refused.body);
        }
        let kept = self.flow(&self.validator, participant).await;
        assert!(kept["claims"].is_null(), "{kept:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flows_of_agents_that_are_killed_at_any_moment_are_paid_once_for_each_validation() {
    let mut agents = TwoAgents::start(ValidatorPlace::default()).await;
    let deposit = agents.deposit_of_beneficiary().await;
    let participant = agents.apply().await;
    let session = agents.validate(participant, "A").await;
    agents.await_completed(participant, 1).await;
    let mut last = agents.deposit_of_beneficiary().await;
    let share = last - deposit;
    assert!(share > 0, "the root above the issuer gets a part of each session");
    // Each change of state is one webhook, on both sides.
    let of_validator = "AWAITING_OR VALIDATING VALIDATION_TX_SUBMITTED VALIDATED CRED_OFFERED COMPLETED";
    let of_applicant = "AWAITING_OP OR_SENT VALIDATING VALIDATED CRED_OFFERED COMPLETED";
    for (heard, expected) in [(&agents.heard_by_validator, of_validator), (&agents.heard_by_applicant, of_applicant)] {
        let states = async || heard.states(&session, 1).join(" ");
        agents.world.wait_until("the webhooks are there", async || states().await.ends_with("COMPLETED")).await;
        assert_eq!(states().await, expected);
    }
    let mut random = fastrand::Rng::with_seed(26);
    let rounds = (kills() / 4).max(2) as u64;
    for round in 2..=rounds {
        agents.world.call_ok("svc.ledger.pp.renewParticipantOp", json!({"id": participant})).await;
        let same = agents.validate(participant, &format!("B{round}")).await;
        assert_eq!(same, session);
        // The kills come before, within or behind each step of either side.
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_millis(random.u64(0..500))).await;
            if random.bool() {
                agents.validator.kill();
                agents.validator = agents.validator_home.start();
            } else {
                agents.applicant.kill();
                agents.applicant = agents.applicant_home.start();
            }
        }
        let (held, issued) = agents.await_completed(participant, round).await;
        assert_eq!(held["credentialId"], issued["credentialId"], "round {round}");
        assert_eq!(agents.world.records_of(&session).await as u64, round, "one for each validation");
        let deposit = agents.deposit_of_beneficiary().await;
        assert_eq!(deposit - last, share, "round {round}: the beneficiary is paid once");
        last = deposit;
        for heard in [&agents.heard_by_validator, &agents.heard_by_applicant] {
            let is_over = async || heard.states(&session, round).last().is_some_and(|state| state == "COMPLETED");
            agents.world.wait_until("the webhooks of the round are there", is_over).await;
        }
    }
    assert!(agents.validator.terminate().0 && agents.applicant.terminate().0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_backup_pays_for_no_credential_that_the_chain_has_already() {
    let mut agents = TwoAgents::start(ValidatorPlace::default()).await;
    // The backup knows the applicant, and not its license.
    assert!(agents.validator.terminate().0);
    agents.validator_home.keep("agent.db", "backup.db");
    agents.validator = agents.validator_home.start();
    let participant = agents.apply().await;
    let session = agents.validate(participant, "A").await;
    let (first, _) = agents.await_completed(participant, 1).await;
    // The index looks at the applicant for its new presentation, and at its issuer: that one has to be there until then.
    let resolution = async || agents.applicant.info().await["resolution"]["state"].clone();
    agents.world.wait_until("the applicant's document is resolved", async || resolution().await == "idle").await;
    let reached = *agents.world.network.devnet.node.watch_heights().borrow();
    let is_evaluated =
        |verdict: &Value| verdict["trusted"] == true && verdict["block_height"].as_u64() >= Some(reached);
    agents.world.await_verdict_on(&agents.applicant_did, is_evaluated).await;
    let log = agents.validator_home.stop_with_log(agents.validator).await;
    agents.validator_home.restore("backup.db");
    let (is_ok, shown) = agents.validator_home.run(&[]).await;
    assert!(!is_ok && shown.contains("older than"), "{shown}");
    let (is_ok, shown) = agents.validator_home.run(&["recover", "--log", &log]).await;
    assert!(is_ok, "{shown}");
    agents.validator = agents.validator_home.start();
    let validator = &agents.validator;
    // The index may have looked for its document while it was down. Until it resolves the new one, both DIDs are not trusted, and no message is heard.
    agents
        .world
        .wait_until("the document is resolved", async || validator.info().await["resolution"]["state"] == "idle")
        .await;
    for did in [did_of(validator).await, agents.applicant_did.clone()] {
        agents.world.await_verdict_on(&did, |verdict| verdict["trusted"] == true).await;
    }
    let path = format!("/v2/vt/flows/{session}");
    let asked = agents.applicant.send("POST", &format!("{path}/resend"), Some(&json!({}))).await;
    assert_eq!(asked.status, 200, "{}", asked.body);
    let blocked = |flow: &Value| flow["blocked"]["reason"] == "ALREADY_ISSUED";
    agents.await_flow(validator, participant, blocked).await;
    assert_eq!(agents.world.records_of(&session).await, 1, "nothing is paid again");
    // The operator has seen it, and has another one issued. The claims of the first have gone with the store.
    let refused = validator.send("POST", &format!("{path}/validate"), Some(&json!({}))).await;
    assert_eq!(refused.error(), (422, "INVALID_CLAIMS"), "{}", refused.body);
    let claims = json!({"claims": {"grade": "A"}});
    let edited = validator.send("PUT", &format!("{path}/claims"), Some(&claims)).await;
    assert_eq!(edited.status, 200, "{}", edited.body);
    ask_until_ok(&agents.world, validator, &format!("{path}/validate"), &json!({})).await;
    let is_another = |flow: &Value| flow["flowState"] == "COMPLETED" && flow["credentialId"] != first["credentialId"];
    agents.await_flow(&agents.applicant, participant, is_another).await;
    assert_eq!(agents.world.records_of(&session).await, 2);
    assert!(agents.applicant.terminate().0);
    // A store can lack nothing but transactions of its account. It accepts its own log, whose versions present credentials.
    let log = agents.validator_home.stop_with_log(agents.validator).await;
    let (is_ok, shown) = agents.validator_home.run(&["recover", "--log", &log]).await;
    assert!(is_ok, "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_space_on_the_disk_a_flow_stands_still_and_with_space_again_it_goes_on() {
    let Some(disk) = SmallDisk::mount("size=8m") else { return };
    let outside = disk.outside();
    let agents = TwoAgents::start(ValidatorPlace { disk: Some(disk), ..ValidatorPlace::default() }).await;
    let participant = agents.apply().await;
    let waits = |flow: &Value| flow["flowState"] == "VALIDATING";
    let flow = agents.await_flow(&agents.validator, participant, waits).await;
    let session = flow["participantSessionId"].as_str().expect("a session").to_owned();
    let filler = fill(&outside);
    let path = format!("/v2/vt/flows/{session}");
    // The file of the write-ahead log may have room for some writes yet.
    let mut refused = None;
    for number in 0..WRITES_OF_A_DISK {
        let claims = json!({"claims": {"grade": format!("{number}{}", "x".repeat(60_000))}});
        let edited = agents.validator.send("PUT", &format!("{path}/claims"), Some(&claims)).await;
        if edited.status != 200 {
            refused = Some(edited);
            break;
        }
    }
    let refused = refused.expect("the disk is full");
    assert_eq!(refused.error(), (503, "NOT_READY"), "{}", refused.body);
    // The applicant's next message stays with it.
    let asked = agents.applicant.send("POST", &format!("{path}/resend"), Some(&json!({}))).await;
    assert_eq!(asked.status, 200, "{}", asked.body);
    std::fs::remove_file(filler).expect("removed");
    agents.validate(participant, "A").await;
    agents.await_completed(participant, 1).await;
    assert_eq!(agents.world.records_of(&session).await, 1);
    assert!(agents.validator.terminate().0 && agents.applicant.terminate().0);
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_from_the_call_to_the_delivered_credential_is_one_trace() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    let receiver = OtlpReceiver::start().await;
    let mut agents = TwoAgents::start(ValidatorPlace::default()).await;
    assert!(agents.validator.terminate().0);
    agents.validator_home.settings.extend([
        ("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc".to_owned()),
        ("OTEL_METRICS_EXPORTER", "none".to_owned()),
    ]);
    agents.validator = agents.validator_home.start();
    let participant = agents.apply().await;
    let flow = agents.await_flow(&agents.validator, participant, |flow| flow["flowState"] == "VALIDATING").await;
    let session = flow["participantSessionId"].as_str().expect("a session");
    let path = format!("/v2/vt/flows/{session}");
    agents.refuse_hostile_claims(participant, &path).await;
    let claims = json!({"claims": {"grade": "A"}});
    assert_eq!(agents.validator.send("PUT", &format!("{path}/claims"), Some(&claims)).await.status, 200);
    let call = agents.validator.request("POST", &format!("{path}/validate"), Some(&json!({})));
    let called = answer(call.header("traceparent", format!("00-{TRACE}-b7ad6b7169203331-01"))).await;
    assert_eq!(called.status, 200, "{}", called.body);
    agents.await_completed(participant, 1).await;
    assert!(agents.validator.terminate().0);
    // The last spans of a process are exported when it ends.
    let is_delivered =
        |span: &ExportedSpan| span.name == "flow_step" && format!("{:?}", span.attributes).contains("deliver");
    let spans = receiver.spans_when(TEST_TIMEOUT, |spans| spans.iter().any(is_delivered)).await;
    let of_trace: Vec<&ExportedSpan> = spans.iter().filter(|span| span.trace_id == TRACE).collect();
    let names: Vec<&str> = of_trace.iter().map(|span| span.name.as_str()).collect();
    assert!(names.contains(&"POST /v2/vt/flows/{participantSessionId}/validate"), "{names:?}");
    for name in ["validate_participant", "anchor_credential", "simulate", "sign", "broadcast", "await_inclusion"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let steps: String =
        of_trace.iter().filter(|span| span.name == "flow_step").map(|span| format!("{:?}", span.attributes)).collect();
    for step in ["send_validation", "offer", "sign", "anchor", "deliver"] {
        assert!(steps.contains(step), "{step} in {steps}");
    }
    let begun = spans.iter().find(|span| span.name == "read_participant").expect("a read that an event prompted");
    assert_eq!(begun.parent_span_id, "", "it begins a trace");
    assert!(agents.applicant.terminate().0);
}
