//! vt-flow/1.0: the messages of onboarding and issuance.

use serde_json::{Map, Value, json};

use super::{
    body::{ContentError, body_text, optional_text},
    problem_report::ProblemReport,
};
use crate::{
    limits,
    message::{Message, seconds},
};

/// The applicant asks to be validated.
pub const ONBOARDING_REQUEST: &str = "https://didcomm.org/vt-flow/1.0/onboarding-request";
/// The applicant asks for a credential.
pub const ISSUANCE_REQUEST: &str = "https://didcomm.org/vt-flow/1.0/issuance-request";
/// The validator works on it.
pub const VALIDATING: &str = "https://didcomm.org/vt-flow/1.0/validating";
/// The validator wants something done elsewhere.
pub const OOB_LINK: &str = "https://didcomm.org/vt-flow/1.0/oob-link";
/// A credential has another state.
pub const CREDENTIAL_STATE_CHANGE: &str = "https://didcomm.org/vt-flow/1.0/credential-state-change";
/// The terms of a credential.
pub const CREDENTIAL_TERMS: &str = "https://didcomm.org/vt-flow/1.0/credential-terms";
/// The code for a peer that is no verifiable service.
pub const NOT_A_VERIFIABLE_SERVICE: &str = "vt-flow.not-a-verifiable-service";

/// Bytes of ids, and of texts for people.
const MAX_ID: usize = 64;
const MAX_TEXT: usize = 2048;
/// Bytes of a link. It is kept as a text and never followed.
const MAX_LINK: usize = 100 * 1024;
/// Bytes of the text beside a link. Onboarding services send a validator's remarks about a case there: pages of Markdown.
pub const MAX_LINK_TEXT: usize = 16 * 1024;

/// A message of the protocol.
#[derive(Debug, Clone, PartialEq)]
pub enum VtFlow {
    /// An applicant begins, or comes back to, an onboarding.
    OnboardingRequest {
        /// The applicant's participant.
        participant_id: String,
        /// The members of both kinds of requests.
        request: FlowRequest,
    },
    /// An applicant asks for a credential without an onboarding.
    IssuanceRequest {
        /// The schema of the credential.
        schema_id: String,
        /// The members of both kinds of requests.
        request: FlowRequest,
    },
    /// The validator works on it.
    Validating {
        /// For people.
        comment: Option<String>,
    },
    /// The validator wants something done at a link.
    OobLink {
        /// The link as the peer wrote it. It is a text and nothing more.
        url: String,
        /// The task there.
        description: String,
        /// Seconds since the epoch.
        expires_time: Option<i64>,
    },
    /// A credential has another state.
    CredentialStateChange {
        /// The thread by which it was issued.
        subprotocol_thid: String,
        /// `REVOKED`, or one that later versions may have.
        state: String,
        /// For people.
        reason: Option<String>,
    },
    /// The terms of a credential.
    CredentialTerms {
        /// Name of the format.
        credential_format: String,
        /// Whether it will stand in the DID Document.
        present_as_linked_vp: bool,
    },
}

/// The members that both first messages of an applicant have.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowRequest {
    /// The id of the session, a UUID.
    pub participant_session_id: String,
    /// The claims that the applicant wants in its credential.
    pub claims: Option<Map<String, Value>>,
    /// Presentations, which are kept and not read.
    pub proofs: Option<Vec<Value>>,
}

/// Bytes of claims as JSON. The published schema of a badge allows a photo and a biometric pattern of 262,144 characters each.
pub const MAX_CLAIMS_BYTES: usize = 640 * 1024;
/// Bytes of the presentations of a request as JSON.
const MAX_PROOFS: usize = 256 * 1024;

fn is_within(value: &Value, bytes: usize) -> bool {
    value.to_string().len() <= bytes
}

