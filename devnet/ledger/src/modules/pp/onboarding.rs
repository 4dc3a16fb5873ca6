//! Messages of the onboarding process: an applicant asks and pays, a validator decides.

use svc_wire::{
    proto::svc::{
        cs::v1::CredentialSchema,
        pp::v1::{
            MsgCancelParticipantOpLastRequest, MsgCancelParticipantOpLastRequestResponse, MsgRenewParticipantOp,
            MsgRenewParticipantOpResponse, MsgSetParticipantOpToValidated, MsgSetParticipantOpToValidatedResponse,
            MsgStartParticipantOp, MsgStartParticipantOpResponse, OnboardingState, OptionalUInt64, Participant,
            ParticipantRole as Role,
        },
    },
    timestamp,
};

use super::{
    participant::{
        AUTHORIZATION_FAILED, authorize, debit, effective_others, ensure_active, ensure_addresses,
        ensure_did_available, fee_denom_amounts, insert_participant, is_slashed_unrepaid, load_owned, load_participant,
        load_validator, operator_attributes, participants_in_context, policy_address, require_corporation,
        store_participant, time_text, unregistered_error,
    },
    rules::{
        FeeQuote, ensure_no_overlap, ensure_no_unrepaid_slash, ensure_no_window_overlap, fee_denom, quote_fee,
        validator_role,
    },
    terms::{ensure_valid_terms, validation_ends},
    vs_operator::VsOperatorFields,
};
use crate::{
    chain::ChainConfig,
    context::ExecContext,
    error::LedgerError,
    modules::{
        bank,
        de::{self, vs},
        td,
    },
    values::validate,
};

pub fn validate_start(chain: &ChainConfig, message: &MsgStartParticipantOp) -> Result<(), LedgerError> {
    ensure_addresses(chain, &message.corporation, &message.operator)?;
    let roles = [Role::Issuer, Role::Verifier, Role::IssuerGrantor, Role::VerifierGrantor, Role::Holder];
    if !roles.contains(&message.role()) || message.role != i32::from(message.role()) {
        return unregistered_error(format!("role {} cannot be applied for", message.role));
    }
    if message.validator_participant_id == 0 {
        return unregistered_error("validator_participant_id must be greater than 0");
    }
    if !validate::is_did(&message.did) {
        return unregistered_error(format!("invalid DID: {:?}", message.did));
    }
    VsOperatorFields::from(message).validate(chain, message.role())
}

fn load_schema(exec: &ExecContext<'_>, participant: &Participant) -> Result<CredentialSchema, LedgerError> {
    let found = exec.state.schemas.get(&participant.schema_id, exec.gas).cloned();
    found.ok_or_else(|| LedgerError::unregistered(format!("credential schema {} not found", participant.schema_id)))
}

/// Cost of an application: the fee of the validator and the trust deposit.
struct OnboardingCost {
    fee: u64,
    denom: String,
    deposit: u64,
    /// Amount that counts against the spend limit of the operator.
    spend: u64,
}

fn onboarding_cost(
    exec: &ExecContext<'_>,
    schema: &CredentialSchema,
    validator: &Participant,
) -> Result<OnboardingCost, LedgerError> {
    let FeeQuote { fee, basis } = quote_fee(exec, schema, validator.validation_fees)?;
    let (deposit, denom) = (td::required_deposit(exec.state, basis)?, fee_denom(exec.chain, schema));
    let paid = if denom == exec.chain.denom { fee } else { 0 };
    let spend = td::ensure_int64(u128::from(deposit) + u128::from(paid))?;
    Ok(OnboardingCost { fee, denom, deposit, spend })
}

fn escrow_address(exec: &ExecContext<'_>) -> String {
    bank::module_address(exec.chain, "pp")
}

fn transfer_fee(exec: &mut ExecContext<'_>, from: &str, to: &str, denom: &str, amount: u64) -> Result<(), LedgerError> {
    if amount == 0 {
        return Ok(());
    }
    bank::transfer(exec, from, to, &[(denom.to_owned(), u128::from(amount))])
}

