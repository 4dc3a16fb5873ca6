//! Confirmation of a call by a person. A confirmation is bound to the digest of the message that was shown.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rmcp::model::{
    BooleanSchema, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    InputRequest, InputRequiredResult, PrimitiveSchemaDefinition, RequestStateCodec, SealOptions,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_operator::AgentRequest;
use svc_wire::error_envelope::{ErrorEnvelope, FailureCode};
use tokio::time::Instant;

use super::{
    approvals::{ApprovalRequest, ApprovalState, ApprovalStore},
    confirmation_text::render,
};
use crate::{
    mcp::{
        catalog::CallPolicy,
        session::{ElicitationMode, ToolCaller},
    },
    principals::Principal,
};

/// The fee of a message, shown with the question. Amounts have their denom.
pub struct FeeNotice {
    /// The fee as it is estimated now; empty when no question is put.
    pub estimate: String,
    /// The largest fee that the signer signs.
    pub max_fee: String,
}

/// The message or request that a person confirms.
pub struct ConfirmationSubject {
    tool: String,
    head: String,
    message: Value,
    digest: String,
    /// Bound that the confirmation covers too: the largest fee of a message.
    bound: String,
}

/// The outcome of the request for a confirmation.
pub enum ConfirmationOutcome {
    /// The call needs no confirmation, or the client cannot ask for it and the policy lets it pass.
    Proceed,
    /// The call was confirmed, by a person through its client or by another principal.
    Confirmed {
        /// The one that has confirmed it, for the audit.
        by: String,
    },
    /// The client has to ask the person and call again.
    InputRequired(Box<InputRequiredResult>),
}

/// The confirmations that the server has requested, and the key that seals them.
pub struct ConfirmationStore {
    /// Calls that wait for another principal.
    pub approvals: ApprovalStore,
    codec: RequestStateCodec,
    /// Nonces of used confirmations, until they expire.
    used_nonces: Mutex<VecDeque<UsedNonce>>,
}

struct UsedNonce {
    expires_at: Instant,
    nonce: String,
}

/// Lifetime of a sealed confirmation.
const CONFIRMATION_LIFETIME: Duration = Duration::from_secs(10 * 60);
/// Used nonces that are kept. When all of them are unexpired, further confirmations are refused.
const MAX_USED_NONCES: usize = 10_000;
/// Key of the question in a result that requires input.
const QUESTION_KEY: &str = "confirmation";

impl ConfirmationSubject {
    /// The subject for a message to the chain. The fee is an estimate and may differ when the call is repeated; the confirmation
    /// covers the largest fee, which stays.
    pub fn for_message(tool: &str, corporation: u64, message: Value, digest: String, fee: &FeeNotice) -> Self {
        let FeeNotice { estimate, max_fee } = fee;
        let about = if estimate.is_empty() { String::new() } else { format!("about {estimate}, ") };
        Self {
            tool: tool.to_owned(),
            head: format!("{tool} for corporation {corporation}, fee {about}at most {max_fee}:"),
            message,
            digest,
            bound: max_fee.clone(),
        }
    }

    /// The subject for a request to an agent.
    pub fn for_agent_request(tool: &str, did: &str, request: &AgentRequest) -> Self {
        let (method, path) = (&request.method, &request.path);
        let message = request.body.clone().unwrap_or_default();
        let digest =
            hex::encode(Sha256::digest(format!("{tool} {did} {method} {path} {}", in_one_order(&message)).as_bytes()));
        let head = format!("{tool} at {did}: {method} {path}");
        Self { tool: tool.to_owned(), head, message, digest, bound: String::new() }
    }

    /// The subject for a read, which a policy may require to be confirmed.
    pub fn for_read(tool: &str, arguments: &Value) -> Self {
        let digest = hex::encode(Sha256::digest(format!("{tool} {}", in_one_order(arguments)).as_bytes()));
        let head = format!("{tool}:");
        Self { tool: tool.to_owned(), head, message: arguments.clone(), digest, bound: String::new() }
    }

