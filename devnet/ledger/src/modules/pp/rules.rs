//! Rules of roles, periods and fees that several messages share.

use prost_types::Timestamp;
use svc_wire::{
    proto::svc::{
        cs::v1::{
            CredentialSchema, HolderOnboardingMode as HolderMode, IssuerOnboardingMode as IssuerMode, PricingAssetType,
            VerifierOnboardingMode as VerifierMode,
        },
        pp::v1::{Participant, ParticipantRole as Role},
    },
    timestamp,
};

use super::participant::unregistered_error;
use crate::{
    chain::ChainConfig,
    context::ExecContext,
    error::LedgerError,
    modules::{td, xr},
    state::LedgerState,
};

/// Fails if the new period overlaps with the period of a candidate.
///
/// Quirk: by the third rule an ended participant blocks a new one with an end; only open-ended ones can follow.
pub fn ensure_no_overlap(
    candidates: &[Participant],
    new_from: Option<&Timestamp>,
    new_until: Option<&Timestamp>,
) -> Result<(), LedgerError> {
    let alive = |one: &&Participant| one.revoked.is_none() && one.slashed.is_none() && one.repaid.is_none();
    for other in candidates.iter().filter(alive) {
        let Some(until) = &other.effective_until else {
            return unregistered_error(format!("participant {} never expires: overlap", other.id));
        };
        if new_from.is_some_and(|from| timestamp::unix_nanos(until) > timestamp::unix_nanos(from)) {
            return unregistered_error(format!(
                "participant {} is effective until after the new one begins: overlap",
                other.id
            ));
        }
        if let (Some(end), Some(begin)) = (new_until, &other.effective_from)
            && timestamp::unix_nanos(begin) < timestamp::unix_nanos(end)
        {
            return unregistered_error(format!(
                "participant {} is effective before the new one ends: overlap",
                other.id
            ));
        }
    }
    Ok(())
}

/// Fails if a window would hold at the same time as that of a sibling that is active or will be: the rule from the second generation on.
/// Windows are half-open: one may begin when another ends.
pub fn ensure_no_window_overlap(
    siblings: &[Participant],
    from: &Timestamp,
    until: Option<&Timestamp>,
    now: &Timestamp,
) -> Result<(), LedgerError> {
    let nanos = timestamp::unix_nanos;
    let alive = |one: &&Participant| one.revoked.is_none() && one.slashed.is_none() && one.repaid.is_none();
    for other in siblings.iter().filter(alive) {
        let Some(begin) = &other.effective_from else { continue };
        let end = other.effective_until.as_ref();
        if end.is_some_and(|end| timestamp::is_at_or_before(end, now)) {
            continue;
        }
        let begins_before_end = until.is_none_or(|until| nanos(begin) < nanos(until));
        if !begins_before_end || end.is_some_and(|end| nanos(end) <= nanos(from)) {
            continue;
        }
        let text = match end {
            Some(_) => format!("existing participant {} would be effective at the same time", other.id),
            None => format!(
                "existing participant {} never expires: end it with MsgSetParticipantEffectiveUntil first",
                other.id
            ),
        };
        return unregistered_error(text);
    }
    Ok(())
}

/// Fails while a slash of the corporation is not repaid: of one of its participants in the ecosystem, or of its deposit. It is a rule from the
/// second generation on.
pub fn ensure_no_unrepaid_slash(
    exec: &ExecContext<'_>,
    corporation_id: u64,
    ecosystem_id: u64,
) -> Result<(), LedgerError> {
    if !exec.chain.has_window_rules() {
        return Ok(());
    }
    let is_in_ecosystem = |one: &Participant| {
        exec.state.schemas.peek(&one.schema_id).is_some_and(|schema| schema.ecosystem_id == ecosystem_id)
    };
    let slashed = exec.state.participants.values().find(|one| {
        let is_unrepaid = one.slashed.is_some() && one.repaid_deposit < one.slashed_deposit;
        one.corporation_id == corporation_id && is_unrepaid && is_in_ecosystem(one)
    });
    if let Some(slashed) = slashed {
        return unregistered_error(format!(
            "participant {} of the corporation is slashed and not repaid: send MsgRepayParticipantSlashedTrustDeposit first",
            slashed.id
        ));
    }
    if td::load(exec, corporation_id).is_some_and(|entry| td::has_outstanding_slash(&entry)) {
        return unregistered_error(
            "the corporation's trust deposit is slashed and not repaid: send MsgRepaySlashedTrustDeposit first",
        );
    }
    Ok(())
}

/// Returns the role of the validator for an applicant's role under the onboarding modes of a schema.
pub fn validator_role(schema: &CredentialSchema, role: Role) -> Option<Role> {
    match (role, schema.issuer_onboarding_mode(), schema.verifier_onboarding_mode()) {
        (Role::Issuer, IssuerMode::GrantorOnboardingProcess, _) => Some(Role::IssuerGrantor),
        (Role::Issuer, IssuerMode::EcosystemOnboardingProcess, _) => Some(Role::Ecosystem),
        (Role::IssuerGrantor, IssuerMode::GrantorOnboardingProcess, _) => Some(Role::Ecosystem),
        (Role::Verifier, _, VerifierMode::GrantorOnboardingProcess) => Some(Role::VerifierGrantor),
        (Role::Verifier, _, VerifierMode::EcosystemOnboardingProcess) => Some(Role::Ecosystem),
        (Role::VerifierGrantor, _, VerifierMode::GrantorOnboardingProcess) => Some(Role::Ecosystem),
        (Role::Holder, _, _) if schema.holder_onboarding_mode() == HolderMode::IssuerOnboardingProcess => {
            Some(Role::Issuer)
        }
        _ => None,
    }
}

