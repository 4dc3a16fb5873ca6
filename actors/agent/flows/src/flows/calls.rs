//! Calls of operators on a flow. Pure: a call and a record become the next record with its messages, or a refusal.

use serde_json::{Map, Value};
use svc_agent_core::{
    error::{Refusal, RefusalCode, Violation},
    flows::{ShownParticipant, messages_of},
};
use svc_didcomm::{
    Message,
    flow::{
        Cause, ConnectionState, FlowRecord, FlowState, Guard, KeptKind, KeptMessage, MessageParts, OobLink, Outgoing,
        Progress, Side, Step, Trigger, Variant, rows_of, step,
    },
    json_shape::{has_nul, levels},
    limits,
    protocol::vt_flow::{MAX_CLAIMS_BYTES, MAX_LINK_TEXT},
};
use url::Url;
use uuid::Uuid;

/// Bytes of a text for people.
const MAX_TEXT: usize = 2048;
/// Bytes of a link.
const MAX_LINK: usize = 2048;

/// Levels of claims: in a message they stand two levels deeper, in an offer three.
const MAX_LEVELS: usize = limits::MAX_JSON_LEVELS - 4;

/// States in which claims are edited; no transition comes of it.
const EDITABLE: &[FlowState] = &[
    FlowState::OobPending,
    FlowState::Validating,
    FlowState::AwaitingValidationTx,
    FlowState::ValidationTxSubmitted,
    FlowState::ValidationTxFailed,
    FlowState::ValidatedPendingClaims,
];

/// Codes with which an operator rejects a flow; the first is the usual one.
pub(crate) const REJECTION_CODES: [&str; 3] =
    ["vt-flow.validation-refused", "vt-flow.session-terminated", "vt-flow.oob-expired"];

/// A call.
#[derive(Debug, Clone, PartialEq)]
pub enum FlowCall {
    /// Replaces the claims of the credential.
    EditClaims(Map<String, Value>),
    /// Sends the applicant to a link.
    SendOobLink {
        /// An absolute https URL.
        url: String,
        /// The task there.
        description: String,
        /// End of the link, milliseconds since the epoch.
        expires_at: Option<i64>,
    },
    /// Goes on behind a link.
    StartValidation {
        /// For the applicant.
        comment: Option<String>,
    },
    /// Rejects the request.
    Reject {
        /// For the applicant.
        description: String,
        /// `vt-flow.validation-refused` when absent, `vt-flow.session-terminated` or `vt-flow.oob-expired`.
        code: Option<String>,
    },
    /// Sends the opening message once more.
    Resend {
        /// Claims that replace those of before; the message has a thread of its own then.
        claims: Option<Map<String, Value>>,
    },
    /// Ends the flow.
    End {
        /// For the validator.
        description: Option<String>,
    },
}

/// The end of a call: the change that is to be stored, and the answer.
#[derive(Debug, PartialEq)]
pub(crate) struct CallEnd {
    /// The record and its messages; nothing where nothing changes.
    pub change: Option<(Progress, Vec<Message>)>,
    /// The refusal of a call that does nothing, although a read of the node may have changed the record.
    pub refusal: Option<Refusal>,
}