impl VtFlow {
    /// Reads a message of the protocol; nothing when it is of another.
    pub(super) fn read(message: &Message) -> Result<Option<Self>, ContentError> {
        Ok(Some(match message.kind.as_str() {
            ONBOARDING_REQUEST => Self::OnboardingRequest {
                participant_id: body_text(message, "participant_id", MAX_ID)?,
                request: FlowRequest::read(message)?,
            },
            ISSUANCE_REQUEST => Self::IssuanceRequest {
                schema_id: body_text(message, "schema_id", MAX_ID)?,
                request: FlowRequest::read(message)?,
            },
            VALIDATING => Self::Validating { comment: optional_text(message, "comment", MAX_TEXT)? },
            OOB_LINK => Self::OobLink {
                url: body_text(message, "url", MAX_LINK)?,
                description: body_text(message, "description", MAX_LINK_TEXT)?,
                expires_time: expiry(message)?,
            },
            CREDENTIAL_STATE_CHANGE => Self::CredentialStateChange {
                subprotocol_thid: body_text(message, "subprotocol_thid", limits::MAX_ID_BYTES)?,
                state: body_text(message, "state", MAX_ID)?,
                reason: optional_text(message, "reason", MAX_TEXT)?,
            },
            CREDENTIAL_TERMS => Self::CredentialTerms {
                credential_format: body_text(message, "credential_format", MAX_ID)?,
                present_as_linked_vp: message
                    .body
                    .get("present_as_linked_vp")
                    .and_then(Value::as_bool)
                    .ok_or_else(|| ContentError::member("present_as_linked_vp", "is not true or false"))?,
            },
            _ => return Ok(None),
        }))
    }

    /// Makes the message in the thread of its flow; without a thread it is the first one.
    pub fn to_message(&self, id: &str, thid: Option<&str>) -> Message {
        let (kind, body) = match self {
            Self::OnboardingRequest { participant_id, request } => {
                (ONBOARDING_REQUEST, request.to_body("participant_id", participant_id))
            }
            Self::IssuanceRequest { schema_id, request } => (ISSUANCE_REQUEST, request.to_body("schema_id", schema_id)),
            Self::Validating { comment } => (VALIDATING, with_text(json!({}), "comment", comment.as_deref())),
            Self::OobLink { url, description, expires_time } => {
                let mut body = json!({"url": url, "description": description});
                if let Some(end) = expires_time {
                    body["expires_time"] = json!(end);
                }
                (OOB_LINK, body)
            }
            Self::CredentialStateChange { subprotocol_thid, state, reason } => {
                let body = json!({"subprotocol_thid": subprotocol_thid, "state": state});
                (CREDENTIAL_STATE_CHANGE, with_text(body, "reason", reason.as_deref()))
            }
            Self::CredentialTerms { credential_format, present_as_linked_vp } => {
                let body =
                    json!({"credential_format": credential_format, "present_as_linked_vp": present_as_linked_vp});
                (CREDENTIAL_TERMS, body)
            }
        };
        let message = Message::new(id, kind, body);
        match thid {
            Some(thid) => message.in_thread(thid),
            None => message,
        }
    }
}

impl FlowRequest {
    fn read(message: &Message) -> Result<Self, ContentError> {
        let claims = match message.body.get("claims") {
            None | Some(Value::Null) => None,
            Some(Value::Object(claims)) if is_within(&message.body["claims"], MAX_CLAIMS_BYTES) => {
                let mut claims = claims.clone();
                // The subject is the applicant: no claim names another one.
                claims.shift_remove("id");
                Some(claims)
            }
            Some(Value::Object(_)) => return Err(ContentError::member("claims", "has more than 655360 bytes")),
            Some(_) => return Err(ContentError::member("claims", "is not an object")),
        };
        let proofs = match message.body.get("proofs~attach") {
            None | Some(Value::Null) => None,
            Some(list @ Value::Array(proofs))
                if proofs.len() <= limits::MAX_ATTACHMENTS && is_within(list, MAX_PROOFS) =>
            {
                Some(proofs.clone())
            }
            Some(_) => {
                return Err(ContentError::member(
                    "proofs~attach",
                    "is not a list of at most 16 entries and 262144 bytes",
                ));
            }
        };
        Ok(Self { participant_session_id: body_text(message, "participant_session_id", MAX_ID)?, claims, proofs })
    }

