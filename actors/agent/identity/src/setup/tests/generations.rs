//! The plan at nodes of each generation: participants without a beginning, records without an end, and spend cycles.

use svc_wire::proto_registry::NodeGeneration::{self, N0, N1, N2, N3, N4};

use super::*;

/// Every generation, and one that is not known.
fn generations() -> impl Iterator<Item = Option<NodeGeneration>> {
    [None].into_iter().chain(NodeGeneration::ALL.map(Some))
}

/// The steps of a participant with a record, at a node of a generation.
fn steps_at(
    generation: Option<NodeGeneration>,
    participant: Participant,
    record: ParticipantAuthorizationRecord,
) -> Vec<SetupStep> {
    of_participant(&SetupFacts { generation, ..facts(Ok(place(OPEN)), vec![participant], vec![record]) })
}

#[test]
fn a_participant_without_a_beginning_is_there_at_no_node() {
    let unset = || Participant { effective_from: None, created: at(NOW - 300 * DAY), ..issuer() };
    let found = |generation, sibling: Option<Participant>| {
        let place = ParticipantPlace { siblings: sibling.into_iter().collect(), ..place(OPEN) };
        let records = vec![record(Some(NOW + 100 * DAY))];
        of_participant(&SetupFacts { generation, ..facts(Ok(place), vec![unset()], records) })
    };
    for generation in generations() {
        let [step] = &found(generation, None)[..] else { panic!("{generation:?}") };
        assert_eq!((step.state, step.tool.is_some()), (StepState::Missing, true), "{generation:?} {step:#?}");
        // The oldest nodes take no other one beside it, and it cannot be revoked: the plan names it.
        let [step] = &found(generation, Some(unset()))[..] else { panic!("{generation:?}") };
        let stands_in_the_way = generation.is_none_or(|generation| generation == N0);
        assert_eq!(step.tool.is_none(), stands_in_the_way, "{generation:?} {step:#?}");
        assert_eq!(step.reason.contains("Inactive"), stands_in_the_way, "{generation:?} {step:#?}");
    }
}

#[test]
fn a_participant_is_created_with_a_beginning_at_every_node() {
    for generation in generations() {
        let facts = SetupFacts { generation, ..facts(Ok(place(OPEN)), vec![], vec![]) };
        let found = of_participant(&facts);
        let message = found[0].message.as_ref().expect("a message");
        assert_eq!(message["effective_from"], "2027-01-15T08:00:30Z", "{generation:?}");
    }
}

#[test]
fn rights_without_an_end_are_usable_where_the_node_says_so() {
    let minute = Some(prost_types::Duration { seconds: 60, nanos: 0 });
    // The participant lasts until 25 April.
    let (by_participant, by_record) = (Some("2027-04-25"), Some("2027-02-24"));
    let (past, ahead) = (Some(NOW - DAY), Some(NOW + 40 * DAY));
    for (expiration, period, generation, until) in [
        (None, None, None, None),
        (None, None, Some(N0), None),
        (None, None, Some(N1), by_participant),
        (None, None, Some(N3), by_participant),
        (past, None, None, None),
        (past, None, Some(N0), None),
        (Some(NOW), None, Some(N2), None),
        (past, None, Some(N3), by_participant),
        (past, None, Some(N4), by_participant),
        (ahead, None, None, by_record),
        (ahead, None, Some(N0), by_record),
        (ahead, None, Some(N2), by_record),
        (ahead, None, Some(N3), by_participant),
        // The first use after the end of a cycle begins the next one. Without an end the oldest nodes begin none.
        (past, minute, None, by_participant),
        (past, minute, Some(N0), by_participant),
        (Some(NOW), minute, Some(N1), by_participant),
        (past, minute, Some(N3), by_participant),
        (ahead, minute, Some(N0), by_participant),
        (ahead, minute, Some(N3), by_participant),
        (None, minute, Some(N0), None),
        (None, minute, Some(N1), by_participant),
        (None, minute, Some(N3), by_participant),
    ] {
        let record = ParticipantAuthorizationRecord { period, ..record(expiration) };
        let found = steps_at(generation, issuer(), record);
        let case = format!("{expiration:?} {period:?} {generation:?}: {}", found[0].reason);
        assert_eq!(found[0].state == StepState::Done, until.is_some(), "{case}");
        let shown = ["2027-04-25", "2027-02-24"].into_iter().find(|day| found[0].reason.contains(day));
        assert_eq!(shown, until, "{case}");
    }
}

#[test]
fn a_message_that_the_node_reads_otherwise_is_a_step_of_its_operators_and_names_the_field() {
    let text = "pp.v1.MsgCreateOrUpdateParticipantSession.digest is missing";
    let not_taken = vec![("MsgCreateOrUpdateParticipantSession".to_owned(), text.to_owned())];
    let facts = SetupFacts { not_taken, ..facts(Ok(place(OPEN)), vec![issuer()], vec![record(Some(NOW + 100 * DAY))]) };
    let setup = plan(&facts, &SetupOptions::default());
    let step = setup.steps.iter().find(|step| step.id == "message-MsgCreateOrUpdateParticipantSession");
    let step = step.unwrap_or_else(|| panic!("{setup:#?}"));
    // `svc agent init` does not wait for it, and says that it is left.
    assert_eq!((step.state, step.by, step.tool), (StepState::Waiting, StepActor::Other, None));
    assert!(step.reason.contains(text), "{}", step.reason);
    assert!(!setup.is_complete() && !setup.has_agent_step());
}
