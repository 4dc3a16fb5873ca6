//! One case for each row of the contract's table, one for each condition of a row, and one for each state and trigger without a row.

use std::collections::{BTreeMap, BTreeSet};

use super::{arrange, cause, contract, list, record, states};
use crate::flow::{
    ConnectionState, CredentialStage, Decision, Effect, FlowState, FlowWork, Guard, Outgoing, Side, Step, Transition,
    Trigger, TriggerKind, Variant, decide, next_work, rows_of, step, transitions,
};

/// The effects of the contract in its words, and those of ours; a text that is a rule for the rest of the agent has none.
fn effects_of(text: &str) -> &'static [Effect] {
    match text {
        "new participantSessionId (UUIDv4)" => &[Effect::NewSession],
        "claims from claimsSources" => &[Effect::ReadClaims],
        "connection ESTABLISHED" => &[Effect::Establish],
        "clear oobLink" | "oobLink withdrawn" => &[Effect::ClearOobLink],
        "clear refusal" => &[Effect::ClearRefusal],
        "append to messages" => &[Effect::KeepMessage],
        "set oobLink" => &[Effect::SetOobLink],
        "new exchange replaces the old" | "new exchange thread, pthid = flow thread" => &[Effect::NewExchange],
        "credential stored before the ack; it replaces that of an earlier round" => &[Effect::HoldCredential],
        "linked presentation removed, credential deleted"
        | "linked presentation removed, credential of an earlier round deleted" => &[Effect::DropCredential],
        "round + 1"
        | "round + 1; validation and issuance of the last round move to history; claims and messages stay" => {
            &[Effect::NextRound]
        }
        "an older live flow of the same participant is replaced (V40)" => &[Effect::ReplaceOlder],
        "record validation, submission OPERATOR" | "record validation, submission AGENT" => &[Effect::RecordValidation],
        "one write with key validate:<sid>:<round>:<attempt>" => &[Effect::SubmitValidation],
        "record validation with tx.status FAILED and tx.reason" => &[Effect::RecordValidation, Effect::FailValidation],
        "tx.reason TX_FAILED, or TX_NOT_FOUND once absence is proven after the timeout height" => {
            &[Effect::FailValidation]
        }
        "validation filled from the participant; tx.status SUCCEEDED when ours"
        | "connectionState stays TERMINATED; nothing is offered until the applicant re-attaches" => {
            &[Effect::FillValidation]
        }
        "anchor the stored credential again; no event" => &[Effect::AnchorAgain],
        "flow thread = new thread; the old exchange is abandoned" | "as V21" => {
            &[Effect::NewThread, Effect::NewExchange]
        }
        "oobLink withdrawn, undelivered credential discarded" => &[Effect::ClearOobLink, Effect::DiscardCredential],
        "no event when already OOB_PENDING"
        | "linked presentation published when essential or in FLOW_PUBLISH_SCHEMAS"
        | "an older credential stays"
        | "same participantSessionId"
        | "a credential of an earlier round stays while its participant is ACTIVE"
        | "a credential that is held stays"
        | "the participant on chain is untouched"
        | "same database transaction as V01 or as the repeated request"
        | "same database transaction as V02"
        | "the same call goes on from VALIDATING"
        | "the stored credential stays"
        | "a credential already signed for this round is offered again, never signed or paid twice"
        | "never a transaction" => &[],
        other => panic!("an effect that nothing here knows: {other}"),
    }
}

fn kind_of(trigger: Trigger) -> TriggerKind {
    let name = trigger.as_str();
    let contract = contract();
    let rows = contract["transitions"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["trigger"] == name).expect("a row");
    TriggerKind::parse(row["kind"].as_str().expect("a text")).expect("a kind")
}

#[test]
fn the_rows_are_those_of_the_contract_in_its_order() {
    let contract = contract();
    let rows = contract["transitions"].as_array().expect("rows");
    assert_eq!(transitions().count(), rows.len());
    for (row, expected) in transitions().zip(rows) {
        let id = expected["id"].as_str().expect("a text");
        assert_eq!(row.id, id);
        assert_eq!(row.side.as_str(), expected["side"], "{id}");
        assert_eq!(row.variant.map_or("both", Variant::as_str), expected["variant"], "{id}");
        assert_eq!(row.from, states(&expected["from"]), "{id}");
        assert_eq!(row.to.as_str(), expected["to"], "{id}");
        assert_eq!(row.trigger.as_str(), expected["trigger"], "{id}");
        let guard = |(guard, holds): &(Guard, bool)| format!("{}{}", if *holds { "" } else { "!" }, guard.as_str());
        assert_eq!(row.guards.iter().map(guard).collect::<Vec<_>>(), list(&expected["guard"]), "{id}");
        assert_eq!(row.sends.map(Outgoing::as_str), expected.get("sends").and_then(|text| text.as_str()), "{id}");
        let effects: Vec<Effect> = list(&expected["effects"]).into_iter().flat_map(effects_of).copied().collect();
        assert_eq!(row.effects, effects, "{id}");
    }
    assert_eq!(FlowState::ALL, states(&contract["flowStates"]));
    let all = || FlowState::ALL.iter().copied();
    assert_eq!(all().filter(|state| state.is_terminal()).collect::<Vec<_>>(), states(&contract["terminalStates"]));
    for (side, name) in [(Side::Applicant, "validatorOnlyStates"), (Side::Validator, "applicantOnlyStates")] {
        let not_of: BTreeSet<FlowState> = all().filter(|state| !state.is_of(side)).collect();
        assert_eq!(not_of, states(&contract[name]).into_iter().collect(), "{name}");
    }
    let guards = contract["flowTable"]["guards"].as_object().expect("guards");
    assert_eq!(
        Guard::ALL.iter().map(|guard| guard.as_str()).collect::<BTreeSet<_>>(),
        guards.keys().map(String::as_str).collect()
    );
}

