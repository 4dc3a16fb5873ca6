//! The meaning of a peer's problem report for a flow.

use super::trigger::Trigger;
use crate::protocol::problem_report::{MESSAGE_PARSE_FAILURE, ProblemReport};

/// The meaning of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportMeaning {
    /// The state stays. The applicant's operator mends something and sends again.
    Retry,
    /// The report is the cause of a transition.
    Trigger(Trigger),
}

/// Codes with the prefix `vt-flow.` of problems that can be mended, whichever side is to try again.
const RETRYABLE: [&str; 9] = [
    "or-required",
    "ir-required",
    "invalid-participant-id",
    "invalid-schema-id",
    "invalid-agent-participant-id",
    "invalid-wallet-agent-participant-id",
    "invalid-claims",
    "invalid-participant-session-id",
    "unsupported-terms",
];

/// The meaning of a report in the thread of a flow, or about one of its messages. Names are read in upper and lower case.
pub fn report_meaning(report: &ProblemReport) -> ReportMeaning {
    use ReportMeaning::{Retry, Trigger as By};
    let nobody_retries = report.who_retries.as_deref().map(|who| who.eq_ignore_ascii_case("NONE"));
    let code = report.code.to_ascii_lowercase();
    if code == MESSAGE_PARSE_FAILURE {
        return Retry;
    }
    let fatal = By(Trigger::ReportFatal);
    match (code.strip_prefix("vt-flow."), nobody_retries) {
        (Some(code), _) if RETRYABLE.contains(&code) => Retry,
        (Some("validation-refused"), _) => By(Trigger::ReportRefused),
        (Some("oob-expired"), Some(true) | None) => By(Trigger::ReportRefused),
        (Some("session-terminated"), _) => By(Trigger::ReportEnded),
        (Some("not-a-verifiable-service" | "unsupported-message"), _) => fatal,
        (Some("participant-revoked"), _) => By(Trigger::ReportParticipantRevoked),
        (Some("participant-slashed"), _) => By(Trigger::ReportParticipantSlashed),
        (Some("internal-error"), None) => fatal,
        (_, Some(true)) => fatal,
        _ => Retry,
    }
}
