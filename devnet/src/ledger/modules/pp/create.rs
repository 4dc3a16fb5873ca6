//! Participants that need no validator's decision: an ecosystem's own, and those an open schema lets create themselves.

use svc_wire::{
    instant,
    proto::svc::pp::v1::{
        MsgCreateRootParticipant, MsgCreateRootParticipantResponse, MsgSelfCreateParticipant,
        MsgSelfCreateParticipantResponse, OnboardingState, Participant, ParticipantRole as Role,
    },
};

use super::{
    addresses, authorize, controls_ecosystem, in_context, insert, load_validator, own_did, plain,
    rules::{is_open, no_overlap},
    time_text,
    vs_block::VsBlock,
};
use crate::ledger::{
    error::LedgerError,
    exec::{Chain, Exec},
    validate,
};

pub fn validate_create_root(chain: &Chain, message: &MsgCreateRootParticipant) -> Result<(), LedgerError> {
    addresses(chain, &message.corporation, &message.operator)?;
    if message.schema_id == 0 {
        return plain("schema_id must be greater than 0");
    }
    if !validate::is_did(&message.did) {
        return plain(format!("invalid DID: {:?}", message.did));
    }
    VsBlock::from(message).validate(chain, Role::Ecosystem)
}

pub fn create_root(
    exec: &mut Exec<'_>,
    message: MsgCreateRootParticipant,
) -> Result<MsgCreateRootParticipantResponse, LedgerError> {
    let corporation_id = authorize(exec, &message.corporation, &message.operator, "MsgCreateRootParticipant")?;
    let Some(schema) = exec.state.schemas.get(&message.schema_id, exec.gas).cloned() else {
        return plain(format!("credential schema {} not found", message.schema_id));
    };
    let now = exec.now();
    let Some(from) = message.effective_from.filter(|from| !instant::at_or_before(from, &now)) else {
        return plain("effective_from is required and must be in the future");
    };
    if message.effective_until.as_ref().is_some_and(|until| instant::at_or_before(until, &from)) {
        return plain("effective_until must be after effective_from");
    }
    if !controls_ecosystem(exec, schema.id, corporation_id) {
        return plain(format!("corporation {corporation_id} does not control ecosystem {}", schema.ecosystem_id));
    }
    let participant = Participant {
        role: Role::Ecosystem.into(),
        schema_id: schema.id,
        did: message.did.clone(),
        corporation_id,
        vs_operator: message.vs_operator.clone(),
        created: Some(now),
        modified: Some(now),
        effective_from: Some(from),
        effective_until: message.effective_until,
        validation_fees: message.validation_fees,
        issuance_fees: message.issuance_fees,
        verification_fees: message.verification_fees,
        op_state: OnboardingState::Validated.into(),
        op_last_state_change: Some(now),
        ..Participant::default()
    };
    no_overlap(&in_context(exec, &participant), Some(&from), message.effective_until.as_ref())?;
    own_did(exec, &message.did, corporation_id)?;
    let participant = insert(exec, participant);
    VsBlock::from(&message).create_record(exec, &message.corporation, &participant, message.effective_until)?;
    exec.emit(
        "create_root_participant",
        [
            ("root_participant_id", participant.id.to_string()),
            ("schema_id", schema.id.to_string()),
            ("corporation", message.corporation),
            ("corporation_id", corporation_id.to_string()),
            ("operator", message.operator),
            ("effective_from", instant::go_text(&from)),
            ("effective_until", time_text(message.effective_until.as_ref())),
            ("validation_fees", message.validation_fees.to_string()),
            ("issuance_fees", message.issuance_fees.to_string()),
            ("verification_fees", message.verification_fees.to_string()),
            ("timestamp", instant::go_text(&now)),
        ],
    );
    Ok(MsgCreateRootParticipantResponse { id: participant.id })
}

pub fn validate_self_create(chain: &Chain, message: &MsgSelfCreateParticipant) -> Result<(), LedgerError> {
    addresses(chain, &message.corporation, &message.operator)?;
    if !matches!(message.role(), Role::Issuer | Role::Verifier) || message.role != i32::from(message.role()) {
        return Err(LedgerError::sdk(18, "role must be ISSUER or VERIFIER"));
    }
    if message.validator_participant_id == 0 {
        return Err(LedgerError::sdk(18, "validator_participant_id must be greater than 0"));
    }
    if !validate::is_did(&message.did) {
        return Err(LedgerError::sdk(18, format!("invalid DID: {:?}", message.did)));
    }
    VsBlock::from(message).validate(chain, message.role())
}

