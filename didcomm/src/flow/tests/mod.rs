//! Tests of flows against the tables of the contract.

mod documented;
mod lost_blocks;
mod meanings;
mod model;
mod reads;
mod rows;
mod silence;

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    Cause, ConnectionState, CredentialStage, Exchange, FlowCredential, FlowRecord, FlowState, FlowTx, Guard,
    OnboardingState, ParticipantRead, PastRound, RoundStart, Side, Trigger, TxStatus, Variant,
};

const NOW: i64 = 1_800_000_000_000;
const PEER: &str = "did:web:peer.example";

/// The tables of the contract about flows.
fn contract() -> Value {
    serde_json::from_str(include_str!("../../../tests/fixtures/flows.json")).expect("a fixture")
}

fn list(value: &Value) -> Vec<&str> {
    value.as_array().expect("a list").iter().map(|one| one.as_str().expect("a text")).collect()
}

fn states(value: &Value) -> Vec<FlowState> {
    list(value).into_iter().map(|name| FlowState::parse(name).expect("a state")).collect()
}

fn record(side: Side, variant: Variant, state: FlowState) -> FlowRecord {
    FlowRecord {
        id: "flow".into(),
        side,
        variant,
        peer_did: PEER.into(),
        connection_id: Some("connection".into()),
        thread_id: Some("thread".into()),
        schema_id: 1,
        applicant_participant_id: (variant == Variant::Onboarding).then_some(7),
        validator_participant_id: Some(3),
        is_holder: true,
        session_id: "session".into(),
        previous_session_ids: Vec::new(),
        state,
        connection_state: ConnectionState::Established,
        round: RoundStart { number: 1, changed_at: Some(10), expires_at: None, read_at: 100 },
        claims: None,
        proofs: None,
        oob_link: None,
        messages: Vec::new(),
        validation: None,
        told_to_present: None,
        held_offer: None,
        exchange: None,
        received: None,
        credential: None,
        blocked: None,
        refusal: None,
        error_message: None,
        past: Vec::new(),
        paid_before: 0,
        early_request: None,
        traceparent: None,
        created_at: NOW - 1_000,
        updated_at: NOW - 1_000,
        last_event_at: NOW - 1_000,
    }
}

fn credential(stage: CredentialStage) -> FlowCredential {
    FlowCredential {
        round: 1,
        session_id: "session".into(),
        round_changed_at: Some(10),
        paid_before: 0,
        validated_until: None,
        stage,
        id: Some("credential".into()),
        digest: None,
        tx: None,
    }
}

fn failed_tx() -> FlowTx {
    FlowTx { status: TxStatus::Failed, hash: None, height: None, reason: Some("TX_FAILED".into()), error: None }
}

fn past(stage: CredentialStage) -> PastRound {
    PastRound {
        number: 1,
        validation: None,
        exchange: None,
        credential: Some(credential(stage)),
        told_to_present: None,
    }
}

/// Makes a condition hold, or not, for a record and a cause.
fn arrange(record: &mut FlowRecord, cause: &mut Cause, guard: Guard, holds: bool) {
    match guard {
        Guard::Holder => record.is_holder = holds,
        Guard::Established => {
            let states = [ConnectionState::NotConnected, ConnectionState::Established];
            record.connection_state = states[usize::from(holds)];
        }
        Guard::AnchoringFailed => {
            let tx = holds.then(failed_tx);
            record.credential = Some(FlowCredential { tx, ..credential(CredentialStage::Signed) });
        }
        Guard::Delivered => {
            record.exchange = Some(Exchange { thread: "exchange".into(), is_requested: true, is_delivered: holds });
        }
        Guard::NamesExchange => {
            let is_delivered = record.exchange.as_ref().is_some_and(|exchange| exchange.is_delivered);
            record.exchange = Some(Exchange { thread: "exchange".into(), is_requested: true, is_delivered });
            cause.thread = Some(if holds { "exchange" } else { "another" }.into());
        }
        Guard::DecisionRecorded => {
            record.validation = holds.then(|| super::Validation {
                decided_at: NOW,
                submission: super::Submission::Agent,
                fees: super::Fees::default(),
                effective_until: None,
                op_summary_digest: None,
                terms: Default::default(),
                attempts: 1,
                tx: None,
            });
        }
        Guard::CredentialHeld | Guard::CredentialDelivered => {
            record.past = if holds { vec![past(CredentialStage::Held)] } else { Vec::new() };
        }
        // It follows the one about a held credential.
        Guard::CredentialRevoked => {
            record.past = if holds { vec![past(CredentialStage::Revoked)] } else { Vec::new() };
        }
        other => {
            if holds {
                cause.facts.insert(other);
            } else {
                cause.facts.remove(&other);
            }
        }
    }
}

fn cause(trigger: Trigger) -> Cause {
    let read = ParticipantRead {
        height: 200,
        state: OnboardingState::Pending,
        changed_at: Some(20),
        expires_at: None,
        is_revoked: false,
        is_slashed: false,
    };
    Cause {
        new_id: "new".into(),
        peer_did: Some(PEER.into()),
        read: Some(read),
        facts: BTreeSet::new(),
        ..Cause::new(trigger, NOW)
    }
}
