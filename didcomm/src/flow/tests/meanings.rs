//! Reads of the node, problem reports, the next party, and the states in which calls are accepted.

use std::collections::BTreeSet;

use super::{NOW, contract, credential, failed_tx, record, states};
use crate::{
    flow::{
        CredentialStage, FlowCredential, FlowState, Notice, OnboardingState, OobLink, ParticipantRead, PendingAction,
        ReportMeaning, RoundStart, Side, Trigger, Variant, report_meaning, transitions, validator_trigger,
    },
    protocol::problem_report::ProblemReport,
};

fn read(state: OnboardingState, changed_at: i128, expires_at: Option<i128>) -> ParticipantRead {
    let (is_revoked, is_slashed) = (false, false);
    ParticipantRead { height: 100, state, changed_at: Some(changed_at), expires_at, is_revoked, is_slashed }
}

#[test]
fn a_read_of_the_node_has_one_meaning_in_each_round() {
    use OnboardingState::{None as Made, Pending, Terminated, Validated};
    use Trigger::*;
    let round = |number, expires_at| RoundStart { number, changed_at: Some(10), expires_at, read_at: 100 };
    let (first, renewal) = (round(1, None), round(2, Some(50)));
    let cases: [(_, _, _, &[Trigger]); 15] = [
        ("the same application", first, read(Pending, 10, None), &[]),
        ("a later one", first, read(Pending, 11, None), &[ChainValidated, ChainPending]),
        ("a renewal of the renewed", renewal, read(Pending, 12, Some(60)), &[ChainValidated, ChainPending]),
        ("a renewal behind a cancelled one", renewal, read(Pending, 12, Some(50)), &[ChainRestored, ChainPending]),
        ("an earlier one", first, read(Pending, 9, None), &[]),
        ("validated", first, read(Validated, 12, Some(60)), &[ChainValidated]),
        ("validated without an end", first, read(Validated, 12, None), &[ChainValidated]),
        ("renewed", renewal, read(Validated, 12, Some(51)), &[ChainValidated]),
        ("renewed without an end", renewal, read(Validated, 12, None), &[ChainValidated]),
        ("a cancelled renewal", renewal, read(Validated, 12, Some(50)), &[ChainRestored]),
        ("a cancelled application", first, read(Terminated, 12, None), &[ChainTerminated]),
        ("made without an onboarding", first, read(Made, 12, None), &[]),
        ("revoked", first, ParticipantRead { is_revoked: true, ..read(Validated, 12, None) }, &[ChainRevoked]),
        (
            "slashed and revoked",
            first,
            ParticipantRead { is_revoked: true, is_slashed: true, ..read(Pending, 12, None) },
            &[ChainSlashed],
        ),
        ("a lagging node", first, ParticipantRead { height: 99, is_slashed: true, ..read(Pending, 12, None) }, &[]),
    ];
    for (name, round, read, expected) in cases {
        assert_eq!(round.triggers(&read), expected, "{name}");
    }
    let own = |is_revoked, is_slashed| ParticipantRead { is_revoked, is_slashed, ..read(Validated, 1, None) };
    assert_eq!(validator_trigger(&own(false, false)), None);
    assert_eq!(validator_trigger(&own(true, false)), Some(ValidatorRevoked));
    assert_eq!(validator_trigger(&own(true, true)), Some(ValidatorSlashed));
}

#[test]
fn problem_reports_mean_what_the_contract_says() {
    let contract = contract();
    let mut seen = 0;
    for row in contract["problemReports"]["effect"].as_array().expect("rows") {
        let codes = row["codes"].as_array().expect("codes").iter().map(|code| code.as_str().expect("a text"));
        let who: &[Option<&str>] = match row["whoRetries"].as_str().expect("a text") {
            "any" => &[None, Some("YOU"), Some("NONE"), Some("none")],
            "YOU or absent" => &[None, Some("YOU"), Some("you")],
            "NONE or absent" => &[None, Some("NONE")],
            "NONE" => &[Some("NONE"), Some("none")],
            "YOU" => &[Some("YOU")],
            "absent" => &[None],
            other => panic!("{other}"),
        };
        let expected = match row["trigger"].as_str().expect("a text") {
            "retry" => ReportMeaning::Retry,
            trigger => ReportMeaning::Trigger(Trigger::parse(trigger).expect("a trigger")),
        };
        for code in codes {
            let code = if code == "any other" { "vt-flow.something-new" } else { code };
            for who in who {
                let report = ProblemReport { who_retries: who.map(str::to_owned), ..ProblemReport::new(code, "") };
                assert_eq!(report_meaning(&report), expected, "{code} {who:?}");
                seen += 1;
            }
        }
    }
    assert!(seen > 40, "{seen} cases");
}

