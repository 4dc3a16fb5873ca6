//! The status of a case, as services derive it from the participant at the indexer, the flow at the agent, and their own decision.

use serde_json::Value;

/// The decision of the validator's corporation in a round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Submission {
    #[default]
    Draft,
    Submitted,
    Returned,
    Accepted,
    Rejected,
}

/// The status: the first row that holds.
pub(super) fn status_of(participant: &Value, flow: &Value, submission: Submission) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (state, op) = (text(&participant["participant_state"]), text(&participant["op_state"]));
    let flow = text(&flow["flowState"]);
    let is_flow = |states: &[&str]| states.contains(&flow.as_str());
    let is_open = matches!(submission, Submission::Draft | Submission::Returned);
    let rows = [
        ("ERROR", is_flow(&["ERROR"])),
        ("CREDENTIAL_REVOKED", is_flow(&["CRED_REVOKED"])),
        ("CANCELLED", op == "TERMINATED" || is_flow(&["TERMINATED_BY_APPLICANT"])),
        ("REJECTED", is_flow(&["TERMINATED_BY_VALIDATOR"]) || submission == Submission::Rejected),
        ("EXPIRED", state == "EXPIRED" && op == "VALIDATED"),
        ("COMPLETED", is_flow(&["COMPLETED"])),
        ("ISSUING", is_flow(&["CRED_OFFERED"])),
        ("ISSUANCE_PENDING_CLAIMS", is_flow(&["VALIDATED_PENDING_CLAIMS"])),
        ("VALIDATED", op == "VALIDATED"),
        ("VALIDATION_FAILED", is_flow(&["VALIDATION_TX_FAILED"])),
        ("ACCEPTED_PENDING_CHAIN", submission == Submission::Accepted),
        ("PENDING_VALIDATOR_REVIEW", submission == Submission::Submitted),
        ("AWAITING_APPLICANT_DATA", is_open && is_flow(&["AWAITING_OR", "VALIDATING", "OOB_PENDING"])),
        ("AWAITING_AGENT", op == "PENDING" && flow.is_empty()),
    ];
    if ["REPAID", "SLASHED", "REVOKED"].contains(&state.as_str()) {
        return state;
    }
    rows.iter().find(|(_, holds)| *holds).map_or("none", |(status, _)| status).to_owned()
}
