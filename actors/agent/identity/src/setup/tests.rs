//! The plan in tables: each situation of an account, of a participant and of a credential, and the step that follows.

use std::time::Duration;

use prost_types::Timestamp;
use serde_json::json;
use svc_agent_core::grant::AgentAccount;
use svc_wire::proto::svc::{
    cs::v1::{CredentialSchema, HolderOnboardingMode, IssuerOnboardingMode},
    de::v1::ParticipantAuthorizationRecord,
    pp::v1::{OnboardingState, Participant, ParticipantRole},
};

use super::{
    SetupOptions, SetupStep, StepActor, StepState,
    facts::{
        AccountFacts, CredentialFacts, CredentialProgress, GapEnd, MissingPlace, ParticipantPlace,
        SchemaCredentialFacts, SetupFacts, WantedParticipant,
    },
    plan::plan,
};
use crate::credential_settings::ClaimProblem;

mod generations;
mod waits;

const NOW: i64 = 1_800_000_000;
const DAY: i64 = 86_400;
const OWN: u64 = 7;
const DID: &str = "did:web:agent.example";
const ADDRESS: &str = "svc1agent";
const SESSION: &str = "/svc.pp.v1.MsgCreateOrUpdateParticipantSession";

fn at(seconds: i64) -> Option<Timestamp> {
    Some(Timestamp { seconds, nanos: 0 })
}

/// The root of the service schema, of corporation 1.
fn root() -> Participant {
    Participant {
        id: 1,
        role: ParticipantRole::Ecosystem as i32,
        corporation_id: 1,
        effective_from: at(NOW - 100 * DAY),
        ..Participant::default()
    }
}

/// An ISSUER participant of the agent.
fn issuer() -> Participant {
    Participant {
        id: 5,
        schema_id: 3,
        role: ParticipantRole::Issuer as i32,
        did: DID.to_owned(),
        corporation_id: OWN,
        vs_operator: ADDRESS.to_owned(),
        validator_participant_id: 1,
        op_state: OnboardingState::Validated as i32,
        effective_from: at(NOW - 300 * DAY),
        effective_until: at(NOW + 100 * DAY),
        ..Participant::default()
    }
}

fn record(expiration: Option<i64>) -> ParticipantAuthorizationRecord {
    ParticipantAuthorizationRecord {
        participant_id: 5,
        msg_types: vec![SESSION.to_owned()],
        expiration: expiration.and_then(at),
        ..ParticipantAuthorizationRecord::default()
    }
}

fn place(mode: IssuerOnboardingMode) -> ParticipantPlace {
    let schema = CredentialSchema {
        id: 3,
        issuer_onboarding_mode: mode as i32,
        holder_onboarding_mode: HolderOnboardingMode::IssuerOnboardingProcess as i32,
        issuer_validation_validity_period: 200,
        ..CredentialSchema::default()
    };
    ParticipantPlace { schema, validator: root(), siblings: Vec::new() }
}

/// One wanted ISSUER participant, and the state of the node.
fn facts(
    place: Result<ParticipantPlace, MissingPlace>,
    participants: Vec<Participant>,
    records: Vec<ParticipantAuthorizationRecord>,
) -> SetupFacts {
    let wanted = WantedParticipant {
        id: "service-issuer".to_owned(),
        role: ParticipantRole::Issuer,
        msg_types: vec![SESSION.to_owned()],
        place,
        schemas: vec![3],
        is_validator_fixed: false,
    };
    SetupFacts {
        agent: AgentAccount { did: DID.to_owned(), corporation_id: OWN, address: ADDRESS.to_owned() },
        now: Timestamp { seconds: NOW, nanos: 0 },
        clock: Timestamp { seconds: NOW, nanos: 0 },
        block_interval: None,
        denom: "FEE".to_owned(),
        generation: None,
        account: AccountFacts {
            exists: true,
            operator_of: Vec::new(),
            serves: None,
            coins: 0,
            corporation: "svc1corporation".to_owned(),
            corporation_coins: 5,
            has_allowance: Some(true),
        },
        participants,
        records,
        wanted: vec![wanted],
        credentials: Vec::new(),
        not_taken: Vec::new(),
        schema_credentials: Vec::new(),
    }
}

/// The signed credential of schema 8.
fn schema_credential(is_anchored: bool, is_presented: bool) -> SchemaCredentialFacts {
    let (name, digest) = ("8".to_owned(), Some("sha384-a".to_owned()));
    SchemaCredentialFacts { schema_id: 8, name, digest, is_anchored, is_presented, is_archived: false }
}

fn steps(facts: &SetupFacts) -> Vec<SetupStep> {
    plan(facts, &SetupOptions::default()).steps
}

