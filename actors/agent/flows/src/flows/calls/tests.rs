use std::collections::BTreeSet;

use prost_types::Timestamp;
use serde_json::json;
use svc_didcomm::flow::{NewFlow, begin};
use svc_wire::proto::svc::pp::v1::{OnboardingState, Participant};

use super::*;

const NOW: i64 = 1_800_000_000_000;

fn shown(state: OnboardingState) -> ShownParticipant {
    let participant = Participant {
        id: 7,
        op_state: state as i32,
        op_last_state_change: Some(Timestamp { seconds: 5, nanos: 0 }),
        op_exp: Some(Timestamp { seconds: 900, nanos: 0 }),
        issuance_fees: 12,
        ..Participant::default()
    };
    ShownParticipant { participant, height: 9 }
}

/// A flow in a state.
fn in_state(side: Side, variant: Variant, state: FlowState) -> FlowRecord {
    let new = NewFlow {
        id: "1".to_owned(),
        side,
        variant,
        peer_did: "did:web:theirs".to_owned(),
        connection_id: Some("c".to_owned()),
        schema_id: 4,
        applicant_participant_id: (variant == Variant::Onboarding).then_some(7),
        validator_participant_id: Some(3),
        is_holder: true,
        session_id: "s".to_owned(),
        claims: None,
        proofs: None,
    };
    let (trigger, facts) = match (side, variant) {
        (Side::Applicant, Variant::Onboarding) => {
            (Trigger::ChainPending, vec![Guard::OwnParticipant, Guard::NoFlowForRound])
        }
        (Side::Applicant, Variant::Direct) => {
            (Trigger::FlowsRequest, vec![Guard::Permissionless, Guard::PeerIssuerActive, Guard::GatePassed])
        }
        (Side::Validator, Variant::Onboarding) => {
            (Trigger::OnboardingRequest, vec![Guard::GateOrExempt, Guard::RequestFits])
        }
        (Side::Validator, Variant::Direct) => (
            Trigger::IssuanceRequest,
            vec![Guard::GatePassed, Guard::Permissionless, Guard::OwnIssuerActive, Guard::SessionFree],
        ),
    };
    let read = shown(OnboardingState::Pending).to_read();
    let cause = Cause {
        read: (variant == Variant::Onboarding).then_some(read),
        new_id: "t".to_owned(),
        ..Cause::new(trigger, NOW - 1)
    };
    let record = begin(new, &cause.with_facts(facts)).expect("it begins").record;
    let thread_id = Some("t".to_owned());
    FlowRecord { state, thread_id, connection_state: ConnectionState::Established, ..record }
}

fn calls() -> Vec<FlowCall> {
    vec![
        FlowCall::EditClaims(Map::new()),
        FlowCall::SendOobLink { url: "https://a.example/x".into(), description: "sign".into(), expires_at: None },
        FlowCall::StartValidation { comment: Some("we look".into()) },
        FlowCall::Reject { description: "no".into(), code: None },
        FlowCall::Resend { claims: None },
        FlowCall::End { description: Some("over".into()) },
    ]
}

fn accepted_states(call: &FlowCall, variant: Variant, contract: &Value) -> Option<BTreeSet<String>> {
    let accepted = &contract["acceptedStates"][call.name()];
    let list = accepted.as_array().or_else(|| accepted[variant.as_str()].as_array())?;
    Some(list.iter().filter_map(|state| state.as_str().map(str::to_owned)).collect())
}