/// The requested window must lie in the future and within the validator's.
fn valid_window(
    exec: &Exec<'_>,
    message: &MsgSelfCreateParticipant,
    validator: &Participant,
) -> Result<(), LedgerError> {
    let now = exec.now();
    let (from, until) = (message.effective_from.as_ref(), message.effective_until.as_ref());
    let is_before = |left, right| instant::nanos(left) < instant::nanos(right);
    if let Some(from) = from {
        if instant::at_or_before(from, &now) {
            return plain("effective_from must be in the future");
        }
        if validator.effective_from.as_ref().is_some_and(|first| is_before(from, first)) {
            return plain("effective_from must not be before the validator's");
        }
        if validator.effective_until.as_ref().is_some_and(|last| instant::at_or_before(last, from)) {
            return plain("effective_from must be before the validator's effective_until");
        }
    }
    match (until, validator.effective_until.as_ref()) {
        (None, Some(_)) => return plain("effective_until is required: the validator's is set"),
        (Some(until), Some(last)) if is_before(last, until) => {
            return plain("effective_until must not be after the validator's");
        }
        _ => {}
    }
    if let (Some(from), Some(until)) = (from, until)
        && instant::at_or_before(until, from)
    {
        return plain("effective_until must be after effective_from");
    }
    Ok(())
}

pub fn self_create(
    exec: &mut Exec<'_>,
    message: MsgSelfCreateParticipant,
) -> Result<MsgSelfCreateParticipantResponse, LedgerError> {
    let corporation_id = authorize(exec, &message.corporation, &message.operator, "MsgSelfCreateParticipant")?;
    let validator = load_validator(exec, message.validator_participant_id)?;
    let (now, role) = (exec.now(), message.role());
    if validator.role() != Role::Ecosystem {
        return plain(format!("validator participant {} is not an ecosystem's", validator.id));
    }
    let is_over = validator.effective_until.as_ref().is_some_and(|until| instant::at_or_before(until, &now));
    let is_ended = validator.revoked.is_some() || validator.slashed.is_some() || validator.repaid.is_some() || is_over;
    if is_ended || validator.effective_from.is_none() {
        return plain(format!("validator participant {} is not valid", validator.id));
    }
    valid_window(exec, &message, &validator)?;
    if role != Role::Issuer && (message.validation_fees > 0 || message.verification_fees > 0) {
        return plain("validation_fees and verification_fees are for issuers only");
    }
    let Some(schema) = exec.state.schemas.get(&validator.schema_id, exec.gas).cloned() else {
        return plain(format!("credential schema {} not found", validator.schema_id));
    };
    if !is_open(&schema, role) {
        return plain(format!("schema {} is not open for role {}", schema.id, role.as_str_name()));
    }
    let participant = Participant {
        role: message.role,
        schema_id: schema.id,
        did: message.did.clone(),
        corporation_id,
        vs_operator: message.vs_operator.clone(),
        created: Some(now),
        modified: Some(now),
        effective_from: message.effective_from,
        effective_until: message.effective_until,
        validation_fees: message.validation_fees,
        verification_fees: message.verification_fees,
        validator_participant_id: validator.id,
        op_state: OnboardingState::Validated.into(),
        op_last_state_change: Some(now),
        ..Participant::default()
    };
    let others = in_context(exec, &participant);
    no_overlap(&others, message.effective_from.as_ref(), message.effective_until.as_ref())?;
    own_did(exec, &message.did, corporation_id)?;
    let participant = insert(exec, participant);
    VsBlock::from(&message).create_record(exec, &message.corporation, &participant, message.effective_until)?;
    exec.emit(
        "create_participant",
        [
            ("participant_id", participant.id.to_string()),
            ("schema_id", schema.id.to_string()),
            ("corporation", message.corporation),
            ("corporation_id", corporation_id.to_string()),
            ("operator", message.operator),
            ("role", role.as_str_name().to_owned()),
            ("effective_from", time_text(message.effective_from.as_ref())),
            ("effective_until", time_text(message.effective_until.as_ref())),
            ("timestamp", instant::go_text(&now)),
        ],
    );
    Ok(MsgSelfCreateParticipantResponse { id: participant.id })
}