/// The steps of the participant, between those of the account and of the fees.
fn of_participant(facts: &SetupFacts) -> Vec<SetupStep> {
    let all = steps(facts);
    all[1..all.len() - 1].to_vec()
}

const OPEN: IssuerOnboardingMode = IssuerOnboardingMode::Open;
const VALIDATED: IssuerOnboardingMode = IssuerOnboardingMode::EcosystemOnboardingProcess;

#[test]
fn without_a_participant_the_complete_message_is_there() {
    let [step] = &of_participant(&facts(Ok(place(OPEN)), vec![], vec![]))[..] else { panic!("one step") };
    assert_eq!((step.state, step.by, step.corporation_id), (StepState::Missing, StepActor::Operator, Some(OWN)));
    assert_eq!(step.tool, Some("svc.ledger.pp.selfCreateParticipant"));
    let mut message = step.message.clone().expect("a message");
    let key = message.as_object_mut().and_then(|members| members.remove("idempotency_key")).expect("a key");
    assert!(key.as_str().is_some_and(|key| key.starts_with("setup-service-issuer-")), "{key}");
    let expected = json!({
        "role": "ISSUER", "validator_participant_id": 1, "did": DID,
        "effective_from": "2027-01-15T08:00:30Z", "effective_until": "2028-01-15T08:00:00Z",
        "vs_operator": ADDRESS, "vs_operator_authz_msg_types": [SESSION],
        "vs_operator_authz_spend_limit": [{"denom": "FEE", "amount": "10000000"}],
        "vs_operator_authz_with_feegrant": true,
    });
    assert_eq!(message, expected);

    let [step] = &of_participant(&facts(Ok(place(VALIDATED)), vec![], vec![]))[..] else { panic!("one step") };
    assert_eq!(step.tool, Some("svc.ledger.pp.startParticipantOp"));
    assert!(step.message.as_ref().is_some_and(|message| message.get("effective_from").is_none()));
    let unknown = MissingPlace { reason: "no root".to_owned(), end: GapEnd::Other };
    let [step] = &of_participant(&facts(Err(unknown), vec![], vec![]))[..] else { panic!("one step") };
    assert_eq!((step.by, step.tool, step.reason.as_str()), (StepActor::Other, None, "no root"));
}

#[test]
fn a_participant_begins_after_some_blocks_where_its_message_is_sent_at_once() {
    for (interval, is_sent_at_once, begins_in) in [
        (None, false, 30),
        (None, true, 30),
        (Some(1_000), false, 30),
        (Some(1_000), true, 5),
        (Some(250), true, 3),
        (Some(6_100), true, 21),
        // A chain with slow blocks would refuse the usual lead.
        (Some(20_000), false, 62),
        (Some(20_000), true, 62),
    ] {
        let block_interval = interval.map(Duration::from_millis);
        let facts = SetupFacts { block_interval, ..facts(Ok(place(OPEN)), vec![], vec![]) };
        let setup = plan(&facts, &SetupOptions { is_sent_at_once, ..SetupOptions::default() });
        let message = setup.steps.iter().find_map(|step| step.message.as_ref()).expect("a message");
        let expected = svc_wire::timestamp::iso_seconds(&Timestamp { seconds: NOW + begins_in, nanos: 0 });
        assert_eq!(message["effective_from"], expected, "{interval:?} {is_sent_at_once}");
    }
}

#[test]
fn the_key_of_a_step_is_equal_as_long_as_the_facts_are() {
    let key = |facts: &SetupFacts| of_participant(facts)[0].message.as_ref().map(|one| one["idempotency_key"].clone());
    let first = facts(Ok(place(OPEN)), vec![], vec![]);
    let instant = Timestamp { seconds: NOW + 77, nanos: 0 };
    let later = SetupFacts { now: instant, clock: instant, ..facts(Ok(place(OPEN)), vec![], vec![]) };
    assert_eq!(key(&first), key(&later));
    let revoked = Participant { revoked: at(NOW - 1), ..issuer() };
    assert_ne!(key(&first), key(&facts(Ok(place(OPEN)), vec![revoked], vec![])), "another participant is made");
}