impl FlowCall {
    fn name(&self) -> &'static str {
        match self {
            Self::EditClaims(_) => "editCredentialClaims",
            Self::SendOobLink { .. } => "sendOobLink",
            Self::StartValidation { .. } => "startValidation",
            Self::Reject { .. } => "rejectFlow",
            Self::Resend { .. } => "resendFlow",
            Self::End { .. } => "endFlow",
        }
    }

    fn trigger(&self) -> Option<Trigger> {
        match self {
            Self::EditClaims(_) | Self::Resend { .. } => None,
            Self::SendOobLink { .. } => Some(Trigger::SendOobLink),
            Self::StartValidation { .. } => Some(Trigger::StartValidation),
            Self::Reject { .. } => Some(Trigger::RejectFlow),
            Self::End { .. } => Some(Trigger::FlowsEnd),
        }
    }

    /// The message that carries the texts of the call.
    fn outgoing(&self) -> Option<Outgoing> {
        match self {
            Self::StartValidation { .. } => Some(Outgoing::Validating),
            Self::Reject { .. } => Some(Outgoing::Rejected),
            Self::End { .. } => Some(Outgoing::SessionTerminated),
            Self::EditClaims(_) | Self::Resend { .. } | Self::SendOobLink { .. } => None,
        }
    }

    /// Checks the members of the call. All violations are named at once.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let mut violations = Vec::new();
        match self {
            Self::EditClaims(claims) => check_claims(&mut violations, claims),
            Self::Resend { claims } => {
                if let Some(claims) = claims {
                    check_claims(&mut violations, claims);
                }
            }
            Self::SendOobLink { url, description, .. } => {
                check_text_of(&mut violations, "description", description, MAX_LINK_TEXT);
                let is_plain = |url: Url| url.username().is_empty() && url.password().is_none();
                // The text itself is sent, and the parser would take more than it should show.
                let is_link = url.len() <= MAX_LINK
                    && url.starts_with("https://")
                    && !url.chars().any(|one| one.is_whitespace() || one.is_control())
                    && Url::parse(url).is_ok_and(is_plain);
                if !is_link {
                    let rule = format!("it is no absolute https URL of at most {MAX_LINK} bytes, without a user name");
                    violations.push(Violation { path: "url".to_owned(), message: rule });
                }
            }
            Self::StartValidation { comment } => {
                if let Some(comment) = comment {
                    check_text(&mut violations, "comment", comment);
                }
            }
            Self::Reject { description, code } => {
                check_text(&mut violations, "description", description);
                if code.as_deref().is_some_and(|code| !REJECTION_CODES.contains(&code)) {
                    let rule = format!("it is none of {}", REJECTION_CODES.join(", "));
                    violations.push(Violation { path: "code".to_owned(), message: rule });
                }
            }
            Self::End { description } => {
                if let Some(description) = description {
                    check_text(&mut violations, "description", description);
                }
            }
        }
        let Some(first) = violations.first() else { return Ok(()) };
        let message = format!("{}: {}", first.path, first.message);
        Err(Refusal { violations, ..Refusal::new(RefusalCode::InvalidInput, message) })
    }

    /// Whether the call is decided by the participant at the node too.
    pub(crate) fn needs_read(&self, record: &FlowRecord) -> bool {
        matches!(self, Self::Reject { .. }) && record.variant == Variant::Onboarding && record.side == Side::Validator
    }

    /// Performs a call that was checked. `shown` is the applicant's participant, where it is needed; `now` in milliseconds since the
    /// epoch.
    pub(crate) fn perform(&self, record: &FlowRecord, shown: Option<&ShownParticipant>, now: i64) -> CallEnd {
        let mut progress = Progress::of(record.clone());
        if let Some(shown) = shown {
            // The chain may have decided meanwhile: then the record says so, and the call comes too late.
            let (read, validation) = (Some(shown.to_read()), Some(shown.to_validation(now)));
            progress.take_read(&Cause { read, validation, ..Cause::new(Trigger::ChainPending, now) });
        }
        let refusal = self.act(&mut progress, now).err();
        let parts = self.parts();
        let has_changed = progress.record != *record;
        // A read may have steps of its own, which say nothing of the call.
        let own = self.outgoing();
        let messages = messages_of(Some(record), &progress, |outgoing, _| match own {
            Some(own) if own == outgoing => parts.clone(),
            _ => MessageParts::default(),
        });
        CallEnd { change: has_changed.then_some((progress, messages)), refusal }
    }

    fn parts(&self) -> MessageParts {
        let (text, code) = match self {
            Self::StartValidation { comment } => (comment.clone(), None),
            Self::Reject { description, code } => (Some(description.clone()), code.clone()),
            Self::End { description } => (description.clone(), None),
            _ => (None, None),
        };
        MessageParts { attachment: None, text, code }
    }

    fn act(&self, progress: &mut Progress, now: i64) -> Result<(), Refusal> {
        match self {
            Self::EditClaims(claims) => return self.edit_claims(progress, claims, now),
            Self::Resend { claims } => return self.resend(progress, claims.as_ref(), now),
            _ => {}
        }
        let Some(trigger) = self.trigger() else { return Ok(()) };
        let mut cause = Cause::new(trigger, now);
        match self {
            Self::SendOobLink { url, description, expires_at } => {
                cause.oob_link = Some(OobLink {
                    url: url.clone(),
                    description: description.clone(),
                    expires_at: *expires_at,
                    at: now,
                });
                let (kind, text, url) = (KeptKind::OobLink, description.clone(), Some(url.clone()));
                cause.kept = Some(KeptMessage { kind, text, at: now, url });
            }
            Self::StartValidation { comment } => {
                let kept =
                    |text: &String| KeptMessage { kind: KeptKind::Validating, text: text.clone(), at: now, url: None };
                cause.kept = comment.as_ref().map(kept);
            }
            Self::Reject { description, .. } => cause.reason = Some(description.clone()),
            Self::End { description } => cause.reason = description.clone(),
            _ => {}
        }
        match step(&progress.record, &cause) {
            Step::Moved { .. } => {
                progress.take(&cause);
                Ok(())
            }
            Step::Unmet((Guard::Established, _)) => Err(not_connected(&progress.record)),
            Step::Unmet(_) | Step::Elsewhere => Err(self.wrong_state(&progress.record)),
        }
    }

    fn edit_claims(&self, progress: &mut Progress, claims: &Map<String, Value>, now: i64) -> Result<(), Refusal> {
        let record = &mut progress.record;
        if record.side != Side::Validator || !EDITABLE.contains(&record.state) {
            return Err(self.wrong_state(record));
        }
        if record.connection_state != ConnectionState::Established {
            return Err(not_connected(record));
        }
        if !record.is_holder {
            let text = "the applicant's role gets no credential, and so there are no claims";
            return Err(Refusal::new(RefusalCode::NoCredentialForRole, text));
        }
        record.claims = Some(claims.clone());
        record.updated_at = now;
        Ok(())
    }

    fn resend(&self, progress: &mut Progress, claims: Option<&Map<String, Value>>, now: i64) -> Result<(), Refusal> {
        let thread = match (&progress.record.thread_id, claims) {
            (Some(thread), None) => thread.clone(),
            _ => Uuid::new_v4().to_string(),
        };
        if !progress.open_again(&thread, now) {
            return Err(self.wrong_state(&progress.record));
        }
        if let Some(claims) = claims {
            progress.record.claims = Some(claims.clone());
        }
        Ok(())
    }

    /// The states in which the call does something, for a flow of this kind.
    fn accepted(&self, record: &FlowRecord) -> Vec<&'static str> {
        let is_accepted = |state: &FlowState| match self {
            Self::EditClaims(_) => record.side == Side::Validator && EDITABLE.contains(state),
            Self::Resend { .. } => {
                let mut probe = Progress::of(FlowRecord { state: *state, ..record.clone() });
                probe.open_again("probe", 0)
            }
            _ => self
                .trigger()
                .is_some_and(|trigger| rows_of(record.side, record.variant, Some(*state), trigger).next().is_some()),
        };
        FlowState::ALL.iter().filter(|state| is_accepted(state)).map(|state| state.as_str()).collect()
    }

    fn wrong_state(&self, record: &FlowRecord) -> Refusal {
        let (name, state) = (self.name(), record.state.as_str());
        let accepted = self.accepted(record);
        let message = if accepted.is_empty() {
            let side = if record.side == Side::Applicant { "applicant" } else { "validator" };
            format!("{name} is no call of the flow's {side}")
        } else {
            format!("the flow is in {state}; {name} is accepted in {}", accepted.join(", "))
        };
        Refusal::new(RefusalCode::InvalidState, message)
    }
}

