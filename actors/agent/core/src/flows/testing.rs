//! A flow for tests.

use svc_didcomm::flow::{Cause, FlowRecord, Guard, NewFlow, Side, Trigger, Variant, begin};

/// A validator's flow without an onboarding, which has begun at a time.
pub fn direct_validation(now: i64) -> FlowRecord {
    let new = NewFlow {
        id: "f".to_owned(),
        side: Side::Validator,
        variant: Variant::Direct,
        peer_did: "did:web:a".to_owned(),
        connection_id: Some("c".to_owned()),
        schema_id: 4,
        applicant_participant_id: None,
        validator_participant_id: Some(3),
        is_holder: true,
        session_id: "s".to_owned(),
        claims: None,
        proofs: None,
    };
    let facts = [Guard::GatePassed, Guard::Permissionless, Guard::OwnIssuerActive, Guard::SessionFree];
    let cause = Cause { thread: Some("t".into()), ..Cause::new(Trigger::IssuanceRequest, now) };
    begin(new, &cause.with_facts(facts)).expect("it begins").record
}