#[test]
fn each_state_of_a_participant_has_its_step() {
    let good = || vec![record(Some(NOW + 100 * DAY))];
    let applied = Participant { effective_from: None, effective_until: None, op_state: 1, ..issuer() };
    let future = Participant { effective_from: at(NOW + 10), ..issuer() };
    let ends = Participant { effective_until: at(NOW + 29 * DAY), op_exp: at(NOW + 29 * DAY), ..issuer() };
    let short = Participant { effective_from: at(NOW - DAY), effective_until: at(NOW + 6 * DAY), ..issuer() };
    let renewed = Participant { op_state: 1, op_exp: at(NOW + 29 * DAY), ..ends.clone() };
    let revoked = Participant { revoked: at(NOW - 1), ..issuer() };
    let stranger = Participant { vs_operator: "svc1other".to_owned(), ..issuer() };
    let other_type =
        ParticipantAuthorizationRecord { msg_types: vec!["/svc.pp.v1.MsgOther".to_owned()], ..record(Some(NOW + DAY)) };
    let of_place =
        |mode, participant: Participant, records| of_participant(&facts(Ok(place(mode)), vec![participant], records));
    let names = |steps: &[SetupStep]| -> Vec<(String, StepState, Option<&'static str>, Option<u64>)> {
        steps
            .iter()
            .map(|one| {
                (
                    one.id.replace("service-issuer", "x"),
                    one.state,
                    one.tool.map(|tool| tool.rsplit('.').next().unwrap_or(tool)),
                    one.corporation_id,
                )
            })
            .collect()
    };
    let step = |id: &str, state, tool, corporation| (id.to_owned(), state, tool, Some(corporation));
    use StepState::{Done, Missing, Waiting};
    for (found, expected) in [
        (of_place(OPEN, issuer(), good()), vec![step("x", Done, None, OWN)]),
        (of_place(OPEN, future, good()), vec![step("x", Waiting, None, OWN)]),
        (
            of_place(VALIDATED, applied, vec![record(Some(NOW))]),
            vec![step("x", Done, None, OWN), step("x-validation", Waiting, Some("setParticipantOpToValidated"), 1)],
        ),
        // Before its end it is extended: by its corporation, or by that of the validator, or after a renewal.
        (
            of_place(OPEN, ends.clone(), good()),
            vec![step("x", Done, None, OWN), step("x-extension", Missing, Some("setParticipantEffectiveUntil"), OWN)],
        ),
        (
            of_place(VALIDATED, ends.clone(), good()),
            vec![step("x", Done, None, OWN), step("x-extension", Missing, Some("renewParticipantOp"), OWN)],
        ),
        (
            of_place(VALIDATED, Participant { op_exp: at(NOW + 300 * DAY), ..ends }, good()),
            vec![step("x", Done, None, OWN), step("x-extension", Missing, Some("setParticipantEffectiveUntil"), 1)],
        ),
        (
            of_place(VALIDATED, renewed, good()),
            vec![step("x", Done, None, OWN), step("x-validation", Waiting, Some("setParticipantOpToValidated"), 1)],
        ),
        // A week is not extended before its last third.
        (of_place(OPEN, short, good()), vec![step("x", Done, None, OWN)]),
        (
            of_place(OPEN, issuer(), vec![record(Some(NOW))]),
            vec![step("x", Missing, Some("setParticipantEffectiveUntil"), OWN)],
        ),
        (
            of_place(OPEN, issuer(), vec![record(None)]),
            vec![step("x", Missing, Some("setParticipantEffectiveUntil"), OWN)],
        ),
        (of_place(OPEN, issuer(), vec![]), vec![step("x", Missing, None, OWN)]),
        (of_place(OPEN, issuer(), vec![other_type]), vec![step("x", Missing, None, OWN)]),
        (of_place(OPEN, stranger, good()), vec![step("x", Missing, None, OWN)]),
        (of_place(OPEN, revoked, good()), vec![step("x", Missing, Some("selfCreateParticipant"), OWN)]),
    ] {
        assert_eq!(names(&found), expected, "{found:#?}");
    }
}

#[test]
fn a_validation_keeps_within_its_period_and_a_renewal_repeats_the_fees() {
    let applied = Participant { effective_from: None, effective_until: None, op_state: 1, ..issuer() };
    let found = of_participant(&facts(Ok(place(VALIDATED)), vec![applied], vec![record(Some(NOW))]));
    let message = found[1].message.as_ref().expect("a message");
    assert_eq!((&message["id"], &message["effective_until"]), (&json!(5), &json!("2027-08-03T08:00:00Z")));
    let renewed = Participant {
        op_state: 1,
        op_exp: at(NOW + 29 * DAY),
        validation_fees: 4,
        issuance_fee_discount: 100,
        ..issuer()
    };
    let found = of_participant(&facts(Ok(place(VALIDATED)), vec![renewed], vec![record(Some(NOW + DAY))]));
    let message = found[1].message.as_ref().expect("a message");
    assert_eq!((&message["validation_fees"], &message["issuance_fee_discount"]), (&json!(4), &json!(100)));
    assert_eq!((&message["effective_until"], message.get("issuance_fees")), (&json!("2027-09-01T08:00:00Z"), None));
}

