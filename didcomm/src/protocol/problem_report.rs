//! Problem reports: notification/1.0 as this registry's agents send it; report-problem 1.0 and 2.0 are read too.

use serde_json::{Value, json};

pub use super::served::PROBLEM_REPORT;
use crate::message::Message;

/// Read, never sent.
pub(super) const REPORT_1: &str = "https://didcomm.org/report-problem/1.0/problem-report";
/// Read, never sent.
pub(super) const REPORT_2: &str = "https://didcomm.org/report-problem/2.0/problem-report";
/// The code for a message that cannot be understood.
pub const MESSAGE_PARSE_FAILURE: &str = "message-parse-failure";

/// Bytes of a code and of a text that are kept.
const MAX_CODE: usize = 128;
const MAX_TEXT: usize = 2048;

/// A problem of the sender with a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProblemReport {
    /// For programs.
    pub code: String,
    /// For people.
    pub text: String,
    /// The side that may try again: `YOU`, `ME`, `BOTH`, `NONE`.
    pub who_retries: Option<String>,
    /// The extent of the loss: `MESSAGE`, `THREAD`, `CONNECTION`.
    pub impact: Option<String>,
}

impl ProblemReport {
    /// A report that does not say which side may try again.
    pub fn new(code: &str, text: &str) -> Self {
        Self { code: code.to_owned(), text: text.to_owned(), who_retries: None, impact: None }
    }

    /// Makes the message that a message could not be understood: a thread of its own, whose parent is the thread of that message.
    pub fn about(&self, id: &str, thread: &str) -> Message {
        Message { pthid: Some(thread.to_owned()), ..self.to_message(id, id) }
    }

    /// Makes the message, in the thread that it is about.
    pub fn to_message(&self, id: &str, thid: &str) -> Message {
        let mut body = json!({"description": {"code": self.code, "en": self.text}});
        for (name, value) in [("who_retries", &self.who_retries), ("impact", &self.impact)] {
            if let Some(value) = value {
                body[name] = json!(value);
            }
        }
        Message::new(id, PROBLEM_REPORT, body).in_thread(thid)
    }

    /// Reads a report. Nothing in it is required, since a report is never answered with another.
    pub(super) fn read(message: &Message) -> Self {
        let description = message.body.get("description").unwrap_or(&Value::Null);
        let text = |value: Option<&Value>, max| value.and_then(Value::as_str).map(|text| cut(text, max));
        let of_2 = |name: &str, max| text(message.body.get(name), max);
        Self {
            code: text(description.get("code"), MAX_CODE).or_else(|| of_2("code", MAX_CODE)).unwrap_or_default(),
            text: text(description.get("en"), MAX_TEXT).or_else(|| of_2("comment", MAX_TEXT)).unwrap_or_default(),
            who_retries: of_2("who_retries", 16),
            impact: of_2("impact", 16),
        }
    }
}

/// The beginning of a text, cut between two characters.
fn cut(text: &str, max_bytes: usize) -> String {
    let mut end = text.len().min(max_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Content;

    #[test]
    fn reports_of_every_generation_are_read() {
        let report = ProblemReport {
            who_retries: Some("YOU".into()),
            impact: Some("THREAD".into()),
            ..ProblemReport::new("vt-flow.validation-failed", "not accepted")
        };
        assert_eq!(Content::read(&report.to_message("1", "t")), Ok(Content::ProblemReport(report)));
        let of_2 = Message::new("1", REPORT_2, json!({"code": "e.m.x", "comment": "äö".repeat(3000)}));
        let Ok(Content::ProblemReport(read)) = Content::read(&of_2) else { panic!("a report") };
        assert_eq!((read.code.as_str(), read.text.len()), ("e.m.x", MAX_TEXT));
        let odd = Message::new("1", PROBLEM_REPORT, json!({"description": [7]}));
        assert_eq!(Content::read(&odd), Ok(Content::ProblemReport(ProblemReport::new("", ""))));
    }
}
