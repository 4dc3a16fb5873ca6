//! Violations of a tool's input schema, and the error that lists them.

use serde_json::{Value, json};
use svc_wire::error_envelope::{ErrorEnvelope, FailureCode};

/// A refused argument.
pub struct ArgumentViolation {
    /// JSON pointer into the arguments.
    pub pointer: String,
    /// The problem, with the allowed values.
    pub reason: String,
}

/// Characters that a path segment may contain unescaped.
pub(super) const PATH_SEGMENT: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// Violations of path parameters equal to `.` or `..`: escaping does not keep a URL parser from resolving them.
pub(super) fn dot_segment_violations<'a>(
    parameters: impl Iterator<Item = &'a str>,
    arguments: &Value,
) -> Vec<ArgumentViolation> {
    let is_dot_segment = |name: &&str| matches!(arguments[*name].as_str(), Some("." | ".."));
    let violation = |name: &str| ArgumentViolation { pointer: format!("/{name}"), reason: "is no name".to_owned() };
    parameters.filter(is_dot_segment).map(violation).collect()
}

/// The error of a call with invalid arguments. It lists all violations.
pub fn invalid_arguments(tool: &str, violations: &[ArgumentViolation]) -> ErrorEnvelope {
    let described = |violation: &ArgumentViolation| {
        let path = violation.pointer.trim_start_matches('/');
        format!("{}: {}", if path.is_empty() { "arguments" } else { path }, violation.reason)
    };
    let reasons: Vec<String> = violations.iter().map(described).collect();
    let message = format!("{tool}: {}", reasons.join("; "));
    let details: Vec<Value> =
        violations.iter().map(|one| json!({"pointer": one.pointer, "reason": one.reason})).collect();
    let hint = "correct the arguments named in details.violations and call again; tools/list shows the schema";
    ErrorEnvelope::new(FailureCode::InputInvalid, message, hint).with_details(json!({ "violations": details }))
}