/// Tells whether participants of a role create themselves.
pub fn is_self_created(schema: &CredentialSchema, role: Role) -> bool {
    match role {
        Role::Issuer => schema.issuer_onboarding_mode() == IssuerMode::Open,
        Role::Verifier => schema.verifier_onboarding_mode() == VerifierMode::Open,
        _ => false,
    }
}

/// Returns the days that a validation of a role lasts; 0 means no end.
pub fn validity_days(schema: &CredentialSchema, role: Role) -> u32 {
    match role {
        Role::IssuerGrantor => schema.issuer_grantor_validation_validity_period,
        Role::VerifierGrantor => schema.verifier_grantor_validation_validity_period,
        Role::Issuer => schema.issuer_validation_validity_period,
        Role::Verifier => schema.verifier_validation_validity_period,
        Role::Holder => schema.holder_validation_validity_period,
        Role::Ecosystem | Role::Unspecified => 0,
    }
}

/// Returns the largest discounts of a first validation: (issuance, verification).
pub fn discount_limits(schema: &CredentialSchema, role: Role, validator: &Participant) -> (u64, u64) {
    const ALL: u64 = 10_000;
    let issuance = match (role, schema.issuer_onboarding_mode()) {
        (Role::IssuerGrantor, IssuerMode::GrantorOnboardingProcess) => ALL,
        (Role::Issuer, IssuerMode::GrantorOnboardingProcess) => validator.issuance_fee_discount,
        (Role::Issuer, IssuerMode::EcosystemOnboardingProcess) => ALL,
        _ => 0,
    };
    let verification = match (role, schema.verifier_onboarding_mode()) {
        (Role::VerifierGrantor, VerifierMode::GrantorOnboardingProcess) => ALL,
        (Role::Verifier, VerifierMode::GrantorOnboardingProcess) => validator.verification_fee_discount,
        (Role::Verifier, VerifierMode::EcosystemOnboardingProcess) => ALL,
        _ => 0,
    };
    (issuance, verification)
}

/// Returns the denom in which fees under a schema are paid on chain.
pub fn fee_denom(chain: &ChainConfig, schema: &CredentialSchema) -> String {
    match schema.pricing_asset_type() {
        PricingAssetType::Coin => schema.pricing_asset.clone(),
        _ => chain.denom.clone(),
    }
}

/// A fee under a schema.
#[derive(Debug, Clone, Copy)]
pub struct FeeQuote {
    /// Paid on chain, in the schema's fee denom.
    pub fee: u64,
    /// Value in the fee denom, from which trust deposits and rewards are computed.
    pub basis: u64,
}

pub fn quote_fee(exec: &ExecContext<'_>, schema: &CredentialSchema, amount: u64) -> Result<FeeQuote, LedgerError> {
    let amount = td::ensure_int64(u128::from(amount))?;
    let kind = schema.pricing_asset_type();
    if kind == PricingAssetType::Coin && schema.pricing_asset == exec.chain.denom {
        return Ok(FeeQuote { fee: amount, basis: amount });
    }
    let basis = xr::to_fee_denom(exec, (kind, &schema.pricing_asset), amount)?;
    let fee = match kind {
        PricingAssetType::Coin => amount,
        PricingAssetType::Tu => basis,
        // Quirk: fiat prices are not paid on chain, but deposits and rewards follow from them.
        PricingAssetType::Fiat | PricingAssetType::Unspecified => 0,
    };
    Ok(FeeQuote { fee, basis })
}

/// Returns the chain of validators above a participant, bottom-up.
pub fn ancestors(state: &LedgerState, participant: &Participant) -> Vec<Participant> {
    let mut found = Vec::new();
    let mut above = participant.validator_participant_id;
    // A validator exists before its applicants, so the ids fall on the way up.
    while let Some(next) = state.participants.peek(&above) {
        found.push(next.clone());
        if next.validator_participant_id >= above {
            break;
        }
        above = next.validator_participant_id;
    }
    found
}

/// Returns the participants that are paid for an issuance or a verification, in order, each once: the ancestors of the issuer;
/// with a verifier also the issuer, then the ancestors of the verifier. Revoked and slashed ones are left out.
pub fn beneficiaries(
    state: &LedgerState,
    issuer: Option<&Participant>,
    verifier: Option<&Participant>,
) -> Vec<Participant> {
    let above = |one: Option<&Participant>| one.map(|one| ancestors(state, one)).unwrap_or_default();
    let mut found: Vec<Participant> = Vec::new();
    let itself = issuer.filter(|_| verifier.is_some()).cloned();
    for one in above(issuer).into_iter().chain(itself).chain(above(verifier)) {
        let is_paid = one.revoked.is_none() && one.slashed.is_none();
        if is_paid && !found.iter().any(|known| known.id == one.id) {
            found.push(one);
        }
    }
    found
}
