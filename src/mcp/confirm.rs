//! Confirmation by a person, bound to the exact thing that was shown.

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
use svc_wire::envelope::{Code, ErrorEnvelope};
use tokio::time::Instant;

use super::{
    Front,
    caller::{Asking, Caller},
    catalog::Verdict,
};

/// What is to be confirmed.
pub struct Subject {
    tool: String,
    shown: String,
    digest: String,
}

/// Whether to go on.
pub enum Confirmation {
    /// Confirmed, or not needed.
    Given,
    /// The client has to ask first.
    Ask(Box<InputRequiredResult>),
}

/// Confirmations that were asked for in an answer, and the one key they are sealed with.
pub struct Desk {
    codec: RequestStateCodec,
    /// Numbers of confirmations that were used, until they would have expired anyway.
    used: Mutex<VecDeque<(Instant, String)>>,
}

/// How long a confirmation may take, asked in an answer.
const LIFE: Duration = Duration::from_secs(10 * 60);
/// Used numbers that are remembered. With more within their life, further confirmations are refused.
const REMEMBERED: usize = 10_000;
/// Key of the one question.
const QUESTION: &str = "confirmation";
/// Longest text of one member of a message, and of the whole.
const MAX_TEXT: usize = 500;
const MAX_SHOWN: usize = 16_000;

impl Subject {
    /// A message to the chain.
    pub fn of_message(tool: &str, corporation: u64, message: Value, digest: String) -> Self {
        let message = serde_json::to_string_pretty(&shortened(message)).unwrap_or_default();
        Self { tool: tool.to_owned(), shown: format!("{tool} for corporation {corporation}:\n{message}"), digest }
    }

    /// A request to an agent.
    pub fn of_agent(tool: &str, did: &str, request: &AgentRequest) -> Self {
        let (method, path) = (&request.method, &request.path);
        let body = request.body.clone().unwrap_or_default();
        let digest = hex::encode(Sha256::digest(format!("{tool} {did} {method} {path} {body}").as_bytes()));
        let shown = format!("{tool} at {did}:\n{method} {path}\n{:#}", shortened(body));
        Self { tool: tool.to_owned(), shown, digest }
    }

    /// A read, where a policy wants even that confirmed.
    pub fn of_read(tool: &str, arguments: &Value) -> Self {
        let digest = hex::encode(Sha256::digest(format!("{tool} {arguments}").as_bytes()));
        Self { tool: tool.to_owned(), shown: format!("{tool}:\n{:#}", shortened(arguments.clone())), digest }
    }

    fn question(&self) -> Option<ElicitRequestParams> {
        let shown = cut(&self.shown, MAX_SHOWN);
        let message = format!("Confirm {shown}\n\nsha256 of exactly this: {}", self.digest);
        let field = BooleanSchema::new().title("Do it").description("true: do exactly this; false: do nothing.");
        let schema = ElicitationSchema::builder()
            .required_property("confirm", PrimitiveSchemaDefinition::Boolean(field))
            .build()
            .ok()?;
        Some(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema: schema })
    }

    fn binding(&self) -> Vec<u8> {
        format!("{}\n{}", self.tool, self.digest).into_bytes()
    }

    fn refused(&self, why: &str) -> ErrorEnvelope {
        let message = format!("{} was not confirmed: {why}", self.tool);
        let hint = "nothing was done; ask the person before calling again";
        ErrorEnvelope::new(Code::AuthzPreconditionFailed, message, hint)
            .with_details(json!({"tool": self.tool, "message_digest": self.digest}))
    }
}

impl Desk {
    /// A desk with a key of its own.
    pub fn new() -> Self {
        // Two random UUIDs have 244 random bits; the key never leaves this process.
        let key = [*uuid::Uuid::new_v4().as_bytes(), *uuid::Uuid::new_v4().as_bytes()].concat();
        Self { codec: RequestStateCodec::new_unchecked(key), used: Mutex::default() }
    }

    fn seal(&self, subject: &Subject) -> String {
        let number = uuid::Uuid::new_v4().to_string();
        let binding = subject.binding();
        self.codec.seal_with(number.as_bytes(), &SealOptions::new().associated_data(&binding).ttl(LIFE))
    }

    /// Whether `sealed` was given for this very subject and was not used before; it is used now.
    fn redeem(&self, sealed: &str, subject: &Subject) -> bool {
        let Ok(number) = self.codec.open_with(sealed, &subject.binding()) else { return false };
        let Ok(number) = String::from_utf8(number) else { return false };
        let now = Instant::now();
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        while used.front().is_some_and(|(until, _)| *until <= now) {
            used.pop_front();
        }
        if used.len() >= REMEMBERED || used.iter().any(|(_, other)| *other == number) {
            return false;
        }
        used.push_back((now + LIFE, number));
        true
    }
}