fn not_connected(record: &FlowRecord) -> Refusal {
    let state = record.connection_state.as_str();
    let message = format!("the connection of the flow is {state}, not ESTABLISHED: its applicant has to begin again");
    Refusal::new(RefusalCode::InvalidState, message)
}

fn check_text(violations: &mut Vec<Violation>, path: &str, text: &str) {
    check_text_of(violations, path, text, MAX_TEXT);
}

fn check_text_of(violations: &mut Vec<Violation>, path: &str, text: &str, max_bytes: usize) {
    if text.is_empty() || text.len() > max_bytes || text.contains('\0') {
        let message = format!("a text has 1 to {max_bytes} bytes, and no character U+0000");
        violations.push(Violation { path: path.to_owned(), message });
    }
}

pub(super) fn check_claims(violations: &mut Vec<Violation>, claims: &Map<String, Value>) {
    let mut refuse = |message: String| violations.push(Violation { path: "claims".to_owned(), message });
    if claims.contains_key("id") {
        refuse("the member id is the applicant's DID, and no claim".to_owned());
    }
    if has_nul(&Value::Object(claims.clone())) {
        refuse("they have the character U+0000".to_owned());
    } else if levels(&Value::Object(claims.clone())) > MAX_LEVELS {
        refuse(format!("they have more than {MAX_LEVELS} levels"));
    } else if serde_json::to_string(claims).is_ok_and(|text| text.len() > MAX_CLAIMS_BYTES) {
        refuse(format!("they have more than {MAX_CLAIMS_BYTES} bytes"));
    }
}

#[cfg(test)]
mod tests;
