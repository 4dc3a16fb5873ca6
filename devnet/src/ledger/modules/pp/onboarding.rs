//! The onboarding process: an applicant asks and pays, a validator decides.

use svc_wire::{
    instant,
    proto::svc::{
        cs::v1::CredentialSchema,
        pp::v1::{
            MsgCancelParticipantOpLastRequest, MsgCancelParticipantOpLastRequestResponse, MsgRenewParticipantOp,
            MsgRenewParticipantOpResponse, MsgSetParticipantOpToValidated, MsgSetParticipantOpToValidatedResponse,
            MsgStartParticipantOp, MsgStartParticipantOpResponse, OnboardingState, OptionalUInt64, Participant,
            ParticipantRole as Role,
        },
    },
};

use super::{
    AUTHORIZATION, active, addresses, authorize, by_operator, debit, in_context, in_fee_denom, insert,
    is_slashed_unrepaid, load, load_validator, others_with_effect, own_did, owned, plain, policy_address, registered,
    rules::{Price, fee_denom, no_overlap, price, validator_role},
    store,
    terms::{ends, valid_terms},
    time_text,
    vs_block::VsBlock,
};
use crate::ledger::{
    error::LedgerError,
    exec::{Chain, Exec},
    modules::{
        bank,
        de::{self, vs},
        td,
    },
    validate,
};

pub fn validate_start(chain: &Chain, message: &MsgStartParticipantOp) -> Result<(), LedgerError> {
    addresses(chain, &message.corporation, &message.operator)?;
    let roles = [Role::Issuer, Role::Verifier, Role::IssuerGrantor, Role::VerifierGrantor, Role::Holder];
    if !roles.contains(&message.role()) || message.role != i32::from(message.role()) {
        return plain(format!("role {} cannot be applied for", message.role));
    }
    if message.validator_participant_id == 0 {
        return plain("validator_participant_id must be greater than 0");
    }
    if !validate::is_did(&message.did) {
        return plain(format!("invalid DID: {:?}", message.did));
    }
    VsBlock::from(message).validate(chain, message.role())
}

fn schema_of(exec: &Exec<'_>, participant: &Participant) -> Result<CredentialSchema, LedgerError> {
    let found = exec.state.schemas.get(&participant.schema_id, exec.gas).cloned();
    found.ok_or_else(|| LedgerError::plain(format!("credential schema {} not found", participant.schema_id)))
}

/// What applying costs: the validator's fee, and the deposit that goes with it.
struct Cost {
    fee: u64,
    denom: String,
    deposit: u64,
    /// What counts against the operator's spend limit.
    spend: u64,
}

fn cost(exec: &Exec<'_>, schema: &CredentialSchema, validator: &Participant) -> Result<Cost, LedgerError> {
    let Price { fee, basis } = price(exec, schema, validator.validation_fees)?;
    let (deposit, denom) = (td::deposit_of(exec.state, basis)?, fee_denom(exec.chain, schema));
    let paid = if denom == exec.chain.denom { fee } else { 0 };
    let spend = td::int64(u128::from(deposit) + u128::from(paid))?;
    Ok(Cost { fee, denom, deposit, spend })
}

fn escrow(exec: &Exec<'_>) -> String {
    bank::module_address(exec.chain, "pp")
}

fn transfer(exec: &mut Exec<'_>, from: &str, to: &str, denom: &str, amount: u64) -> Result<(), LedgerError> {
    if amount == 0 {
        return Ok(());
    }
    bank::transfer(exec, from, to, &[(denom.to_owned(), u128::from(amount))])
}