impl Front {
    /// Sees to it that the person has confirmed `subject` where the policy wants it.
    pub async fn confirmed(
        &self,
        verdict: Verdict,
        subject: &Subject,
        caller: &Caller<'_>,
    ) -> Result<Confirmation, ErrorEnvelope> {
        let asking = caller.asking();
        match verdict {
            Verdict::Allow => return Ok(Confirmation::Given),
            Verdict::Ask if asking == Asking::Impossible => return Ok(Confirmation::Given),
            Verdict::Confirm if asking == Asking::Impossible => {
                return Err(
                    subject.refused("the policy wants a person's confirmation, and this client cannot ask for it")
                );
            }
            Verdict::Deny | Verdict::LeftOut => return Err(subject.refused("the policy of this deployment denies it")),
            Verdict::Ask | Verdict::Confirm => {}
        }
        let question = || subject.question().ok_or_else(|| subject.refused("the question could not be put"));
        if asking == Asking::Elicitation {
            return match caller.elicit(question()?).await {
                Some(answer) => judge(&answer, subject),
                None => Err(subject.refused("no answer came")),
            };
        }
        let answer = caller.responses.as_ref().and_then(|responses| responses.get(QUESTION));
        match (answer, &caller.request_state) {
            (Some(answer), Some(sealed)) => {
                if !self.desk.redeem(sealed, subject) {
                    return Err(
                        subject.refused("the confirmation is for another message, was used before, or is too old")
                    );
                }
                let answer: ElicitResult = serde_json::from_value(answer.clone())
                    .map_err(|_| subject.refused("the answer is no elicitation result"))?;
                judge(&answer, subject)
            }
            _ => {
                let request = InputRequest::Elicitation(ElicitRequest::new(question()?));
                let requests = BTreeMap::from([(QUESTION.to_owned(), request)]);
                let result = InputRequiredResult::new(Some(requests), Some(self.desk.seal(subject)));
                Ok(Confirmation::Ask(Box::new(result)))
            }
        }
    }
}

fn judge(answer: &ElicitResult, subject: &Subject) -> Result<Confirmation, ErrorEnvelope> {
    let is_ticked = answer.content.as_ref().is_some_and(|content| content["confirm"] == true);
    match answer.action {
        ElicitationAction::Accept if is_ticked => Ok(Confirmation::Given),
        ElicitationAction::Accept | ElicitationAction::Decline => Err(subject.refused("the person said no")),
        // Cancelled, or something a later protocol says.
        _ => Err(subject.refused("the person closed the question")),
    }
}

/// A text that is at most so long, and says when it was longer.
fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let (kept, whole) = (&text[..text.floor_char_boundary(limit)], hex::encode(Sha256::digest(text.as_bytes())));
    format!("{kept}… (cut: {} bytes in all, sha256 {whole})", text.len())
}

/// The same value with its long texts cut, so that no member pushes another out of sight.
fn shortened(value: Value) -> Value {
    match value {
        Value::String(text) => cut(&text, MAX_TEXT).into(),
        Value::Array(items) => items.into_iter().map(shortened).collect(),
        Value::Object(members) => members.into_iter().map(|(name, member)| (name, shortened(member))).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(digest: &str) -> Subject {
        Subject::of_message("svc.ledger.es.archiveEcosystem", 1, json!({"id": "7"}), digest.to_owned())
    }

    #[test]
    fn a_confirmation_is_good_once_and_for_its_message_alone() {
        let desk = Desk::new();
        let sealed = desk.seal(&subject("aa"));
        assert!(!desk.redeem(&sealed, &subject("bb")), "another message");
        let mut other = subject("aa");
        other.tool = "svc.ledger.pp.revokeParticipant".to_owned();
        assert!(!desk.redeem(&sealed, &other), "another tool");
        assert!(!Desk::new().redeem(&sealed, &subject("aa")), "another server");
        assert!(desk.redeem(&sealed, &subject("aa")));
        assert!(!desk.redeem(&sealed, &subject("aa")), "a second time");
        assert!(!desk.redeem("rs1.x.y", &subject("aa")), "made up");
    }

    #[test]
    fn only_a_ticked_acceptance_confirms() {
        let answer = |action, confirm: Value| ElicitResult::new(action).with_content(json!({"confirm": confirm}));
        for (given, is_confirmed) in [
            (answer(ElicitationAction::Accept, json!(true)), true),
            (answer(ElicitationAction::Accept, json!(false)), false),
            (answer(ElicitationAction::Accept, json!("true")), false),
            (ElicitResult::new(ElicitationAction::Accept), false),
            (answer(ElicitationAction::Decline, json!(true)), false),
            (answer(ElicitationAction::Cancel, json!(true)), false),
        ] {
            assert_eq!(judge(&given, &subject("aa")).is_ok(), is_confirmed, "{given:?}");
        }
    }

    #[test]
    fn what_is_asked_shows_the_message_and_its_digest() {
        let Some(ElicitRequestParams::FormElicitationParams { message, .. }) = subject("abcd").question() else {
            panic!("a form");
        };
        assert!(message.contains("archiveEcosystem for corporation 1") && message.contains("abcd"), "{message}");
        let long = json!({"a_schema": "x".repeat(10_000), "z_last": 7});
        let subject = Subject::of_message("svc.ledger.cs.createCredentialSchema", 1, long, "abcd".into());
        let Some(ElicitRequestParams::FormElicitationParams { message, .. }) = subject.question() else {
            panic!("a form");
        };
        assert!(message.contains("10000 bytes in all") && message.contains("z_last"), "{message}");
    }
}