pub fn start(
    exec: &mut ExecContext<'_>,
    message: MsgStartParticipantOp,
) -> Result<MsgStartParticipantOpResponse, LedgerError> {
    let name = "MsgStartParticipantOP";
    let corporation_id = authorize(exec, &message.corporation, &message.operator, name)?;
    let (now, role) = (exec.block_time(), message.role());
    let validator = load_validator(exec, message.validator_participant_id)?;
    ensure_active(&validator, "validator participant", &now)?;
    let schema = load_schema(exec, &validator)?;
    if validator_role(&schema, role) != Some(validator.role()) {
        return unregistered_error(format!(
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
    if exec.chain.has_window_rules() {
        // The successor of a running participant may be started, and is validated once that has ended.
        ensure_no_unrepaid_slash(exec, corporation_id, schema.ecosystem_id)?;
    } else {
        // Quirk: a revoked, slashed or expired participant in these states counts too.
        let open = [OnboardingState::Pending, OnboardingState::Validated];
        let siblings = participants_in_context(exec, &participant);
        if let Some(other) = siblings.iter().find(|one| open.contains(&one.op_state())) {
            return unregistered_error(format!("participant {} already runs this onboarding process", other.id));
        }
    }
    let cost = onboarding_cost(exec, &schema, &validator)?;
    debit(exec, &message.corporation, &message.operator, name, cost.spend)?;
    ensure_did_available(exec, &message.did, corporation_id)?;
    td::increase(exec, &message.corporation, cost.deposit, "start_participant_vp_deposit")?;
    transfer_fee(exec, &message.corporation, &escrow_address(exec), &cost.denom, cost.fee)?;
    participant.deposit = cost.deposit;
    participant.op_current_fees = cost.fee;
    participant.op_current_deposit = cost.deposit;
    let participant = insert_participant(exec, participant);
    // The record is disabled until the validation sets its end.
    VsOperatorFields::from(&message).create_record(exec, &message.corporation, &participant, Some(now))?;
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
            ("timestamp", timestamp::go_time_text(&now)),
        ],
    );
    Ok(MsgStartParticipantOpResponse { participant_id: participant.id })
}

fn ensure_state(participant: &Participant, expected: OnboardingState) -> Result<(), LedgerError> {
    if participant.op_state() == expected {
        return Ok(());
    }
    unregistered_error(format!(
        "onboarding process of participant {} must be {}, is {}",
        participant.id,
        expected.as_str_name(),
        participant.op_state().as_str_name()
    ))
}

pub fn renew(
    exec: &mut ExecContext<'_>,
    message: MsgRenewParticipantOp,
) -> Result<MsgRenewParticipantOpResponse, LedgerError> {
    let name = "MsgRenewParticipantOP";
    let corporation_id = authorize(exec, &message.corporation, &message.operator, name)?;
    let mut participant = load_owned(exec, message.id, corporation_id)?;
    ensure_state(&participant, OnboardingState::Validated)?;
    let now = exec.block_time();
    ensure_active(&participant, "participant", &now)?;
    let validator = load_validator(exec, participant.validator_participant_id)?;
    ensure_active(&validator, "validator participant", &now)?;
    let schema = load_schema(exec, &validator)?;
    ensure_no_unrepaid_slash(exec, corporation_id, schema.ecosystem_id)?;
    let cost = onboarding_cost(exec, &schema, &validator)?;
    debit(exec, &message.corporation, &message.operator, name, cost.spend)?;
    td::increase(exec, &message.corporation, cost.deposit, "renew_participant_deposit")?;
    transfer_fee(exec, &message.corporation, &escrow_address(exec), &cost.denom, cost.fee)?;
    participant.set_op_state(OnboardingState::Pending);
    participant.op_last_state_change = Some(now);
    participant.modified = Some(now);
    participant.deposit = td::ensure_int64(u128::from(participant.deposit) + u128::from(cost.deposit))?;
    participant.op_current_fees = cost.fee;
    participant.op_current_deposit = cost.deposit;
    store_participant(exec, participant);
    exec.emit(
        "renew_participant_op",
        [
            ("participant_id", message.id.to_string()),
            ("corporation", message.corporation),
            ("operator", message.operator),
            ("validator_participant_id", validator.id.to_string()),
            ("validation_fees", cost.fee.to_string()),
            ("validation_deposit", cost.deposit.to_string()),
            ("timestamp", timestamp::go_time_text(&now)),
        ],
    );
    Ok(MsgRenewParticipantOpResponse {})
}

pub fn validate_set_validated(
    chain: &ChainConfig,
    message: &MsgSetParticipantOpToValidated,
) -> Result<(), LedgerError> {
    ensure_addresses(chain, &message.corporation, &message.operator)?;
    if message.id == 0 { unregistered_error("id must be greater than 0") } else { Ok(()) }
}

/// The kind of account that acts for the validator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValidatorSigner {
    Operator,
    VsOperator,
}

/// Requires an operator authorization, or else a VS operator record of the validator; fails with the error of the former.
fn authorize_validator(
    exec: &mut ExecContext<'_>,
    message: &MsgSetParticipantOpToValidated,
    corporation_id: u64,
    validator_id: u64,
) -> Result<ValidatorSigner, LedgerError> {
    let url = de::message_url(exec, "pp", "MsgSetParticipantOPToValidated");
    let as_operator = exec.attempt(|exec| de::authorize(exec, &message.corporation, &message.operator, &url));
    let Err(refusal) = as_operator else { return Ok(ValidatorSigner::Operator) };
    exec.attempt(|exec| vs::authorize(exec, corporation_id, &message.operator, validator_id, &url))
        .map(|()| ValidatorSigner::VsOperator)
        .map_err(|_| refusal.wrap(AUTHORIZATION_FAILED))
}