pub fn start(
    exec: &mut Exec<'_>,
    message: MsgStartParticipantOp,
) -> Result<MsgStartParticipantOpResponse, LedgerError> {
    let name = "MsgStartParticipantOP";
    let corporation_id = authorize(exec, &message.corporation, &message.operator, name)?;
    let (now, role) = (exec.now(), message.role());
    let validator = load_validator(exec, message.validator_participant_id)?;
    active(&validator, "validator participant", &now)?;
    let schema = schema_of(exec, &validator)?;
    if validator_role(&schema, role) != Some(validator.role()) {
        return plain(format!(
            "role {} cannot be validated by a participant of role {} under schema {}",
            role.as_str_name(),
            validator.role().as_str_name(),
            schema.id
        ));
    }
    let value = |wrapper: Option<OptionalUInt64>| wrapper.map_or(0, |wrapper| wrapper.value);
    let mut participant = Participant {
        corporation_id,
        role: message.role,
        schema_id: schema.id,
        did: message.did.clone(),
        vs_operator: message.vs_operator.clone(),
        created: Some(now),
        modified: Some(now),
        op_last_state_change: Some(now),
        validation_fees: value(message.validation_fees),
        issuance_fees: value(message.issuance_fees),
        verification_fees: value(message.verification_fees),
        validator_participant_id: validator.id,
        op_state: OnboardingState::Pending.into(),
        ..Participant::default()
    };
    // Quirk: a revoked, slashed or expired one in these states counts too.
    let open = [OnboardingState::Pending, OnboardingState::Validated];
    if let Some(other) = in_context(exec, &participant).iter().find(|one| open.contains(&one.op_state())) {
        return plain(format!("participant {} already runs this onboarding process", other.id));
    }
    let cost = cost(exec, &schema, &validator)?;
    debit(exec, &message.corporation, &message.operator, name, cost.spend)?;
    own_did(exec, &message.did, corporation_id)?;
    td::increase(exec, &message.corporation, cost.deposit, "start_participant_vp_deposit")?;
    transfer(exec, &message.corporation, &escrow(exec), &cost.denom, cost.fee)?;
    participant.deposit = cost.deposit;
    participant.op_current_fees = cost.fee;
    participant.op_current_deposit = cost.deposit;
    let participant = insert(exec, participant);
    // The record stays disabled until the validation sets its end.
    VsBlock::from(&message).create_record(exec, &message.corporation, &participant, Some(now))?;
    exec.emit(
        "start_participant_op",
        [
            ("participant_id", participant.id.to_string()),
            ("corporation", message.corporation),
            ("corporation_id", corporation_id.to_string()),
            ("operator", message.operator),
            ("validator_participant_id", validator.id.to_string()),
            ("role", role.as_str_name().to_owned()),
            ("fees", cost.fee.to_string()),
            ("deposit", cost.deposit.to_string()),
            ("timestamp", instant::go_text(&now)),
        ],
    );
    Ok(MsgStartParticipantOpResponse { participant_id: participant.id })
}

fn in_state(participant: &Participant, expected: OnboardingState) -> Result<(), LedgerError> {
    if participant.op_state() == expected {
        return Ok(());
    }
    plain(format!(
        "onboarding process of participant {} must be {}, is {}",
        participant.id,
        expected.as_str_name(),
        participant.op_state().as_str_name()
    ))
}

pub fn renew(
    exec: &mut Exec<'_>,
    message: MsgRenewParticipantOp,
) -> Result<MsgRenewParticipantOpResponse, LedgerError> {
    let name = "MsgRenewParticipantOP";
    let corporation_id = authorize(exec, &message.corporation, &message.operator, name)?;
    let mut participant = owned(exec, message.id, corporation_id)?;
    in_state(&participant, OnboardingState::Validated)?;
    let now = exec.now();
    active(&participant, "participant", &now)?;
    let validator = load_validator(exec, participant.validator_participant_id)?;
    active(&validator, "validator participant", &now)?;
    let cost = cost(exec, &schema_of(exec, &validator)?, &validator)?;
    debit(exec, &message.corporation, &message.operator, name, cost.spend)?;
    td::increase(exec, &message.corporation, cost.deposit, "renew_participant_deposit")?;
    transfer(exec, &message.corporation, &escrow(exec), &cost.denom, cost.fee)?;
    participant.set_op_state(OnboardingState::Pending);
    participant.op_last_state_change = Some(now);
    participant.modified = Some(now);
    participant.deposit = td::int64(u128::from(participant.deposit) + u128::from(cost.deposit))?;
    participant.op_current_fees = cost.fee;
    participant.op_current_deposit = cost.deposit;
    store(exec, participant);
    exec.emit(
        "renew_participant_op",
        [
            ("participant_id", message.id.to_string()),
            ("corporation", message.corporation),
            ("operator", message.operator),
            ("validator_participant_id", validator.id.to_string()),
            ("validation_fees", cost.fee.to_string()),
            ("validation_deposit", cost.deposit.to_string()),
            ("timestamp", instant::go_text(&now)),
        ],
    );
    Ok(MsgRenewParticipantOpResponse {})
}