#[test]
fn each_call_is_accepted_in_the_states_of_the_contract_and_refused_with_them_elsewhere() {
    let contract: Value =
        serde_json::from_str(include_str!("../../../../../../didcomm/tests/fixtures/flows.json")).expect("JSON");
    for call in calls() {
        for &(side, variant) in &[
            (Side::Validator, Variant::Onboarding),
            (Side::Validator, Variant::Direct),
            (Side::Applicant, Variant::Onboarding),
            (Side::Applicant, Variant::Direct),
        ] {
            let mut found = BTreeSet::new();
            for &state in FlowState::ALL.iter().filter(|state| state.is_of(side)) {
                let record = in_state(side, variant, state);
                let CallEnd { change, refusal } = call.perform(&record, None, NOW);
                let Some(refusal) = refusal else {
                    found.insert(state.as_str().to_owned());
                    assert!(change.is_some(), "{} in {}", call.name(), state.as_str());
                    continue;
                };
                assert_eq!((refusal.code, change), (RefusalCode::InvalidState, None));
                let accepted = call.accepted(&record);
                let names_all = accepted.iter().all(|state| refusal.message.contains(state));
                assert!(names_all && (accepted.is_empty() || refusal.message.contains(state.as_str())), "{refusal}");
            }
            let expected = accepted_states(&call, variant, &contract).filter(|_| side == Side::Validator);
            if let Some(expected) = expected {
                assert_eq!(found, expected, "{} {variant:?}", call.name());
            }
            let is_of_applicant = matches!(call, FlowCall::Resend { .. } | FlowCall::End { .. });
            assert_eq!(found.is_empty(), is_of_applicant != (side == Side::Applicant), "{} {side:?}", call.name());
        }
    }
}

fn messages(call: &FlowCall, record: &FlowRecord) -> (FlowRecord, Vec<Message>) {
    let CallEnd { change, refusal } = call.perform(record, None, NOW);
    assert_eq!(refusal, None);
    let (progress, messages) = change.expect("a change");
    (progress.record, messages)
}

#[test]
fn calls_send_their_messages_in_the_thread_of_the_flow() {
    let validating = in_state(Side::Validator, Variant::Onboarding, FlowState::Validating);
    let [edit, link, start, reject, resend, end] = calls().try_into().expect("six");
    let claims = FlowCall::EditClaims(json!({"name": "n"}).as_object().cloned().expect("an object"));
    let (edited, sent) = messages(&claims, &validating);
    assert_eq!((edited.claims.map(Value::Object), sent), (Some(json!({"name": "n"})), vec![]));
    let role = FlowRecord { is_holder: false, ..validating.clone() };
    assert_eq!(edit.perform(&role, None, NOW).refusal.map(|one| one.code), Some(RefusalCode::NoCredentialForRole));

    let (linked, sent) = messages(&link, &validating);
    assert_eq!(
        (linked.state, sent[0].thread(), &sent[0].body["url"]),
        (FlowState::OobPending, "t", &json!("https://a.example/x"))
    );
    assert_eq!((linked.messages.len(), linked.oob_link.is_some()), (1, true));
    let (started, sent) = messages(&start, &linked);
    assert_eq!((started.oob_link, &sent[0].body["comment"]), (None, &json!("we look")));
    let (rejected, sent) = messages(&reject, &validating);
    assert_eq!(rejected.state, FlowState::TerminatedByValidator);
    assert_eq!(sent[0].body["description"], json!({"code": "vt-flow.validation-refused", "en": "no"}));
    assert_eq!(rejected.error_message.as_deref(), Some("no"));

    let waiting = in_state(Side::Applicant, Variant::Onboarding, FlowState::OrSent);
    let (_, sent) = messages(&resend, &waiting);
    assert_eq!(sent[0].thread(), "t");
    assert_ne!(sent[0].id, "t", "each message has an id of its own");
    let (with_claims, sent) = messages(&FlowCall::Resend { claims: Some(Map::new()) }, &waiting);
    assert_ne!(sent[0].id, "t");
    assert_eq!((with_claims.thread_id.as_deref(), sent[0].thread()), (Some(sent[0].id.as_str()), sent[0].id.as_str()));
    let (ended, sent) = messages(&end, &waiting);
    assert_eq!(ended.state, FlowState::TerminatedByApplicant);
    assert_eq!(sent[0].body["description"], json!({"code": "vt-flow.session-terminated", "en": "over"}));

    let alone = FlowRecord { connection_state: ConnectionState::Terminated, ..validating };
    let refusal = link.perform(&alone, None, NOW).refusal.expect("refused");
    assert!(refusal.message.contains("TERMINATED, not ESTABLISHED"), "{refusal}");
}