    /// The text of the question. Fails when the message is too large to be shown whole.
    fn shown(&self) -> Result<String, ErrorEnvelope> {
        render(&format!("Confirm {}", self.head), &self.message, &self.digest).map_err(|error| {
            let message = format!("{} cannot be confirmed: {error}", self.tool);
            let hint =
                "nothing was done; split the call into smaller ones, or have the policy of this deployment allow it";
            ErrorEnvelope::new(FailureCode::AuthzPreconditionFailed, message, hint)
                .with_details(json!({"tool": self.tool, "message_digest": self.digest, "bytes": error.bytes}))
        })
    }

    fn elicitation(&self) -> Result<ElicitRequestParams, ErrorEnvelope> {
        let message = self.shown()?;
        let field = BooleanSchema::new().title("Do it").description("true: do exactly this; false: do nothing.");
        let schema = ElicitationSchema::builder()
            .required_property("confirm", PrimitiveSchemaDefinition::Boolean(field))
            .build()
            .map_err(|_| self.refusal_error("the question could not be put"))?;
        Ok(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema: schema })
    }

    /// Everything that a confirmation is bound to, with the principal that it was asked of.
    fn binding(&self, principal: &Principal) -> Vec<u8> {
        format!("{}\n{}\n{}\n{}", self.tool, self.digest, self.bound, principal.id).into_bytes()
    }

    fn refusal_error(&self, reason: &str) -> ErrorEnvelope {
        let message = format!("{} was not confirmed: {reason}", self.tool);
        let hint = "nothing was done; ask the person before calling again";
        ErrorEnvelope::new(FailureCode::AuthzPreconditionFailed, message, hint)
            .with_details(json!({"tool": self.tool, "message_digest": self.digest}))
    }
}

impl ConfirmationStore {
    /// A store with a new key: the confirmations of another process are invalid here.
    pub fn new() -> Self {
        // Two random UUIDs have 244 random bits; the key never leaves this process.
        let key = [*uuid::Uuid::new_v4().as_bytes(), *uuid::Uuid::new_v4().as_bytes()].concat();
        Self {
            approvals: ApprovalStore::default(),
            codec: RequestStateCodec::new_unchecked(key),
            used_nonces: Mutex::default(),
        }
    }

    /// Whether a call of this caller puts the question to a person: not when the caller brings the answer, and not when it cannot ask.
    pub fn asks_person(policy: CallPolicy, caller: &ToolCaller<'_>) -> bool {
        let is_answered = caller.input_responses.is_some() && caller.request_state.is_some();
        matches!(policy, CallPolicy::Ask | CallPolicy::Confirm)
            && match caller.elicitation_mode() {
                ElicitationMode::Unsupported => false,
                ElicitationMode::ServerRequest => true,
                ElicitationMode::InputRequired => !is_answered,
            }
    }

    fn seal(&self, binding: &[u8]) -> String {
        let nonce = uuid::Uuid::new_v4().to_string();
        self.codec.seal_with(nonce.as_bytes(), &SealOptions::new().associated_data(binding).ttl(CONFIRMATION_LIFETIME))
    }

    /// Uses a sealed confirmation. Returns whether it was sealed for this binding and is unexpired and unused.
    fn redeem(&self, sealed: &str, binding: &[u8]) -> bool {
        let Ok(nonce) = self.codec.open_with(sealed, binding) else { return false };
        let Ok(nonce) = String::from_utf8(nonce) else { return false };
        let now = Instant::now();
        let mut used = self.used_nonces.lock().unwrap_or_else(PoisonError::into_inner);
        while used.front().is_some_and(|used| used.expires_at <= now) {
            used.pop_front();
        }
        if used.len() >= MAX_USED_NONCES || used.iter().any(|used| used.nonce == nonce) {
            return false;
        }
        used.push_back(UsedNonce { expires_at: now + CONFIRMATION_LIFETIME, nonce });
        true
    }