pub fn validate_set_validated(chain: &Chain, message: &MsgSetParticipantOpToValidated) -> Result<(), LedgerError> {
    addresses(chain, &message.corporation, &message.operator)?;
    if message.id == 0 { plain("id must be greater than 0") } else { Ok(()) }
}

/// Who acts for the validator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Path {
    Operator,
    VsOperator,
}

/// An operator authorization, or the VS operator's record on the validator participant; if neither, the first one's error.
fn authorize_validator(
    exec: &mut Exec<'_>,
    message: &MsgSetParticipantOpToValidated,
    corporation_id: u64,
    validator_id: u64,
) -> Result<Path, LedgerError> {
    let url = de::url(exec, "pp", "MsgSetParticipantOPToValidated");
    let as_operator = exec.attempt(|exec| de::authorize(exec, &message.corporation, &message.operator, &url));
    let Err(refusal) = as_operator else { return Ok(Path::Operator) };
    exec.attempt(|exec| vs::authorize(exec, corporation_id, &message.operator, validator_id, &url))
        .map(|()| Path::VsOperator)
        .map_err(|_| refusal.wrap(AUTHORIZATION))
}

pub fn set_validated(
    exec: &mut Exec<'_>,
    message: MsgSetParticipantOpToValidated,
) -> Result<MsgSetParticipantOpToValidatedResponse, LedgerError> {
    let mut participant = load(exec, message.id)?;
    let validator = load_validator(exec, participant.validator_participant_id)?;
    let corporation_id = registered(exec, &message.corporation)?;
    let path = authorize_validator(exec, &message, corporation_id, validator.id)?;
    in_state(&participant, OnboardingState::Pending)?;
    let schema = schema_of(exec, &participant)?;
    valid_terms(&message, &participant, &schema, &validator)?;
    let now = exec.now();
    let (op_exp, effective_until) = ends(&participant, &schema, message.effective_until, &now)?;
    active(&validator, "validator participant", &now)?;
    if validator.corporation_id != corporation_id {
        return plain(format!("corporation {corporation_id} is not the validator's"));
    }
    let others = others_with_effect(exec, &participant);
    no_overlap(&others, participant.effective_from.as_ref().or(Some(&now)), effective_until.as_ref())?;
    let (denom, deposit) = (fee_denom(exec.chain, &schema), participant.op_current_deposit);
    if denom != exec.chain.denom {
        let held = bank::balance(exec.state, &message.corporation, &exec.chain.denom, exec.gas);
        if held < u128::from(deposit) {
            return plain(format!("insufficient funds for the validator's deposit: {held} of {deposit}"));
        }
    }
    match path {
        Path::Operator => {
            debit(exec, &message.corporation, &message.operator, "MsgSetParticipantOPToValidated", deposit)?;
        }
        Path::VsOperator => {
            let amounts = in_fee_denom(exec.chain, deposit);
            vs::debit(exec, validator.id, &amounts)?;
            vs::charge_fee(exec, &message.corporation, validator.id)?;
        }
    }
    if is_slashed_unrepaid(&participant) {
        return plain(format!("participant {} is slashed and not repaid", participant.id));
    }
    transfer(exec, &escrow(exec), &message.corporation, &denom, participant.op_current_fees)?;
    td::increase(exec, &message.corporation, deposit, "participant_validated_deposit")?;
    if participant.effective_from.is_none() {
        participant.validation_fees = message.validation_fees;
        participant.issuance_fees = message.issuance_fees;
        participant.verification_fees = message.verification_fees;
        participant.issuance_fee_discount = message.issuance_fee_discount;
        participant.verification_fee_discount = message.verification_fee_discount;
        participant.effective_from = Some(now);
    }
    participant.set_op_state(OnboardingState::Validated);
    participant.op_last_state_change = Some(now);
    participant.modified = Some(now);
    participant.op_summary_digest.clone_from(&message.op_summary_digest);
    participant.op_exp = op_exp;
    participant.effective_until = effective_until;
    participant.op_validator_deposit = td::int64(u128::from(participant.op_validator_deposit) + u128::from(deposit))?;
    participant.op_current_fees = 0;
    participant.op_current_deposit = 0;
    let owner = policy_address(exec, participant.corporation_id)?;
    vs::expire_at(exec, &owner, participant.id, effective_until);
    exec.emit(
        "set_participant_op_to_validated",
        [
            ("participant_id", participant.id.to_string()),
            ("corporation", message.corporation),
            ("corporation_id", participant.corporation_id.to_string()),
            ("operator", message.operator),
            ("validator_participant_id", validator.id.to_string()),
            ("op_summary_digest", message.op_summary_digest),
            ("effective_until", time_text(effective_until.as_ref())),
            ("validation_fees", participant.validation_fees.to_string()),
            ("issuance_fees", participant.issuance_fees.to_string()),
            ("verification_fees", participant.verification_fees.to_string()),
            ("issuance_fee_discount", participant.issuance_fee_discount.to_string()),
            ("verification_fee_discount", participant.verification_fee_discount.to_string()),
            ("op_exp", time_text(op_exp.as_ref())),
            ("timestamp", instant::go_text(&now)),
        ],
    );
    store(exec, participant);
    Ok(MsgSetParticipantOpToValidatedResponse {})
}