pub fn set_validated(
    exec: &mut ExecContext<'_>,
    message: MsgSetParticipantOpToValidated,
) -> Result<MsgSetParticipantOpToValidatedResponse, LedgerError> {
    let mut participant = load_participant(exec, message.id)?;
    let validator = load_validator(exec, participant.validator_participant_id)?;
    let corporation_id = require_corporation(exec, &message.corporation)?;
    let path = authorize_validator(exec, &message, corporation_id, validator.id)?;
    ensure_state(&participant, OnboardingState::Pending)?;
    let schema = load_schema(exec, &participant)?;
    ensure_valid_terms(exec.chain, &message, &participant, &schema, &validator)?;
    let now = exec.block_time();
    let (op_exp, effective_until) = validation_ends(&participant, &schema, message.effective_until, &now)?;
    ensure_active(&validator, "validator participant", &now)?;
    if validator.corporation_id != corporation_id {
        return unregistered_error(format!("corporation {corporation_id} is not the validator's"));
    }
    let others = effective_others(exec, &participant);
    let from = participant.effective_from.unwrap_or(now);
    if exec.chain.has_window_rules() {
        ensure_no_window_overlap(&others, &from, effective_until.as_ref(), &now)?;
    } else {
        ensure_no_overlap(&others, Some(&from), effective_until.as_ref())?;
    }
    let (denom, deposit) = (fee_denom(exec.chain, &schema), participant.op_current_deposit);
    if denom != exec.chain.denom {
        let held = bank::balance(exec.state, &message.corporation, &exec.chain.denom, exec.gas);
        if held < u128::from(deposit) {
            return unregistered_error(format!("insufficient funds for the validator's deposit: {held} of {deposit}"));
        }
    }
    match path {
        ValidatorSigner::Operator => {
            debit(exec, &message.corporation, &message.operator, "MsgSetParticipantOPToValidated", deposit)?;
        }
        ValidatorSigner::VsOperator => {
            let amounts = fee_denom_amounts(exec.chain, deposit);
            vs::debit_record(exec, validator.id, &amounts)?;
            vs::charge_fee(exec, &message.corporation, validator.id)?;
        }
    }
    if is_slashed_unrepaid(&participant) {
        return unregistered_error(format!("participant {} is slashed and not repaid", participant.id));
    }
    transfer_fee(exec, &escrow_address(exec), &message.corporation, &denom, participant.op_current_fees)?;
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
    participant.op_validator_deposit =
        td::ensure_int64(u128::from(participant.op_validator_deposit) + u128::from(deposit))?;
    participant.op_current_fees = 0;
    participant.op_current_deposit = 0;
    let owner = policy_address(exec, participant.corporation_id)?;
    // The allowance follows from the participants as they are stored.
    store_participant(exec, participant.clone());
    vs::set_expiration(exec, &owner, participant.id, effective_until)?;
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
            ("timestamp", timestamp::go_time_text(&now)),
        ],
    );
    Ok(MsgSetParticipantOpToValidatedResponse {})
}

/// Cancels the last application.
///
/// Quirks: the `deposit` of the participant does not change; under a schema without validity period the cancellation of a
/// renewal ends the participant, like that of a first application.
pub fn cancel(
    exec: &mut ExecContext<'_>,
    message: MsgCancelParticipantOpLastRequest,
) -> Result<MsgCancelParticipantOpLastRequestResponse, LedgerError> {
    let corporation_id = authorize(exec, &message.corporation, &message.operator, "MsgCancelParticipantOPLastRequest")?;
    let mut participant = load_owned(exec, message.id, corporation_id)?;
    ensure_state(&participant, OnboardingState::Pending)?;
    if is_slashed_unrepaid(&participant) {
        return unregistered_error(format!("participant {} is slashed and not repaid", participant.id));
    }
    let denom = fee_denom(exec.chain, &load_schema(exec, &participant)?);
    if participant.op_exp.is_none() {
        participant.set_op_state(OnboardingState::Terminated);
        vs::remove_record(exec, &message.corporation, participant.id)?;
    } else {
        participant.set_op_state(OnboardingState::Validated);
    }
    transfer_fee(exec, &escrow_address(exec), &message.corporation, &denom, participant.op_current_fees)?;
    let released = participant.op_current_deposit;
    td::release(exec, &message.corporation, released, "participant_deactivate_release_deposit")?;
    let now = exec.block_time();
    participant.modified = Some(now);
    participant.op_last_state_change = Some(now);
    participant.op_current_fees = 0;
    participant.op_current_deposit = 0;
    let mut attributes = vec![("participant_id", participant.id.to_string())];
    attributes.extend(operator_attributes(exec, message.corporation, message.operator));
    store_participant(exec, participant);
    exec.emit_attributes("cancel_participant_op_last_request", attributes);
    Ok(MsgCancelParticipantOpLastRequestResponse {})
}