    /// Ids are texts. Agents of the first generation refuse a request without both ids of agents, "0" when there are none.
    fn to_body(&self, name: &str, id: &str) -> Value {
        let mut body = Map::new();
        body.insert(name.to_owned(), json!(id));
        body.insert("participant_session_id".to_owned(), json!(self.participant_session_id));
        body.insert("agent_participant_id".to_owned(), json!("0"));
        body.insert("wallet_agent_participant_id".to_owned(), json!("0"));
        if let Some(claims) = &self.claims {
            body.insert("claims".to_owned(), json!(claims));
        }
        if let Some(proofs) = &self.proofs {
            body.insert("proofs~attach".to_owned(), json!(proofs));
        }
        Value::Object(body)
    }
}

fn with_text(mut body: Value, name: &str, text: Option<&str>) -> Value {
    if let Some(text) = text {
        body[name] = json!(text);
    }
    body
}

/// The end of a link: in the body, or where others move it, as a number or as a text.
fn expiry(message: &Message) -> Result<Option<i64>, ContentError> {
    let found = message.body.get("expires_time").or_else(|| message.other.get("expires_time"));
    match found {
        None | Some(Value::Null) => Ok(message.expires_time),
        Some(value) => {
            seconds(value).map(Some).ok_or_else(|| ContentError::member("expires_time", "is no point in time"))
        }
    }
}

/// Whether a problem report ends a flow: its code is one of the protocol, and the peer may not try again.
pub(crate) fn ends_a_flow(message: &Message) -> bool {
    let report = ProblemReport::read(message);
    report.code.starts_with("vt-flow.") && report.who_retries.as_deref() != Some("YOU")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Content;

    #[test]
    fn every_message_is_read_as_it_was_written() {
        let request = FlowRequest {
            participant_session_id: "7f66f5a4-3da7-47e3-a74a-22aafbcd36c9".into(),
            claims: Some(Map::from_iter([("name".to_owned(), json!("x"))])),
            proofs: None,
        };
        for content in [
            VtFlow::OnboardingRequest { participant_id: "42".into(), request: request.clone() },
            VtFlow::IssuanceRequest { schema_id: "5".into(), request: request.clone() },
            VtFlow::Validating { comment: Some("soon".into()) },
            VtFlow::OobLink {
                url: "https://a.example".into(),
                description: "d".repeat(MAX_LINK_TEXT),
                expires_time: Some(9),
            },
            VtFlow::CredentialStateChange { subprotocol_thid: "t".into(), state: "REVOKED".into(), reason: None },
            VtFlow::CredentialTerms { credential_format: "JSON_LD".into(), present_as_linked_vp: true },
        ] {
            assert_eq!(Content::read(&content.to_message("1", Some("t"))), Ok(Content::VtFlow(content)));
        }
        let opening = VtFlow::IssuanceRequest { schema_id: "5".into(), request }.to_message("1", None);
        assert_eq!(opening.thread(), "1");
        let with = |name: &str, value: Value| {
            let mut message = opening.clone();
            message.body.insert(name.to_owned(), value);
            Content::read(&message)
        };
        for (name, value) in
            [("schema_id", json!(5)), ("claims", json!([])), ("participant_session_id", json!("x".repeat(65)))]
        {
            let error = with(name, value).expect_err(name);
            assert!(error.to_string().starts_with(name), "{error}");
        }
        // A photo and a biometric pattern, as the published schema of a badge allows them.
        assert!(with("claims", json!({"photo": "x".repeat(262_144), "biometricPattern": "x".repeat(262_144)})).is_ok());
        let error = with("claims", json!({"photo": "x".repeat(MAX_CLAIMS_BYTES)})).expect_err("too long").to_string();
        assert!(error.contains(&format!("has more than {MAX_CLAIMS_BYTES} bytes")), "{error}");
        let mut without = opening.clone();
        without.body.remove("agent_participant_id");
        assert!(Content::read(&without).is_ok(), "the ids of agents are sent and never required");
    }
}
