//! A text for an A2A agent, over JSON-RPC: the Agent Card says where, and in which version.
//!
//! The official client of A2A in Rust speaks 1.0 only and reads answers of any length; this module reads the few members that one text and
//! its answer need, of 1.0 and 0.3.

mod card;
mod reply;

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Value, json};
use url::Url;
use uuid::Uuid;

use self::{
    card::{A2aInterface, A2aVersion, card_urls, read_card},
    reply::{A2aReply, read_reply},
};
use super::{
    http_call::{HttpAnswer, HttpCaller, NOT_FOUND, is_same_origin},
    outcome::{CallAnswer, CallFault, answer_of, failed, not_of_protocol},
    proof::CallProof,
};
use crate::{error::PeerFailure, json_member::take_member};

const PROTOCOL: &str = "A2A";
const VERSION_HEADER: HeaderName = HeaderName::from_static("a2a-version");
/// Pauses between two questions for a task that is not done yet: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// Sends a text, and waits until the agent's task has ended or needs something.
pub(super) async fn send_text(
    http: &HttpCaller,
    entry: &Url,
    proof: &CallProof,
    text: &str,
) -> Result<CallAnswer, CallFault> {
    let interface = find_interface(http, entry, proof).await?;
    let (method, params) = interface.version.message(&Uuid::new_v4().to_string(), text);
    let mut reply = ask(http, &interface, proof, method, params).await?;
    let mut pause = FIRST_PAUSE;
    while reply.is_working {
        let Some(task) = reply.task.clone() else { break };
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        let (method, params) = interface.version.task(&task);
        reply = ask(http, &interface, proof, method, params).await.map_err(|fault| match fault {
            // The message was taken: with other material it would be sent once more.
            CallFault::Unauthorized => failed(
                PeerFailure::Refused,
                "UNAUTHENTICATED",
                format!("the agent works on task {task}, and does not accept the material any more (HTTP status 401)"),
                "the message was taken; ask again for a new answer only",
            )
            .into(),
            fault => fault,
        })?;
    }
    if reply.has_failed {
        let message = format!("the agent has not done it ({}): {}", reply.state, reply.text);
        let mut error = failed(PeerFailure::Refused, "TASK_FAILED", message, "the text is that of the endpoint");
        error.details = Box::new(reply.content);
        return Err(error.into());
    }
    Ok(answer_of(reply.content, reply.text))
}

/// Reads the Agent Card. It is public as a rule; one below the entry that is not is asked for with the proof. That of the host is looked at
/// where the entry has none, and without the proof: it may be of another agent there.
async fn find_interface(http: &HttpCaller, entry: &Url, proof: &CallProof) -> Result<A2aInterface, CallFault> {
    let (own, of_host) = card_urls(entry);
    let mut answer = http.send((Method::GET, &own), &CallProof::None, HeaderMap::new(), None).await;
    if let Err(CallFault::Unauthorized) = answer {
        answer = http.send((Method::GET, &own), proof, HeaderMap::new(), None).await;
    }
    match (answer, of_host) {
        (Ok(answer), _) => allowed(parse_card(&answer, &own)?, entry, false),
        (Err(CallFault::Failed(error)), Some(of_host)) if error.code == NOT_FOUND => {
            let answer = http.send((Method::GET, &of_host), &CallProof::None, HeaderMap::new(), None).await?;
            allowed(parse_card(&answer, &of_host)?, entry, true)
        }
        (Err(fault), _) => Err(fault),
    }
}

fn parse_card(answer: &HttpAnswer, url: &Url) -> Result<A2aInterface, CallFault> {
    let card: Value =
        serde_json::from_slice(&answer.body).map_err(|_| not_of_protocol(PROTOCOL, format!("{url} is no JSON")))?;
    read_card(&card).map_err(|offered| not_spoken(&offered))
}

