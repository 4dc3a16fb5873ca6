//! The terms of a validation: those of the call, beside those that the chain has. Pure.

use svc_didcomm::flow::{CredentialTerms, Fees, FlowRecord, FlowState, Submission, Trigger, Validation, rows_of};
use svc_trust::EssentialCredential;
use svc_wire::proto::svc::pp::v1::Participant;

use crate::error::{Refusal, RefusalCode, Violation};

/// Longest digest of a summary.
const MAX_DIGEST_BYTES: usize = 256;

/// The terms of a call. Fees are in the pricing asset of the schema, discounts in ten-thousandths, the end in seconds since the epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ValidationTerms {
    /// For a validation below the participant.
    pub validation_fees: Option<u64>,
    /// For an issuance.
    pub issuance_fees: Option<u64>,
    /// For a verification.
    pub verification_fees: Option<u64>,
    /// Taken off the fees for an issuance.
    pub issuance_fee_discount: Option<u64>,
    /// Taken off the fees for a verification.
    pub verification_fee_discount: Option<u64>,
    /// End of the participant.
    pub effective_until: Option<i64>,
    /// Digest of the summary of the onboarding.
    pub op_summary_digest: Option<String>,
    /// Terms of the credential that follows.
    pub credential: CredentialTerms,
}

impl ValidationTerms {
    /// The decision by these terms. All violations are named at once. `now` is in milliseconds since the epoch.
    pub fn decide(
        &self,
        participant: &Participant,
        needs_end: bool,
        now: i64,
        chain_seconds: i64,
    ) -> Result<Validation, Refusal> {
        let mut violations = Vec::new();
        let mut refuse = |path: &str, message: String| violations.push(Violation { path: path.to_owned(), message });
        // A participant that was effective before is renewed: its fees stay.
        let is_renewal = participant.effective_from.is_some();
        let mut fee = |path: &str, given: Option<u64>, present: u64| match given {
            Some(given) if is_renewal && given != present => {
                refuse(path, format!("it is {present} on the participant, and a renewal keeps it"));
                present
            }
            Some(given) => given,
            None if is_renewal => present,
            None => 0,
        };
        let fees = Fees {
            validation_fees: fee("validationFees", self.validation_fees, participant.validation_fees),
            issuance_fees: fee("issuanceFees", self.issuance_fees, participant.issuance_fees),
            verification_fees: fee("verificationFees", self.verification_fees, participant.verification_fees),
            issuance_fee_discount: fee(
                "issuanceFeeDiscount",
                self.issuance_fee_discount,
                participant.issuance_fee_discount,
            ),
            verification_fee_discount: fee(
                "verificationFeeDiscount",
                self.verification_fee_discount,
                participant.verification_fee_discount,
            ),
        };
        match self.effective_until {
            None if needs_end => {
                refuse("effectiveUntil", "the schema sets no validity, and so it is needed".to_owned())
            }
            Some(end) if end <= chain_seconds => refuse("effectiveUntil", "it lies behind the chain's time".to_owned()),
            _ => {}
        }
        // Its shape is the node's to judge: the oldest nodes take integrity texts only, later ones any text.
        if self.op_summary_digest.as_deref().is_some_and(|digest| !(1..=MAX_DIGEST_BYTES).contains(&digest.len())) {
            refuse("opSummaryDigest", format!("it must have 1 to {MAX_DIGEST_BYTES} bytes"));
        }
        let Some(first) = violations.first() else {
            return Ok(Validation {
                decided_at: now,
                submission: Submission::Operator,
                fees,
                effective_until: self.effective_until,
                op_summary_digest: self.op_summary_digest.clone(),
                terms: self.credential,
                attempts: 0,
                tx: None,
            });
        };
        let message = format!("{}: {}", first.path, first.message);
        Err(Refusal { violations, ..Refusal::new(RefusalCode::InvalidInput, message) })
    }
}

/// The terms of the credential of a round: those of a call, and those of the decision before where the call has none. The participant's end
/// and the time of the chain are in seconds since the epoch.
pub fn credential_terms(
    given: CredentialTerms,
    record: &FlowRecord,
    essential: Option<EssentialCredential>,
    (participant_end, now): (Option<i64>, i64),
) -> Result<CredentialTerms, Refusal> {
    let mut violations = Vec::new();
    let mut refuse = |path: &str, message: &str| {
        violations.push(Violation { path: path.to_owned(), message: message.to_owned() });
    };
    if given != CredentialTerms::default() && !record.is_holder {
        refuse("applicantParticipantId", "its role has no credential, and so no terms of one");
    }
    let before = record.validation.as_ref().map(|validation| validation.terms).unwrap_or_default();
    let terms = given.or(before);
    let is_over = |time: Option<i64>| time.is_some_and(|time| time <= now);
    if is_over(given.valid_from) {
        refuse("credentialValidFrom", "it lies behind the chain's time");
    }
    if is_over(terms.valid_until) {
        refuse("credentialValidUntil", "it lies behind the chain's time");
    }
    let end = terms.valid_until.or(participant_end);
    if terms.valid_from.is_some_and(|from| end.is_some_and(|end| end <= from)) {
        refuse("credentialValidFrom", "it is not before the end of the credential");
    }
    match (essential, given.present_as_linked_vp) {
        (Some(EssentialCredential::Badge | EssentialCredential::UserAgent), Some(_)) => {
            refuse("presentAsLinkedVp", "a credential of this schema is presented by no service");
        }
        (Some(kind), Some(false)) if kind.makes_trusted() => {
            refuse("presentAsLinkedVp", "a credential of this schema is presented in any case");
        }
        _ => {}
    }
    let Some(first) = violations.first() else { return Ok(terms) };
    let message = format!("{}: {}", first.path, first.message);
    Err(Refusal { violations, ..Refusal::new(RefusalCode::InvalidTerms, message) })
}

