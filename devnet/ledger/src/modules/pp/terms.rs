//! The terms of a validation: its end, fees, discounts and digest.

use prost_types::Timestamp;
use svc_wire::{
    proto::svc::{
        cs::v1::CredentialSchema,
        pp::v1::{MsgSetParticipantOpToValidated, Participant, ParticipantRole as Role},
    },
    timestamp,
};

use super::{
    participant::unregistered_error,
    rules::{discount_limits, validity_days},
};
use crate::{chain::ChainConfig, error::LedgerError, values::validate};

const DAY_NANOS: i128 = 86_400 * 1_000_000_000;

/// Returns the end of the validation and the end of the participant (`op_exp`, `effective_until`).
pub fn validation_ends(
    participant: &Participant,
    schema: &CredentialSchema,
    requested: Option<Timestamp>,
    now: &Timestamp,
) -> Result<(Option<Timestamp>, Option<Timestamp>), LedgerError> {
    let days = validity_days(schema, participant.role());
    let begin = participant.op_exp.as_ref().unwrap_or(now);
    let op_exp =
        (days > 0).then(|| timestamp::from_unix_nanos(timestamp::unix_nanos(begin) + i128::from(days) * DAY_NANOS));
    let Some(until) = requested else { return Ok((op_exp, op_exp)) };
    let is_renewal = participant.effective_from.is_some();
    let floor = if is_renewal { participant.effective_until.as_ref() } else { Some(now) };
    if floor.is_some_and(|floor| timestamp::is_at_or_before(&until, floor)) {
        let limit = if is_renewal { "the present effective_until" } else { "the block time" };
        return unregistered_error(format!("effective_until must be after {limit}"));
    }
    if op_exp.as_ref().is_some_and(|end| !timestamp::is_at_or_before(&until, end)) {
        return unregistered_error("effective_until must not be after the end of the validation");
    }
    Ok((op_exp, Some(until)))
}

/// Checks fees, discounts and digest of a validation.
pub fn ensure_valid_terms(
    chain: &ChainConfig,
    message: &MsgSetParticipantOpToValidated,
    participant: &Participant,
    schema: &CredentialSchema,
    validator: &Participant,
) -> Result<(), LedgerError> {
    let is_renewal = participant.effective_from.is_some();
    if is_renewal {
        for (name, asked, stored) in [
            ("validation_fees", message.validation_fees, participant.validation_fees),
            ("issuance_fees", message.issuance_fees, participant.issuance_fees),
            ("verification_fees", message.verification_fees, participant.verification_fees),
            ("issuance_fee_discount", message.issuance_fee_discount, participant.issuance_fee_discount),
            ("verification_fee_discount", message.verification_fee_discount, participant.verification_fee_discount),
        ] {
            if asked != stored {
                return unregistered_error(format!("{name} cannot be changed during renewal"));
            }
        }
    }
    let digest = &message.op_summary_digest;
    if participant.role() == Role::Holder && !digest.is_empty() {
        return unregistered_error("op_summary_digest must be empty for a holder");
    }
    if !digest.is_empty() && !validate::is_document_digest(chain, digest) {
        return unregistered_error(format!("invalid op_summary_digest: {digest:?}"));
    }
    if !is_renewal {
        let (issuance, verification) = discount_limits(schema, participant.role(), validator);
        for (name, asked, limit) in [
            ("issuance_fee_discount", message.issuance_fee_discount, issuance),
            ("verification_fee_discount", message.verification_fee_discount, verification),
        ] {
            if asked > limit {
                return unregistered_error(format!("{name} of {asked} is not allowed here: at most {limit}"));
            }
        }
    }
    Ok(())
}
