//! Reads of the node that come behind a message, and the parts of a record that outlive a read.

use super::{NOW, PEER, cause, credential, failed_tx, record};
use crate::{
    flow::{
        Arrived, Cause, CredentialStage, Exchange, Fees, FlowArrival, FlowRecord, FlowState, FlowTx, Guard,
        OnboardingState, Outgoing, ParticipantRead, Progress, Side, Step, Submission, Trigger, TxStatus, Validation,
        Variant, step, take,
    },
    protocol::{
        Content,
        vt_flow::{FlowRequest, VtFlow},
    },
};

#[test]
fn a_request_that_came_before_its_round_was_shown_is_taken_with_it() {
    // Rounds begin by the chain's clock, in nanoseconds; the request came at NOW, in milliseconds.
    // Agents of the first generation renew without claims: those of the round before are the proposal.
    let given = |grade: Option<&str>| grade.and_then(|grade| serde_json::json!({"grade": grade}).as_object().cloned());
    for (begun, claims, expected, proposed) in [
        (NOW, given(Some("B")), FlowState::Validating, given(Some("B"))),
        (NOW, given(None), FlowState::Validating, given(Some("A"))),
        (NOW + 600_000, given(Some("B")), FlowState::AwaitingOr, given(Some("A"))),
    ] {
        let mut before = record(Side::Validator, Variant::Onboarding, FlowState::Completed);
        before.claims = given(Some("A"));
        before.credential = Some(credential(CredentialStage::Held));
        before.exchange = Some(Exchange { thread: "exchange".into(), is_requested: true, is_delivered: true });
        let request = FlowRequest { participant_session_id: "session".into(), claims, proofs: None };
        let message = VtFlow::OnboardingRequest { participant_id: "7".into(), request }.to_message("request", None);
        let content = Content::read(&message).expect("a request");
        let read = |state, changed_at| ParticipantRead {
            height: 200,
            state,
            changed_at: Some(changed_at),
            expires_at: Some(1),
            is_revoked: false,
            is_slashed: false,
        };
        // The own node still shows the validation of the round before.
        let arrival = FlowArrival {
            message: &message,
            content: &content,
            peer_did: PEER,
            now: NOW,
            new_id: "again",
            facts: [Guard::OpValidated, Guard::GatePassed].into(),
            read: Some(read(OnboardingState::Validated, 10)),
        };
        let Arrived::Changed(offered) = take(&before, &arrival) else { panic!("V21") };
        assert_eq!(offered.record.state, FlowState::CredOffered);
        let mut progress = Progress::of(offered.record);
        let begun = i128::from(begun) * 1_000_000;
        let pending =
            Cause { read: Some(read(OnboardingState::Pending, begun)), ..Cause::new(Trigger::ChainPending, NOW + 5) };
        assert!(progress.take_read(&pending));
        let record = progress.record;
        assert_eq!((record.state, record.round.number, &record.early_request), (expected, 2, &None));
        assert_eq!(record.claims, proposed);
        assert_eq!(progress.sends.contains(&Outgoing::Validating), expected == FlowState::Validating);
    }
}

#[test]
fn the_record_keeps_who_has_sent_the_validation_that_the_chain_shows() {
    let shown = Validation {
        decided_at: NOW,
        submission: Submission::Operator,
        fees: Fees::default(),
        effective_until: Some(9),
        op_summary_digest: None,
        terms: Default::default(),
        attempts: 0,
        tx: None,
    };
    let tx = |status| FlowTx { status, reason: None, ..failed_tx() };
    let own = |status| Validation {
        decided_at: NOW - 9,
        submission: Submission::Agent,
        effective_until: None,
        attempts: 2,
        tx: Some(tx(status)),
        ..shown.clone()
    };
    for (state, before, expected) in [
        (FlowState::ValidationTxSubmitted, Some(own(TxStatus::Submitted)), (Submission::Agent, NOW - 9, 2, true)),
        (FlowState::ValidationTxFailed, Some(own(TxStatus::Failed)), (Submission::Operator, NOW, 2, false)),
        (FlowState::Validating, None, (Submission::Operator, NOW, 0, false)),
    ] {
        let before = FlowRecord { validation: before, ..record(Side::Validator, Variant::Onboarding, state) };
        let cause = Cause { validation: Some(shown.clone()), ..cause(Trigger::ChainValidated) };
        let Step::Moved { record, .. } = step(&before, &cause) else { panic!("V12") };
        let found = record.validation.expect("filled");
        assert_eq!((found.submission, found.decided_at, found.attempts, found.tx.is_some()), expected);
        assert_eq!(found.effective_until, Some(9), "the terms are those of the chain");
        assert!(found.tx.is_none_or(|tx| tx.status == TxStatus::Succeeded));
    }
}
