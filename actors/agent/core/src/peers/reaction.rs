//! The consequences of a message of a peer. Pure.

use serde_json::Value;
use svc_didcomm::{
    Message,
    protocol::{
        Content, ContentError,
        credential_format::{issued_credential, offered_credential},
        discover_features::{answer, disclosures_message},
        issue_credential::{IssueCredential, abandon_message},
        problem_report::{MESSAGE_PARSE_FAILURE, ProblemReport},
    },
};
use uuid::Uuid;

use super::{ExchangeState, MessageRole, StoredBasicMessage, StoredExchange};

/// The rows and the answer that follow from a message.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reaction {
    /// A basic message.
    pub record: Option<StoredBasicMessage>,
    /// An exchange in its new state.
    pub exchange: Option<StoredExchange>,
    /// A message for the peer.
    pub answer: Option<Message>,
}

fn new_id() -> String {
    Uuid::new_v4().to_string()
}

/// Decides about a message. `exchange` is that of the message's thread. `now` is in milliseconds since the epoch.
pub fn react(
    message: &Message,
    content: &Result<Content, ContentError>,
    connection_id: &str,
    exchange: Option<StoredExchange>,
    now: i64,
) -> Reaction {
    let thread = message.thread();
    match content {
        Ok(Content::BasicMessage(text)) => {
            let sent_at = message.created_time.and_then(|seconds| seconds.checked_mul(1000));
            let record = StoredBasicMessage {
                id: Uuid::now_v7().to_string(),
                connection_id: connection_id.to_owned(),
                role: MessageRole::Receiver,
                content: text.content.clone(),
                sent_at: sent_at.filter(|at| (0..=now + 600_000).contains(at)).unwrap_or(now),
                created_at: now,
                delivery: None,
            };
            Reaction { record: Some(record), ..Reaction::default() }
        }
        Ok(Content::Queries(queries)) => {
            let disclosures = disclosures_message(&new_id(), &message.id, &answer(queries));
            Reaction { answer: Some(disclosures), ..Reaction::default() }
        }
        // A problem report is never answered: two agents could go on for ever.
        Ok(Content::ProblemReport(report)) => {
            let exchange = exchange.filter(|exchange| !exchange.state.is_final()).map(|exchange| StoredExchange {
                state: ExchangeState::Abandoned,
                error: Some(format!("{}: {}", report.code, report.text)),
                updated_at: now,
                ..exchange
            });
            Reaction { exchange, ..Reaction::default() }
        }
        Ok(Content::IssueCredential(step)) => react_to_step(message, step, connection_id, exchange, now),
        // Flows and access have parts of their own.
        Ok(Content::Empty | Content::Disclosures(_) | Content::VtFlow(_) | Content::EndpointAccess(_)) => {
            Reaction::default()
        }
        Err(error) => not_understood(thread, error),
    }
}

fn not_understood(thread: &str, error: &ContentError) -> Reaction {
    let report = ProblemReport::new(MESSAGE_PARSE_FAILURE, &error.to_string());
    Reaction { answer: Some(report.about(&new_id(), thread)), ..Reaction::default() }
}