/// Takes back what was asked last.
///
/// Quirks: the participant's own `deposit` figure stays; under a schema without validity period a renewal that is cancelled
/// ends the participant, like a first request.
pub fn cancel(
    exec: &mut Exec<'_>,
    message: MsgCancelParticipantOpLastRequest,
) -> Result<MsgCancelParticipantOpLastRequestResponse, LedgerError> {
    let corporation_id = authorize(exec, &message.corporation, &message.operator, "MsgCancelParticipantOPLastRequest")?;
    let mut participant = owned(exec, message.id, corporation_id)?;
    in_state(&participant, OnboardingState::Pending)?;
    if is_slashed_unrepaid(&participant) {
        return plain(format!("participant {} is slashed and not repaid", participant.id));
    }
    let denom = fee_denom(exec.chain, &schema_of(exec, &participant)?);
    if participant.op_exp.is_none() {
        participant.set_op_state(OnboardingState::Terminated);
        vs::remove(exec, &message.corporation, participant.id);
    } else {
        participant.set_op_state(OnboardingState::Validated);
    }
    transfer(exec, &escrow(exec), &message.corporation, &denom, participant.op_current_fees)?;
    let released = participant.op_current_deposit;
    td::release(exec, &message.corporation, released, "participant_deactivate_release_deposit")?;
    let now = exec.now();
    participant.modified = Some(now);
    participant.op_last_state_change = Some(now);
    participant.op_current_fees = 0;
    participant.op_current_deposit = 0;
    let mut attributes = vec![("participant_id", participant.id.to_string())];
    attributes.extend(by_operator(exec, message.corporation, message.operator));
    store(exec, participant);
    exec.emit_all("cancel_participant_op_last_request", attributes);
    Ok(MsgCancelParticipantOpLastRequestResponse {})
}