/// The interface, where it is at the origin of the entry, and for a card of the host at or below the entry: the secret goes nowhere else.
fn allowed(interface: A2aInterface, entry: &Url, is_of_host: bool) -> Result<A2aInterface, CallFault> {
    let (path, base) = (interface.url.path(), entry.path().trim_end_matches('/'));
    let is_within = path == entry.path() || path.strip_prefix(base).is_some_and(|rest| rest.starts_with('/'));
    if is_same_origin(&interface.url, entry) && (is_within || !is_of_host) {
        return Ok(interface);
    }
    let message = format!("the Agent Card leads to {}, and the entry of the document to {entry}", interface.url);
    let hint = "no secret goes to another origin or agent; its operator should publish one of them";
    Err(failed(PeerFailure::Unreachable, "OTHER_ORIGIN", message, hint).into())
}

fn not_spoken(offered: &str) -> CallFault {
    let message = format!("the Agent Card offers no JSON-RPC of A2A 1.0 or 0.3; it offers {offered}");
    failed(PeerFailure::NotSpoken, "NOT_SPOKEN", message, "call it with a client of its own binding").into()
}

/// One JSON-RPC request.
async fn ask(
    http: &HttpCaller,
    interface: &A2aInterface,
    proof: &CallProof,
    method: &str,
    params: Value,
) -> Result<A2aReply, CallFault> {
    let mut headers = HeaderMap::new();
    headers.insert(VERSION_HEADER, HeaderValue::from_static(interface.version.as_str()));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let answer = http.send((Method::POST, &interface.url), proof, headers, Some(&body)).await?;
    let mut answer: Value =
        serde_json::from_slice(&answer.body).map_err(|_| not_of_protocol(PROTOCOL, "its answer is no JSON"))?;
    if let Some(message) = answer["error"]["message"].as_str() {
        let message = format!("the agent refuses the message: {message}");
        let mut error = failed(PeerFailure::Refused, "CALL_REFUSED", message, "the text is that of the endpoint");
        error.details = Box::new(take_member(&mut answer, "error"));
        return Err(error.into());
    }
    read_reply(take_member(&mut answer, "result"))
        .ok_or_else(|| not_of_protocol(PROTOCOL, "its result is neither message nor task"))
}

impl A2aVersion {
    /// The version as its header has it.
    fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "1.0",
            Self::V03 => "0.3",
        }
    }

    /// The request with a text, whose answer may wait for the end of the task.
    fn message(self, id: &str, text: &str) -> (&'static str, Value) {
        let modes = json!(["text/plain", "application/json"]);
        match self {
            Self::V1 => {
                let message = json!({"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]});
                let wait = json!({"acceptedOutputModes": modes, "returnImmediately": false});
                ("SendMessage", json!({"message": message, "configuration": wait}))
            }
            Self::V03 => {
                let parts = json!([{"kind": "text", "text": text}]);
                let message = json!({"kind": "message", "messageId": id, "role": "user", "parts": parts});
                let wait = json!({"acceptedOutputModes": modes, "blocking": true});
                ("message/send", json!({"message": message, "configuration": wait}))
            }
        }
    }

    /// The question for a task.
    fn task(self, id: &str) -> (&'static str, Value) {
        match self {
            Self::V1 => ("GetTask", json!({"id": id})),
            Self::V03 => ("tasks/get", json!({"id": id})),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_card_leads_to_the_origin_of_the_entry_only() {
        let entry = Url::parse("https://a.example/agent").expect("a URL");
        for (url, by_own_card, by_card_of_host) in [
            ("https://a.example/agent", true, true),
            ("https://a.example/agent/rpc", true, true),
            ("https://a.example/agents", true, false),
            ("https://a.example:443/", true, false),
            ("http://a.example/agent", false, false),
            ("https://a.example:8443/agent", false, false),
            ("https://b.example/agent", false, false),
            ("https://a.example.b.example/agent", false, false),
        ] {
            let interface = A2aInterface { url: Url::parse(url).expect("a URL"), version: A2aVersion::V1 };
            assert_eq!(allowed(interface.clone(), &entry, false).is_ok(), by_own_card, "{url}");
            assert_eq!(allowed(interface, &entry, true).is_ok(), by_card_of_host, "{url}");
        }
    }
}