#[test]
fn a_participant_that_stands_in_the_way_is_named() {
    let with_sibling = |mode, sibling: Participant| {
        let place = ParticipantPlace { siblings: vec![sibling], ..place(mode) };
        of_participant(&facts(Ok(place), vec![], vec![])).remove(0)
    };
    let other = Participant { id: 9, did: "did:web:other.example".to_owned(), ..issuer() };
    let ended = Participant { effective_until: at(NOW - 1), ..other.clone() };
    let revoked = Participant { revoked: at(NOW - 1), ..other.clone() };
    let terminated = Participant { op_state: OnboardingState::Terminated as i32, ..other.clone() };
    for (mode, sibling, is_blocked) in [
        (OPEN, other.clone(), true),
        (OPEN, ended, true),
        (OPEN, revoked.clone(), false),
        (VALIDATED, other, true),
        (VALIDATED, revoked, true),
        (VALIDATED, terminated, false),
    ] {
        let step = with_sibling(mode, sibling);
        assert_eq!(step.tool.is_none(), is_blocked, "{step:?}");
        assert_eq!(step.reason.contains("participant 9"), is_blocked, "{step:?}");
    }
}

#[test]
fn account_fees_credentials_and_digests_have_steps() {
    let base = || facts(Ok(place(OPEN)), vec![issuer()], vec![record(Some(NOW + 100 * DAY))]);
    let with_account = |change: &dyn Fn(&mut AccountFacts)| {
        let mut changed = base();
        change(&mut changed.account);
        let all = steps(&changed);
        (all[0].state, all[0].by, all.last().map(|one| one.state))
    };
    use StepState::{Done, Missing, Waiting};
    let (own, done) = (StepActor::Operator, Some(Done));
    assert_eq!(with_account(&|_| {}), (Done, own, done));
    assert_eq!(with_account(&|one| one.exists = false), (Missing, StepActor::Other, done));
    assert_eq!(with_account(&|one| one.operator_of = vec![OWN]), (Missing, own, done));
    assert_eq!(with_account(&|one| one.serves = Some(9)), (Missing, StepActor::Other, done));
    assert_eq!(with_account(&|one| one.has_allowance = Some(false)), (Done, own, Some(Missing)));
    assert_eq!(with_account(&|one| one.corporation_coins = 0), (Done, own, Some(Missing)));
    assert_eq!(with_account(&|one| (one.corporation_coins, one.coins) = (0, 3)), (Done, own, done));

    let named = |name: &str, state| CredentialFacts { name: name.to_owned(), state, claims: Vec::new() };
    let awaited = CredentialProgress::Awaited { issuer: Some("did:web:chamber".to_owned()), corporation_id: Some(2) };
    let complete = SetupFacts {
        credentials: vec![named("service", CredentialProgress::Presented(Some(NOW + DAY)))],
        schema_credentials: vec![schema_credential(true, true)],
        ..base()
    };
    assert!(plan(&complete, &SetupOptions::default()).is_complete());
    let waiting = SetupFacts {
        credentials: vec![named("service", CredentialProgress::Issuing("later".to_owned())), named("org", awaited)],
        schema_credentials: vec![schema_credential(false, false)],
        ..base()
    };
    let found = plan(&waiting, &SetupOptions::default());
    assert!(!found.is_complete());
    let last = &found.steps[found.steps.len() - 3..];
    assert_eq!(
        last.iter().map(|one| (one.state, one.by)).collect::<Vec<_>>(),
        [(Waiting, own), (Missing, StepActor::Other), (Missing, own)]
    );
    assert_eq!(last[2].message.as_ref().map(|one| one["digest"].clone()), Some(json!("sha384-a")));
}

#[test]
fn each_setting_that_keeps_a_credential_from_being_issued_is_a_step() {
    let problem = |setting: &str| ClaimProblem {
        setting: setting.to_owned(),
        found: "not set".to_owned(),
        allowed: "a text".to_owned(),
    };
    let facts = SetupFacts {
        credentials: vec![CredentialFacts {
            name: "service".to_owned(),
            state: CredentialProgress::Issuing("the claims".to_owned()),
            claims: vec![problem("ECS_CLAIMS_SERVICE_NAME"), problem("ECS_CLAIMS_FILE service.logoUri")],
        }],
        ..facts(Ok(place(OPEN)), vec![issuer()], vec![record(Some(NOW + 100 * DAY))])
    };
    let steps = plan(&facts, &SetupOptions::default()).steps;
    let last = &steps[steps.len() - 3..];
    let shown: Vec<_> = last.iter().map(|one| (one.id.as_str(), one.state, one.setting.as_deref())).collect();
    assert_eq!(
        shown,
        [
            ("service-claim-1", StepState::Waiting, Some("ECS_CLAIMS_SERVICE_NAME")),
            ("service-claim-2", StepState::Waiting, Some("ECS_CLAIMS_FILE service.logoUri")),
            ("service-credential", StepState::Missing, None),
        ]
    );
    assert!(last[0].reason.starts_with("ECS_CLAIMS_SERVICE_NAME: not set; allowed: a text"), "{}", last[0].reason);
}