/// The refusal of a decision in a state that takes none.
pub fn wrong_state(record: &FlowRecord) -> Refusal {
    let takes = |state: &&FlowState| {
        rows_of(record.side, record.variant, Some(**state), Trigger::ValidateFlow).next().is_some()
    };
    let accepted: Vec<&str> = FlowState::ALL.iter().filter(takes).map(|state| state.as_str()).collect();
    let message = if accepted.is_empty() {
        "validateFlow is no call of the flow's applicant".to_owned()
    } else {
        format!("the flow is in {}; validateFlow is accepted in {}", record.state.as_str(), accepted.join(", "))
    };
    Refusal::new(RefusalCode::InvalidState, message)
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    #[test]
    fn the_terms_of_a_first_validation_are_those_of_the_call_and_a_renewal_keeps_its_own() {
        let terms = ValidationTerms { issuance_fees: Some(5), ..ValidationTerms::default() };
        let first = terms.decide(&Participant::default(), false, 1_000, 1).expect("terms");
        assert_eq!((first.fees.issuance_fees, first.fees.validation_fees, first.decided_at), (5, 0, 1_000));
        let renewed = Participant {
            effective_from: Some(Timestamp::default()),
            issuance_fees: 7,
            validation_fees: 2,
            ..Participant::default()
        };
        let refused = terms.decide(&renewed, true, 1_000, 1).expect_err("other fees");
        let paths: Vec<&str> = refused.violations.iter().map(|one| one.path.as_str()).collect();
        assert_eq!((refused.code, paths), (RefusalCode::InvalidInput, vec!["issuanceFees", "effectiveUntil"]));
        let kept = ValidationTerms { effective_until: Some(2), ..ValidationTerms::default() };
        let kept = kept.decide(&renewed, true, 1_000, 1).expect("terms");
        assert_eq!((kept.fees.issuance_fees, kept.fees.validation_fees, kept.effective_until), (7, 2, Some(2)));
        let digest =
            |text: &str| ValidationTerms { op_summary_digest: Some(text.into()), ..ValidationTerms::default() };
        for text in ["sha384-AAEC", "AAEC"] {
            let decided = digest(text).decide(&Participant::default(), false, 1_000, 1).expect("terms");
            assert_eq!(decided.op_summary_digest.as_deref(), Some(text));
        }
        for (terms, path) in [
            (ValidationTerms { effective_until: Some(1), ..ValidationTerms::default() }, "effectiveUntil"),
            (digest(""), "opSummaryDigest"),
            (digest(&"A".repeat(MAX_DIGEST_BYTES + 1)), "opSummaryDigest"),
        ] {
            let refused = terms.decide(&Participant::default(), false, 1_000, 1).expect_err(path);
            assert_eq!(refused.violations[0].path, path);
        }
    }

    #[test]
    fn terms_of_a_credential_fit_its_schema_and_stay_for_a_retry() {
        let holder = FlowRecord { is_holder: true, ..super::super::testing::direct_validation(1_000) };
        let none = CredentialTerms::default();
        let until = |seconds| CredentialTerms { valid_until: Some(seconds), ..none };
        let shown = |value| CredentialTerms { present_as_linked_vp: Some(value), ..none };
        let (from, service) = (CredentialTerms { valid_from: Some(9), ..until(9) }, Some(EssentialCredential::Service));
        for (given, essential, is_holder, refused) in [
            (none, None, true, None),
            (none, None, false, None),
            (until(11), None, true, None),
            (until(11), None, false, Some("applicantParticipantId")),
            (until(5), None, true, Some("credentialValidUntil")),
            (from, None, true, Some("credentialValidFrom")),
            (shown(false), None, true, None),
            (shown(true), service, true, None),
            (shown(false), service, true, Some("presentAsLinkedVp")),
            (shown(true), Some(EssentialCredential::Badge), true, Some("presentAsLinkedVp")),
        ] {
            let record = FlowRecord { is_holder, ..holder.clone() };
            let answer = credential_terms(given, &record, essential, (None, 5));
            let path = answer.as_ref().err().map(|refusal| refusal.violations[0].path.as_str());
            assert_eq!(path, refused, "{given:?} {essential:?}");
            if let Err(refusal) = answer {
                assert_eq!(refusal.code, RefusalCode::InvalidTerms);
            }
        }
        // The end of the participant is that of a credential without one, and no other bound.
        let began = |from, until| CredentialTerms { valid_from: Some(from), valid_until: until, ..none };
        for (given, participant_end, refused) in [
            (began(6, None), Some(20), None),
            (began(20, None), Some(20), Some("credentialValidFrom")),
            (began(6, Some(30)), Some(20), None),
            (began(20, Some(30)), Some(20), None),
            (began(25, Some(30)), Some(20), None),
            (began(30, Some(30)), Some(40), Some("credentialValidFrom")),
            (began(5, Some(30)), Some(20), Some("credentialValidFrom")),
            (began(25, None), None, None),
        ] {
            let answer = credential_terms(given, &holder, None, (participant_end, 5));
            let path = answer.as_ref().err().map(|refusal| refusal.violations[0].path.as_str());
            assert_eq!(path, refused, "{given:?} under a participant until {participant_end:?}");
        }
        let validation = ValidationTerms { credential: until(11), ..ValidationTerms::default() };
        let validation = validation.decide(&Participant::default(), false, 1_000, 1).expect("terms");
        let decided = FlowRecord { validation: Some(validation), ..holder };
        let kept = credential_terms(shown(false), &decided, None, (None, 5)).expect("terms");
        assert_eq!(kept, CredentialTerms { valid_from: None, ..shown(false).or(until(11)) });
    }
}