#[test]
fn a_rejection_comes_too_late_where_the_chain_has_validated() {
    let waiting = in_state(Side::Validator, Variant::Onboarding, FlowState::AwaitingValidationTx);
    let reject = FlowCall::Reject { description: "no".into(), code: None };
    assert!(reject.needs_read(&waiting));
    let pending = reject.perform(&waiting, Some(&shown(OnboardingState::Pending)), NOW);
    assert_eq!(pending.refusal, None);
    let late = reject.perform(&waiting, Some(&shown(OnboardingState::Validated)), NOW);
    assert_eq!(late.refusal.map(|one| one.code), Some(RefusalCode::InvalidState));
    let (progress, sent) = late.change.expect("the record says so");
    assert_eq!((progress.record.state, sent), (FlowState::Validated, vec![]));
    assert_eq!(progress.record.validation.map(|one| one.fees.issuance_fees), Some(12));
}

#[test]
fn the_members_of_calls_are_checked_and_all_violations_named() {
    let paths = |call: FlowCall| match call.check() {
        Ok(()) => Vec::new(),
        Err(refusal) => refusal.violations.into_iter().map(|one| one.path).collect::<Vec<_>>(),
    };
    let link = |url: &str, description: &str| FlowCall::SendOobLink {
        url: url.to_owned(),
        description: description.to_owned(),
        expires_at: None,
    };
    let claims = |value: Value| FlowCall::EditClaims(value.as_object().cloned().expect("an object"));
    let deep = (0..28).fold(json!(1), |inner, _| json!({"a": inner}));
    for (call, expected) in [
        (link("https://a.example", "x"), vec![]),
        (link("http://a.example", ""), vec!["description", "url"]),
        (link("https://me@a.example", "x"), vec!["url"]),
        (link("https://:secret@a.example", "x"), vec!["url"]),
        (link("https:a.example", "x"), vec!["url"]),
        (link("https://a.example/a b", "x"), vec!["url"]),
        (link("https://a.example/\0", "x"), vec!["url"]),
        (claims(json!({"a": ["x\0"]})), vec!["claims"]),
        (claims(json!({"a\0": 1})), vec!["claims"]),
        (link("a.example", "x"), vec!["url"]),
        (link(&format!("https://a.example/{}", "x".repeat(MAX_LINK)), "x"), vec!["url"]),
        (link("https://a.example", "\0"), vec!["description"]),
        (link("https://a.example", &"x".repeat(MAX_LINK_TEXT)), vec![]),
        (link("https://a.example", &"x".repeat(MAX_LINK_TEXT + 1)), vec!["description"]),
        (FlowCall::Reject { description: "x".into(), code: Some("vt-flow.oob-expired".into()) }, vec![]),
        (FlowCall::Reject { description: String::new(), code: Some("other".into()) }, vec!["description", "code"]),
        (FlowCall::StartValidation { comment: Some("x".repeat(MAX_TEXT + 1)) }, vec!["comment"]),
        (FlowCall::StartValidation { comment: None }, vec![]),
        (FlowCall::End { description: Some(String::new()) }, vec!["description"]),
        (claims(json!({"name": "n"})), vec![]),
        (claims(json!({"id": "did:web:x"})), vec!["claims"]),
        (claims(json!({"a": "x".repeat(MAX_CLAIMS_BYTES)})), vec!["claims"]),
        (claims(deep.clone()), vec![]),
        (claims(json!({"a": deep})), vec!["claims"]),
        (FlowCall::Resend { claims: Some(Map::from_iter([("id".to_owned(), json!(1))])) }, vec!["claims"]),
    ] {
        assert_eq!(paths(call.clone()), expected, "{call:?}");
    }
}