    /// Requests the confirmation that the policy requires. Fails when the policy denies the call, the person declines, or no valid
    /// answer comes.
    pub async fn require(
        &self,
        policy: CallPolicy,
        subject: &ConfirmationSubject,
        caller: &ToolCaller<'_>,
    ) -> Result<ConfirmationOutcome, ErrorEnvelope> {
        let mode = caller.elicitation_mode();
        match policy {
            CallPolicy::Allow => return Ok(ConfirmationOutcome::Proceed),
            CallPolicy::Ask if mode == ElicitationMode::Unsupported => return Ok(ConfirmationOutcome::Proceed),
            CallPolicy::Confirm if mode == ElicitationMode::Unsupported => {
                return self.require_approval(subject, caller);
            }
            CallPolicy::Deny | CallPolicy::Excluded => {
                return Err(subject.refusal_error("the policy of this deployment denies it"));
            }
            CallPolicy::Ask | CallPolicy::Confirm => {}
        }
        let confirmed = || ConfirmationOutcome::Confirmed { by: caller.person() };
        if mode == ElicitationMode::ServerRequest {
            return match caller.elicit(subject.elicitation()?).await {
                Some(answer) => check_answer(&answer, subject).map(|()| confirmed()),
                None => Err(subject.refusal_error("no answer came")),
            };
        }
        let answer = caller.input_responses.as_ref().and_then(|responses| responses.get(QUESTION_KEY));
        match (answer, &caller.request_state) {
            (Some(answer), Some(sealed)) => {
                if !self.redeem(sealed, &subject.binding(caller.principal())) {
                    return Err(subject
                        .refusal_error("the confirmation is for another message, was used before, or is too old"));
                }
                let answer: ElicitResult = serde_json::from_value(answer.clone())
                    .map_err(|_| subject.refusal_error("the answer is no elicitation result"))?;
                check_answer(&answer, subject).map(|()| confirmed())
            }
            _ => {
                let request = InputRequest::Elicitation(ElicitRequest::new(subject.elicitation()?));
                let requests = BTreeMap::from([(QUESTION_KEY.to_owned(), request)]);
                let result =
                    InputRequiredResult::new(Some(requests), Some(self.seal(&subject.binding(caller.principal()))));
                Ok(ConfirmationOutcome::InputRequired(Box::new(result)))
            }
        }
    }
}

impl ConfirmationStore {
    /// Has another principal approve the call of a client that cannot ask a person.
    fn require_approval(
        &self,
        subject: &ConfirmationSubject,
        caller: &ToolCaller<'_>,
    ) -> Result<ConfirmationOutcome, ErrorEnvelope> {
        // Over standard input there is no other principal.
        if caller.is_on_stdio() {
            return Err(
                subject.refusal_error("the policy wants a person's confirmation, and this client cannot ask for it")
            );
        }
        let principal = caller.principal();
        let state = self.approvals.request(ApprovalRequest {
            principal,
            tool: &subject.tool,
            digest: &subject.digest,
            binding: subject.binding(principal),
            shown: subject.shown()?,
        });
        match state {
            ApprovalState::Approved(by) => Ok(ConfirmationOutcome::Confirmed { by: format!("the principal {by}") }),
            ApprovalState::Declined(by) => Err(subject.refusal_error(&format!("the principal {by} has declined it"))),
            ApprovalState::Full => Err(subject.refusal_error("too many calls wait for an approval")),
            ApprovalState::Waiting(id) => {
                let message = format!(
                    "{} was not confirmed: the policy wants a person's confirmation, and this client cannot ask for it; the call waits \
                     for the approval of another principal, under the id {id}",
                    subject.tool
                );
                let hint = format!(
                    "nothing was done; have it approved with `svc approve {id}` within ten minutes, then repeat the same call; \
                     svc://own/approvals shows its state"
                );
                Err(ErrorEnvelope::new(FailureCode::AuthzPreconditionFailed, message, hint).with_details(json!({
                    "tool": subject.tool, "message_digest": subject.digest, "approval_id": id,
                })))
            }
        }
    }
}