#[test]
fn the_next_party_is_that_of_the_first_row_that_holds() {
    use FlowState::*;
    use PendingAction as P;
    let notice = || Some(Notice { code: "NO_GRANT".into(), text: String::new(), at: NOW });
    let link = |expires_at| {
        Some(OobLink { url: "https://peer.example".into(), description: String::new(), expires_at, at: NOW })
    };
    let (applicant, validator) = (Side::Applicant, Side::Validator);
    let of = |side, state| record(side, Variant::Onboarding, state);
    for (name, record, expected) in [
        ("the end", of(applicant, Error), P::None),
        ("blocked behind the end", crate::flow::FlowRecord { blocked: notice(), ..of(applicant, Error) }, P::None),
        ("blocked", crate::flow::FlowRecord { blocked: notice(), ..of(applicant, OrSent) }, P::Applicant),
        ("blocked", crate::flow::FlowRecord { blocked: notice(), ..of(validator, CredOffered) }, P::Validator),
        ("refused", crate::flow::FlowRecord { refusal: notice(), ..of(applicant, Validating) }, P::Applicant),
        ("refused once", crate::flow::FlowRecord { refusal: notice(), ..of(applicant, Validated) }, P::Agent),
        ("to be sent", of(applicant, AwaitingOp), P::Applicant),
        ("sent", of(applicant, OrSent), P::Agent),
        ("sent", of(applicant, IrSent), P::Agent),
        ("taken", of(validator, AwaitingOr), P::Agent),
        ("taken", of(validator, AwaitingIr), P::Agent),
        ("a link", crate::flow::FlowRecord { oob_link: link(None), ..of(applicant, OobPending) }, P::Applicant),
        (
            "a link",
            crate::flow::FlowRecord { oob_link: link(Some(NOW + 1)), ..of(applicant, OobPending) },
            P::Applicant,
        ),
        (
            "an old link",
            crate::flow::FlowRecord { oob_link: link(Some(NOW)), ..of(applicant, OobPending) },
            P::Validator,
        ),
        ("decided by people", of(applicant, Validating), P::Validator),
        ("sent by another", of(validator, AwaitingValidationTx), P::Validator),
        ("failed", of(validator, ValidationTxFailed), P::Validator),
        ("claims", of(validator, ValidatedPendingClaims), P::Validator),
        ("submitted", of(validator, ValidationTxSubmitted), P::Chain),
        ("a holder", of(validator, Validated), P::Agent),
        ("an issuer", crate::flow::FlowRecord { is_holder: false, ..of(validator, Validated) }, P::None),
        ("offered", of(validator, CredOffered), P::Agent),
        (
            "not anchored",
            crate::flow::FlowRecord {
                credential: Some(FlowCredential { tx: Some(failed_tx()), ..credential(CredentialStage::Signed) }),
                ..of(validator, CredOffered)
            },
            P::Validator,
        ),
        ("done", of(applicant, Completed), P::None),
        ("revoked", of(applicant, CredRevoked), P::None),
    ] {
        assert_eq!(record.pending_action(NOW), expected, "{name} in {}", record.state.as_str());
    }
}

#[test]
fn calls_are_accepted_in_the_states_of_the_contract() {
    let contract = contract();
    let accepted = &contract["acceptedStates"];
    let of = |trigger: Trigger, variant: Variant| -> BTreeSet<FlowState> {
        let is_of = |own: Option<Variant>| own.is_none_or(|own| own == variant);
        let rows = transitions().filter(|row| row.trigger == trigger && is_of(row.variant));
        rows.flat_map(|row| row.from.iter().copied()).collect()
    };
    let named = |value: &serde_json::Value| -> BTreeSet<FlowState> { states(value).into_iter().collect() };
    for &variant in Variant::ALL {
        assert_eq!(of(Trigger::SendOobLink, variant), named(&accepted["sendOobLink"]));
        assert_eq!(of(Trigger::StartValidation, variant), named(&accepted["startValidation"]));
        assert_eq!(of(Trigger::RejectFlow, variant), named(&accepted["rejectFlow"][variant.as_str()]));
    }
    let validate = &accepted["validateFlow"];
    let anchoring = named(&validate["ifAnchoringFailed"]);
    assert_eq!(of(Trigger::ValidateFlow, Variant::Direct), &named(&validate["direct"]) | &anchoring);
    // Where the chain has the validation already, the call goes on from VALIDATED.
    let onboarding = &(&named(&validate["onboarding"]) | &anchoring) | &[FlowState::Validated].into();
    assert_eq!(of(Trigger::ValidateFlow, Variant::Onboarding), onboarding);
}