/// The cases of a row: each variant and each state that it leads out of.
fn cases(row: &Transition) -> Vec<(Variant, FlowState)> {
    let variants = row.variant.map_or_else(|| Variant::ALL.to_vec(), |variant| vec![variant]);
    variants.iter().flat_map(|variant| row.from.iter().map(|state| (*variant, *state))).collect()
}

#[test]
fn each_row_leads_where_the_contract_says_and_sends_what_it_says() {
    for row in transitions() {
        for (variant, state) in cases(row) {
            let (mut before, mut cause) = (record(row.side, variant, state), cause(row.trigger));
            // Those that do not hold are arranged first: one place of a record may be behind two conditions.
            for wanted in [false, true] {
                for (guard, _) in row.guards.iter().filter(|(_, holds)| *holds == wanted) {
                    arrange(&mut before, &mut cause, *guard, wanted);
                }
            }
            let Step::Moved { row: taken, record: after, sends } = step(&before, &cause) else {
                panic!("{} from {}", row.id, state.as_str());
            };
            assert_eq!((taken.id, after.state, sends), (row.id, row.to, row.sends), "from {}", state.as_str());
            let expected = if state == row.to { before.last_event_at } else { cause.now };
            assert_eq!(after.last_event_at, expected, "{}: an event for a change of state alone", row.id);
            assert_eq!((after.updated_at, &after.session_id), (cause.now, &before.session_id));
        }
    }
}

#[test]
fn a_row_with_a_condition_that_does_not_hold_changes_nothing() {
    let mut tried = 0;
    for row in transitions() {
        for (variant, state) in cases(row) {
            for (unmet, wanted) in row.guards {
                let (mut before, mut cause) = (record(row.side, variant, state), cause(row.trigger));
                for (guard, wanted) in row.guards.iter().filter(|(guard, _)| guard != unmet) {
                    arrange(&mut before, &mut cause, *guard, *wanted);
                }
                arrange(&mut before, &mut cause, *unmet, !wanted);
                // Another row of the same trigger may have the opposite condition.
                match step(&before, &cause) {
                    Step::Moved { row: taken, .. } => assert_ne!(taken.id, row.id, "without {}", unmet.as_str()),
                    Step::Unmet(_) => tried += 1,
                    Step::Elsewhere => panic!("{} has a row", row.id),
                }
            }
        }
    }
    assert!(tried > 80, "{tried} conditions");
}

#[test]
fn a_state_and_a_trigger_without_a_row_change_nothing() {
    let mut without = BTreeMap::new();
    for &side in Side::ALL {
        for (&variant, &state) in
            Variant::ALL.iter().flat_map(|variant| FlowState::ALL.iter().map(move |state| (variant, state)))
        {
            for &trigger in Trigger::ALL {
                if rows_of(side, variant, Some(state), trigger).next().is_some() {
                    continue;
                }
                let cause = cause(trigger).with_facts(Guard::ALL.iter().copied());
                assert_eq!(step(&record(side, variant, state), &cause), Step::Elsewhere);
                *without.entry(kind_of(trigger)).or_insert(0) += 1;
            }
        }
    }
    assert_eq!(without.len(), TriggerKind::ALL.len(), "{without:?}");
}

#[test]
fn flows_begin_by_four_triggers_and_no_other() {
    let begin: BTreeSet<&str> =
        transitions().filter(|row| row.from.is_empty()).map(|row| row.trigger.as_str()).collect();
    assert_eq!(
        begin,
        ["chain.pending", "flows.open", "flows.request", "issuance-request", "onboarding-request"].into()
    );
    for &trigger in Trigger::ALL {
        let at = (Side::Applicant, Variant::Onboarding);
        let wanted = [Guard::OwnParticipant, Guard::NoFlowForRound, Guard::NoLiveFlow, Guard::OpensWithoutEvent];
        match decide(at, None, trigger, |guard| wanted.contains(&guard)) {
            Decision::Row(row) => assert!(["A01", "A02"].contains(&row.id)),
            Decision::Unmet(_) => panic!("{} has a condition too many", trigger.as_str()),
            Decision::Elsewhere => assert!(!["chain.pending", "flows.open"].contains(&trigger.as_str())),
        }
    }
}