fn react_to_step(
    message: &Message,
    step: &IssueCredential,
    connection_id: &str,
    exchange: Option<StoredExchange>,
    now: i64,
) -> Reaction {
    let (thread, parent) = (message.thread(), message.pthid.as_deref());
    let abandon = |text: &str| Some(abandon_message(&new_id(), thread, parent, text));
    match (step, exchange) {
        (IssueCredential::Offer { attachments, .. }, None) => {
            let begun = |state, format: &str, offer: Value| StoredExchange {
                id: new_id(),
                connection_id: connection_id.to_owned(),
                thread_id: thread.to_owned(),
                parent_thread_id: parent.map(str::to_owned),
                state,
                format: format.to_owned(),
                offer,
                credential: None,
                error: None,
                schema_id: None,
                created_at: now,
                updated_at: now,
            };
            match offered_credential(attachments) {
                Some((format, offer)) => {
                    let exchange = begun(ExchangeState::OfferReceived, format.offer_name(), offer);
                    Reaction { exchange: Some(exchange), ..Reaction::default() }
                }
                None => {
                    let format = attachments.first().map_or("", |one| one.format.as_str());
                    let error = "credentials of this format are not taken".to_owned();
                    let answer = abandon(&error);
                    let exchange = begun(ExchangeState::Abandoned, format, Value::Null);
                    Reaction { exchange: Some(StoredExchange { error: Some(error), ..exchange }), answer, record: None }
                }
            }
        }
        // Until a caller has decided, the issuer may offer something else.
        (IssueCredential::Offer { attachments, .. }, Some(exchange))
            if exchange.state == ExchangeState::OfferReceived =>
        {
            let exchange = offered_credential(attachments).map(|(format, offer)| StoredExchange {
                format: format.offer_name().to_owned(),
                offer,
                updated_at: now,
                ..exchange
            });
            Reaction { exchange, ..Reaction::default() }
        }
        // A caller that has refused a credential may get another one.
        (IssueCredential::Issue(attachments), Some(exchange))
            if [ExchangeState::RequestSent, ExchangeState::CredentialReceived].contains(&exchange.state) =>
        {
            match issued_credential(attachments) {
                Some((_, credential)) => {
                    let exchange = StoredExchange {
                        state: ExchangeState::CredentialReceived,
                        credential: Some(credential),
                        updated_at: now,
                        ..exchange
                    };
                    Reaction { exchange: Some(exchange), ..Reaction::default() }
                }
                None => {
                    let error = "the message has no credential of the offered kind".to_owned();
                    let answer = abandon(&error);
                    let exchange = StoredExchange {
                        state: ExchangeState::Abandoned,
                        error: Some(error),
                        updated_at: now,
                        ..exchange
                    };
                    Reaction { exchange: Some(exchange), answer, record: None }
                }
            }
        }
        // Credentials of this agent are issued by flows and on request of its owner.
        (IssueCredential::Request(_), _) => {
            Reaction { answer: abandon("no credential was offered in this thread"), ..Reaction::default() }
        }
        _ => Reaction::default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use svc_didcomm::protocol::{
        Attachment, AttachmentData,
        basic_message::BasicMessage,
        credential_format::CredentialFormat,
        discover_features::query_message,
        issue_credential::{self, FormatAttachment},
    };

    use super::*;

    const NOW: i64 = 1_800_000_000_000;

    fn reaction(message: &Message, exchange: Option<StoredExchange>) -> Reaction {
        react(message, &Content::read(message), "c", exchange, NOW)
    }

    fn attached(format: &str, data: AttachmentData) -> Vec<FormatAttachment> {
        vec![FormatAttachment { format: format.into(), attachment: Attachment { id: "a".into(), data } }]
    }

    fn offer(format: &str, credential: Value) -> Message {
        let attachments = attached(format, AttachmentData::Json(credential));
        IssueCredential::Offer { attachments, comment: None }.to_message("1", "x", Some("p"))
    }

    fn in_state(state: ExchangeState) -> StoredExchange {
        let offered = offer(
            CredentialFormat::DataIntegrity.offer_name(),
            json!({"credential": {"credentialSubject": {"id": "did:x:a", "name": "n"}}}),
        );
        let exchange = reaction(&offered, None).exchange.expect("an exchange");
        StoredExchange { state, ..exchange }
    }

    #[test]
    fn texts_are_stored_and_questions_are_answered() {
        let text = BasicMessage { content: "hello".into() }.to_message("1", NOW / 1000 - 7);
        let record = reaction(&text, None).record.expect("a record");
        assert_eq!((record.content.as_str(), record.sent_at, record.created_at), ("hello", NOW - 7000, NOW));
        let future = BasicMessage { content: "hello".into() }.to_message("1", i64::MAX);
        assert_eq!(reaction(&future, None).record.expect("a record").sent_at, NOW, "no time of the far future");
        let answered = reaction(&query_message("1", "*"), None).answer.expect("an answer");
        assert_eq!((answered.thread(), answered.kind.rsplit('/').next()), ("1", Some("disclosures")));
    }

    #[test]
    fn unknown_and_wrong_messages_get_a_report_and_reports_get_nothing() {
        for (kind, body) in [
            ("https://didcomm.org/trust-ping/2.0/ping", json!({})),
            ("https://didcomm.org/basicmessage/2.0/message", json!({"content": 7})),
            ("https://didcomm.org/out-of-band/2.0/invitation", json!({})),
            ("https://didcomm.org/vt-flow/1.0/oob-link", json!({})),
        ] {
            let message = Message::new("1", kind, body).in_thread("t");
            let report = reaction(&message, None).answer.expect("a report");
            assert_eq!(
                (report.pthid.as_deref(), report.body["description"]["code"].as_str()),
                (Some("t"), Some(MESSAGE_PARSE_FAILURE)),
                "{kind}"
            );
            assert_eq!(reaction(&report, None), Reaction::default(), "a report is not answered");
        }
    }

    #[test]
    fn an_exchange_goes_from_the_offer_to_the_credential() {
        let issue = |format: &str| {
            let attachments = attached(format, AttachmentData::Base64(br#"{"id":"c","proof":{}}"#.to_vec()));
            IssueCredential::Issue(attachments).to_message("3", "x", None)
        };
        let problem = issue_credential::abandon_message("4", "x", None, "no");
        let offered = in_state(ExchangeState::OfferReceived);
        assert_eq!(offered.offer["credentialSubject"]["name"], "n", "without the member around it");
        assert_eq!(offered.to_json()["claims"], json!({"name": "n"}));
        let (good, bad) = (issue(CredentialFormat::LdProof.credential_name()), issue("other"));
        for (message, before, expected, has_answer) in [
            (&good, ExchangeState::RequestSent, Some(ExchangeState::CredentialReceived), false),
            (&bad, ExchangeState::RequestSent, Some(ExchangeState::Abandoned), true),
            (&good, ExchangeState::CredentialReceived, Some(ExchangeState::CredentialReceived), false),
            (&good, ExchangeState::OfferReceived, None, false),
            (&good, ExchangeState::Done, None, false),
            (&problem, ExchangeState::RequestSent, Some(ExchangeState::Abandoned), false),
            (&problem, ExchangeState::Done, None, false),
            (
                &offer(CredentialFormat::DataIntegrity.offer_name(), json!({"x": 1})),
                ExchangeState::OfferReceived,
                Some(ExchangeState::OfferReceived),
                false,
            ),
            (
                &offer(CredentialFormat::DataIntegrity.offer_name(), json!({"x": 1})),
                ExchangeState::RequestSent,
                None,
                false,
            ),
        ] {
            let after = reaction(message, Some(in_state(before)));
            let state = after.exchange.map(|exchange| exchange.state);
            assert_eq!((state, after.answer.is_some()), (expected, has_answer), "{} in {before:?}", message.kind);
        }
        let foreign = reaction(&offer("anoncreds/credential-offer@v1.0", json!({})), None);
        assert_eq!(foreign.exchange.expect("a record").state, ExchangeState::Abandoned);
        assert_eq!(foreign.answer.expect("a report").pthid.as_deref(), Some("p"));
    }
}
