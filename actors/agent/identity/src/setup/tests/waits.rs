//! The steps that are waited for: a step ends by itself, or a party has to send something first.

use super::*;

fn issuing(name: &str) -> CredentialFacts {
    let state = CredentialProgress::Issuing("NO_PARTICIPANT".to_owned());
    CredentialFacts { name: name.to_owned(), state, claims: Vec::new() }
}

fn missing(end: GapEnd) -> Result<ParticipantPlace, MissingPlace> {
    Err(MissingPlace { reason: "a gap".to_owned(), end })
}

/// State, party, reason and seconds of the step with a name.
fn shown(facts: &SetupFacts, id: &str) -> (StepState, StepActor, String, Option<u64>) {
    let step = steps(facts).into_iter().find(|step| step.id == id).expect("the step");
    (step.state, step.by, step.reason, step.ends_in)
}

#[test]
fn the_agent_looks_again_when_the_node_shows_what_its_schema_credentials_lack() {
    let archived = SchemaCredentialFacts { is_archived: true, ..schema_credential(false, false) };
    let unsigned = SchemaCredentialFacts { digest: None, ..schema_credential(false, false) };
    for (credential, state, looks_again, has_message) in [
        (schema_credential(true, true), StepState::Done, false, false),
        // The operator has stored the digest, and the agent has no event of it.
        (schema_credential(true, false), StepState::Waiting, true, false),
        (schema_credential(false, false), StepState::Missing, false, true),
        (unsigned, StepState::Waiting, true, false),
        // Its digest is not to be paid for.
        (archived, StepState::Waiting, true, false),
    ] {
        let base = facts(Ok(place(OPEN)), vec![issuer()], vec![record(Some(NOW + 100 * DAY))]);
        let facts = SetupFacts { schema_credentials: vec![credential], ..base };
        let setup = plan(&facts, &SetupOptions::default());
        let step = setup.steps.last().expect("a step");
        assert_eq!((step.state, setup.has_agent_step()), (state, looks_again), "{step:?}");
        assert_eq!((step.message.is_some(), setup.is_complete()), (has_message, state == StepState::Done), "{step:?}");
    }
}

#[test]
fn a_credential_waits_only_while_the_steps_before_it_end_by_themselves() {
    use StepState::{Missing, Waiting};
    let good = || vec![record(Some(NOW + 100 * DAY))];
    let future = Participant { effective_from: at(NOW + 10), ..issuer() };
    let applied = Participant { effective_from: None, effective_until: None, op_state: 1, ..issuer() };
    let renewed = Participant { op_state: 1, ..issuer() };
    let once = |step: &str| format!("the agent issues it once {step} is done");
    for (mut facts, state, reason, ends_in) in [
        (facts(Ok(place(OPEN)), vec![issuer()], good()), Waiting, "NO_PARTICIPANT".to_owned(), None),
        // A renewal leaves the participant usable.
        (facts(Ok(place(VALIDATED)), vec![renewed], good()), Waiting, "NO_PARTICIPANT".to_owned(), None),
        (facts(Ok(place(OPEN)), vec![future], good()), Waiting, once("service-issuer"), Some(10)),
        (facts(missing(GapEnd::Time(NOW + 25)), vec![], vec![]), Waiting, once("service-issuer"), Some(25)),
        (facts(missing(GapEnd::NextRead), vec![], vec![]), Waiting, once("service-issuer"), None),
        (facts(Ok(place(OPEN)), vec![], vec![]), Missing, once("service-issuer"), None),
        (facts(missing(GapEnd::Operator), vec![], vec![]), Missing, once("service-issuer"), None),
        (facts(missing(GapEnd::Other), vec![], vec![]), Missing, once("service-issuer"), None),
        // Another corporation validates it.
        (facts(Ok(place(VALIDATED)), vec![applied], good()), Missing, once("service-issuer-validation"), None),
    ] {
        for name in ["service", "service-di"] {
            facts.credentials = vec![issuing(name)];
            let found = shown(&facts, &format!("{name}-credential"));
            assert_eq!(found, (state, StepActor::Operator, reason.clone(), ends_in), "{name}");
        }
    }
    let mut without_fees = facts(Ok(place(OPEN)), vec![issuer()], good());
    without_fees.account.has_allowance = Some(false);
    without_fees.credentials = vec![issuing("service")];
    assert_eq!(shown(&without_fees, "service-credential").0, Missing);
    assert_eq!(shown(&without_fees, "service-credential").2, once("fees"));
    let mut blocked = facts(Ok(place(OPEN)), vec![issuer()], good());
    blocked.not_taken = vec![("MsgCreateOrUpdateParticipantSession".to_owned(), "renumbered".to_owned())];
    blocked.credentials = vec![issuing("service")];
    assert_eq!(shown(&blocked, "service-credential").0, Missing);
}

#[test]
fn a_place_that_is_not_known_says_the_party_or_the_time_that_gives_it() {
    use StepActor::{Operator, Other};
    use StepState::{Missing, Waiting};
    let of = |end: GapEnd, credential: SchemaCredentialFacts| {
        let facts = SetupFacts { schema_credentials: vec![credential], ..facts(missing(end), vec![], vec![]) };
        let (state, by, _, ends_in) = shown(&facts, "service-issuer");
        (state, by, ends_in)
    };
    let stored = || schema_credential(true, false);
    assert_eq!(of(GapEnd::Operator, stored()), (Missing, Operator, None));
    assert_eq!(of(GapEnd::Other, stored()), (Missing, Other, None));
    assert_eq!(of(GapEnd::NextRead, stored()), (Waiting, Operator, None));
    assert_eq!(of(GapEnd::Time(NOW + 25), stored()), (Waiting, Operator, Some(25)));
    assert_eq!(of(GapEnd::Presentation(8), stored()), (Waiting, Operator, None));
    assert_eq!(of(GapEnd::Presentation(8), schema_credential(false, false)), (Missing, Operator, None));
    assert_eq!(of(GapEnd::Presentation(9), stored()), (Missing, Operator, None));
}
