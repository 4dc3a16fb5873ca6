//! Flows whose chain has lost blocks.

use std::collections::BTreeSet;

use super::{credential, past, record};
use crate::flow::{
    CredentialStage, CredentialTerms, Fees, FlowCredential, FlowRecord, FlowState, FlowTx, FlowWork, PastRound,
    Progress, RoundStart, Side, Submission, TxStatus, Validation, Variant, next_work,
};

fn tx(hash: &str) -> Option<FlowTx> {
    let hash = Some(hash.to_owned());
    Some(FlowTx { status: TxStatus::Succeeded, hash, height: None, reason: None, error: None })
}

fn paid(id: &str, stage: CredentialStage, hash: &str) -> FlowCredential {
    FlowCredential { id: Some(id.to_owned()), tx: tx(hash), ..credential(stage) }
}

fn flow(state: FlowState, stage: Option<CredentialStage>) -> FlowRecord {
    let record = record(Side::Validator, Variant::Onboarding, state);
    FlowRecord {
        round: RoundStart { read_at: 200, ..record.round },
        credential: stage.map(|stage| paid("present", stage, "LOST")),
        ..record
    }
}

fn validated(submission: Submission, hash: &str) -> Option<Validation> {
    Some(Validation {
        decided_at: 1,
        submission,
        fees: Fees::default(),
        effective_until: None,
        op_summary_digest: None,
        terms: CredentialTerms::default(),
        attempts: 1,
        tx: tx(hash),
    })
}

/// Looks for the transactions above height 100: that of the name LOST, and unknown ones.
fn look(record: &mut FlowRecord) -> bool {
    let lost = BTreeSet::from(["LOST"]);
    record.look_again(100, |hash| hash.is_none_or(|hash| lost.contains(hash)))
}

#[test]
fn paid_credentials_and_own_validations_in_lost_blocks_are_looked_for_and_others_stay() {
    use CredentialStage as Stage;
    for (state, stage, expected) in [
        (FlowState::CredOffered, Some(Stage::Signed), false),
        (FlowState::CredOffered, Some(Stage::Anchored), true),
        (FlowState::CredOffered, Some(Stage::Delivered), true),
        (FlowState::Completed, Some(Stage::Held), true),
        (FlowState::AwaitingOr, Some(Stage::Held), true),
        (FlowState::CredRevoked, Some(Stage::Revoked), false),
        (FlowState::Error, Some(Stage::Delivered), false),
        (FlowState::Validated, None, false),
    ] {
        let mut record = flow(state, stage);
        assert_eq!(look(&mut record), expected, "{state:?} {stage:?}");
        assert_eq!(next_work(&record) == Some(FlowWork::LookAgain), expected, "{state:?} {stage:?}");
        assert_eq!(record.round.read_at, 100, "a later read counts");
    }
    for (submission, hash, state, expected) in [
        (Submission::Agent, "LOST", FlowState::Validated, true),
        (Submission::Agent, "LOST", FlowState::Completed, true),
        (Submission::Agent, "KEPT", FlowState::Validated, false),
        (Submission::Operator, "LOST", FlowState::Validated, false),
        (Submission::Agent, "LOST", FlowState::ParticipantRevoked, false),
    ] {
        let mut record = FlowRecord { validation: validated(submission, hash), ..flow(state, None) };
        assert_eq!(look(&mut record), expected, "{submission:?} {hash} {state:?}");
        assert_eq!(record.lacks_validation(), expected, "{submission:?} {hash} {state:?}");
    }
    let mut applicant = FlowRecord { side: Side::Applicant, ..flow(FlowState::Completed, Some(Stage::Held)) };
    assert!(!look(&mut applicant), "its issuer pays");
}

#[test]
fn a_second_look_finds_nothing_new_and_a_proof_ends_the_first() {
    let mut record = flow(FlowState::Completed, Some(CredentialStage::Held));
    let of_before = |hash: &str| {
        let credential = Some(paid(hash, CredentialStage::Held, hash));
        PastRound { credential, ..past(CredentialStage::Held) }
    };
    record.past = ["LOST", "KEPT"].map(of_before).to_vec();
    assert_eq!(record.paid_under("session"), 3);
    assert!(look(&mut record));
    assert_eq!(record.paid_under("session"), 1, "only one is known to be paid");
    let once = record.clone();
    assert!(look(&mut record));
    assert_eq!(record, once);

    let mut progress = Progress::of(record);
    for (id, hash) in [("LOST", None), ("present", Some("NEW".to_owned()))] {
        assert_eq!(progress.record.unproven_credential().and_then(|one| one.id.as_deref()), Some(id));
        progress.note_credential_proven(Some(id), hash, 5);
    }
    assert_eq!((progress.record.unproven_credential(), next_work(&progress.record)), (None, None));
    assert_eq!(progress.record.paid_under("session"), 3);
    let hash = |one: &FlowCredential| one.tx.as_ref().and_then(|tx| tx.hash.clone());
    assert_eq!(progress.record.credential.as_ref().and_then(hash).as_deref(), Some("NEW"));
    let of_past = progress.record.past[0].credential.as_ref().and_then(hash);
    assert_eq!(of_past.as_deref(), Some("LOST"), "its transaction is in a block again");
}
