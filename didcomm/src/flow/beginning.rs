//! The beginning of a flow. Pure.

use serde_json::Value;

use super::{
    chain_read::RoundStart,
    progress::Progress,
    record::FlowRecord,
    state::{ConnectionState, FlowState, Side, Variant},
    step::Cause,
    table::{Decision, decide},
    trigger::Guard,
};

/// The parts of a record that no message of its flow has.
#[derive(Debug, Clone, PartialEq)]
pub struct NewFlow {
    /// Id of the record.
    pub id: String,
    /// Side of this agent.
    pub side: Side,
    /// Kind.
    pub variant: Variant,
    /// DID by which the peer is known.
    pub peer_did: String,
    /// Connection with the peer.
    pub connection_id: Option<String>,
    /// Schema.
    pub schema_id: u64,
    /// The applicant's participant.
    pub applicant_participant_id: Option<u64>,
    /// The validator's participant.
    pub validator_participant_id: Option<u64>,
    /// Whether a credential follows.
    pub is_holder: bool,
    /// Id of the session.
    pub session_id: String,
    /// Claims of the credential.
    pub claims: Option<serde_json::Map<String, Value>>,
    /// Presentations of the applicant.
    pub proofs: Option<Vec<Value>>,
}

/// Begins a flow. Fails with the first condition that does not hold.
pub fn begin(new: NewFlow, cause: &Cause) -> Result<Progress, Guard> {
    let holds = |guard: Guard| cause.facts.contains(&guard);
    let row = match decide((new.side, new.variant), None, cause.trigger, holds) {
        Decision::Row(row) => row,
        Decision::Unmet((guard, _)) => return Err(guard),
        // No flow begins by such a trigger; the caller has chosen it.
        Decision::Elsewhere => return Err(Guard::RequestFits),
    };
    let round = cause.read.as_ref().map_or_else(RoundStart::without_participant, RoundStart::first);
    let is_request = new.side == Side::Validator || row.to == FlowState::IrSent;
    let record = FlowRecord {
        id: new.id,
        side: new.side,
        variant: new.variant,
        peer_did: new.peer_did,
        connection_id: new.connection_id,
        thread_id: cause.thread.clone().or_else(|| row.sends.map(|_| cause.new_id.clone())),
        schema_id: new.schema_id,
        applicant_participant_id: new.applicant_participant_id,
        validator_participant_id: new.validator_participant_id,
        is_holder: new.is_holder,
        session_id: new.session_id,
        previous_session_ids: Vec::new(),
        state: row.to,
        connection_state: if is_request { ConnectionState::Established } else { ConnectionState::NotConnected },
        round,
        claims: new.claims,
        proofs: new.proofs,
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
        created_at: cause.now,
        updated_at: cause.now,
        last_event_at: cause.now,
    };
    let mut progress = Progress { changes: vec![record.state], sends: row.sends.into_iter().collect(), record };
    if new.side == Side::Validator {
        progress.accept_request(cause.now);
    }
    Ok(progress)
}

/// Whether a request under another session begins a flow in the place of this one, which is unfinished.
pub fn is_replaced(record: &FlowRecord) -> bool {
    use FlowState as S;
    !record.state.is_terminal() && !matches!(record.state, S::Validated | S::Completed | S::CredRevoked | S::AwaitingOr)
}