/// The text of a value whose members a client may write in another order when it repeats the call.
fn in_one_order(value: &Value) -> String {
    let mut ordered = value.clone();
    ordered.sort_all_objects();
    ordered.to_string()
}

fn check_answer(answer: &ElicitResult, subject: &ConfirmationSubject) -> Result<(), ErrorEnvelope> {
    let is_confirmed = answer.content.as_ref().is_some_and(|content| content["confirm"] == true);
    match answer.action {
        ElicitationAction::Accept if is_confirmed => Ok(()),
        ElicitationAction::Accept | ElicitationAction::Decline => Err(subject.refusal_error("the person said no")),
        // The action is a cancellation, or one of a later protocol version.
        _ => Err(subject.refusal_error("the person closed the question")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::principals::PrincipalRights;

    fn subject(digest: &str) -> ConfirmationSubject {
        let tool = "svc.ledger.es.archiveEcosystem";
        ConfirmationSubject::for_message(tool, 1, json!({"id": "7"}), digest.to_owned(), &fee("4usvc", "9usvc"))
    }

    fn fee(estimate: &str, max_fee: &str) -> FeeNotice {
        FeeNotice { estimate: estimate.to_owned(), max_fee: max_fee.to_owned() }
    }

    #[test]
    fn a_confirmation_is_valid_once_for_its_message_and_its_principal() {
        let (store, principal) = (ConfirmationStore::new(), Principal::default_one());
        let bound = |subject: &ConfirmationSubject| subject.binding(&principal);
        let sealed = store.seal(&bound(&subject("aa")));
        assert!(!store.redeem(&sealed, &bound(&subject("bb"))), "another message");
        let mut other = subject("aa");
        other.tool = "svc.ledger.pp.revokeParticipant".to_owned();
        assert!(!store.redeem(&sealed, &bound(&other)), "another tool");
        let message = || json!({"id": "7"});
        let with_fee = |fee| ConfirmationSubject::for_message(&subject("aa").tool, 1, message(), "aa".to_owned(), &fee);
        assert!(!store.redeem(&sealed, &bound(&with_fee(fee("4usvc", "10usvc")))), "another largest fee");
        assert!(!ConfirmationStore::new().redeem(&sealed, &bound(&subject("aa"))), "another server");
        let stranger = Principal::new("stranger", PrincipalRights::default());
        assert!(!store.redeem(&sealed, &subject("aa").binding(&stranger)), "another principal");
        let sealed_again = store.seal(&bound(&subject("aa")));
        assert!(store.redeem(&sealed_again, &bound(&with_fee(fee("5usvc", "9usvc")))), "another estimate");
        assert!(store.redeem(&sealed, &bound(&subject("aa"))));
        assert!(!store.redeem(&sealed, &bound(&subject("aa"))), "a second time");
        assert!(!store.redeem("rs1.x.y", &bound(&subject("aa"))), "made up");
    }

    #[test]
    fn only_an_accepted_true_confirms() {
        let answer = |action, confirm: Value| ElicitResult::new(action).with_content(json!({"confirm": confirm}));
        for (given, expected) in [
            (answer(ElicitationAction::Accept, json!(true)), true),
            (answer(ElicitationAction::Accept, json!(false)), false),
            (answer(ElicitationAction::Accept, json!("true")), false),
            (ElicitResult::new(ElicitationAction::Accept), false),
            (answer(ElicitationAction::Decline, json!(true)), false),
            (answer(ElicitationAction::Cancel, json!(true)), false),
        ] {
            assert_eq!(check_answer(&given, &subject("aa")).is_ok(), expected, "{given:?}");
        }
    }

    #[test]
    fn the_question_shows_the_message_and_its_digest() {
        let Ok(ElicitRequestParams::FormElicitationParams { message, .. }) = subject("abcd").elicitation() else {
            panic!("a form");
        };
        assert!(message.contains("archiveEcosystem for corporation 1") && message.contains("abcd"), "{message}");
        assert!(message.contains("fee about 4usvc, at most 9usvc"), "{message}");
    }
}