#[test]
fn a_terminal_state_is_left_by_a_validation_in_flight_alone() {
    let left: BTreeSet<&str> =
        transitions().filter(|row| row.from.iter().any(|state| state.is_terminal())).map(|row| row.id).collect();
    assert_eq!(left, ["V13"].into());
}

#[test]
fn no_text_of_a_peer_makes_a_condition_of_the_record_true() {
    let facts = Guard::ALL.iter().copied();
    for (guard, trigger, state) in [
        (Guard::NamesExchange, Trigger::Ack, FlowState::CredOffered),
        (Guard::AnchoringFailed, Trigger::ValidateFlow, FlowState::CredOffered),
    ] {
        let cause = cause(trigger).with_facts(facts.clone());
        let found = step(&record(Side::Validator, Variant::Direct, state), &cause);
        assert_eq!(found, Step::Unmet((guard, true)));
    }
    // Another peer's message, though it names the exchange.
    let (mut before, mut ack) = (record(Side::Validator, Variant::Direct, FlowState::CredOffered), cause(Trigger::Ack));
    for guard in [Guard::NamesExchange, Guard::Delivered] {
        arrange(&mut before, &mut ack, guard, true);
    }
    ack.thread = Some("exchange".into());
    ack.peer_did = Some("did:web:another.example".into());
    assert_eq!(step(&before, &ack), Step::Unmet((Guard::NamesExchange, true)));
}

#[test]
fn a_renewal_keeps_the_session_and_moves_the_round_to_the_past() {
    let mut before = record(Side::Validator, Variant::Onboarding, FlowState::CredOffered);
    before.credential = Some(super::credential(CredentialStage::Delivered));
    before.exchange = Some(crate::flow::Exchange { thread: "exchange".into(), is_requested: true, is_delivered: true });
    let mut ack = cause(Trigger::Ack);
    ack.thread = Some("exchange".into());
    let Step::Moved { record: completed, .. } = step(&before, &ack) else { panic!("V19") };
    assert!(completed.has_held_credential());
    assert_eq!(step(&completed, &ack), Step::Elsewhere, "a second one changes nothing");
    let Step::Moved { record: renewed, .. } = step(&completed, &cause(Trigger::ChainPending)) else { panic!("V25") };
    assert_eq!((renewed.round.number, renewed.round.read_at, renewed.past.len()), (2, 200, 1));
    assert_eq!((&renewed.credential, &renewed.exchange, renewed.state), (&None, &None, FlowState::AwaitingOr));
    assert!(renewed.has_held_credential(), "that of the last round stays");
    let Step::Moved { record: cancelled, row, .. } = step(&renewed, &cause(Trigger::ChainRestored)) else {
        panic!("V29")
    };
    assert_eq!((row.id, cancelled.state), ("V29", FlowState::Completed));
    assert_eq!((&cancelled.credential, &cancelled.exchange), (&completed.credential, &completed.exchange));
    assert_eq!(
        (cancelled.round.number, cancelled.past.len()),
        (2, 0),
        "the number of the cancelled round is not used again"
    );
    // An applicant that begins again gets the credential that is there.
    let again = cause(Trigger::OnboardingRequest).with_facts([Guard::SamePeer, Guard::OpValidated]);
    let Step::Moved { record: mut offered, .. } = step(&cancelled, &again) else { panic!("V21") };
    assert_eq!(next_work(&offered), None, "before the request");
    offered.exchange.as_mut().expect("an exchange").is_requested = true;
    assert_eq!(next_work(&offered), Some(FlowWork::Deliver));
    let Step::Moved { record: revoked, .. } = step(&cancelled, &cause(Trigger::ChainRevoked)) else { panic!("V23") };
    assert!(revoked.has_revoked_credential() && !revoked.has_held_credential());
}

#[test]
fn an_end_closes_the_connection_and_says_why() {
    let mut end = cause(Trigger::FlowsEnd);
    end.reason = Some("no longer wanted".into());
    let Step::Moved { record: ended, sends, .. } =
        step(&record(Side::Applicant, Variant::Direct, FlowState::IrSent), &end)
    else {
        panic!("A33")
    };
    assert_eq!(sends, Some(Outgoing::SessionTerminated));
    assert_eq!(ended.connection_state, ConnectionState::Terminated);
    assert_eq!(ended.error_message.as_deref(), Some("no longer wanted"));
}
