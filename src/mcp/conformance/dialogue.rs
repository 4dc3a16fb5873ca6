//! Fixtures that ask the client something before they answer. Clients with sessions are asked while the call runs; the
//! others get the questions as an answer, and call again.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, CreateMessageResult,
        ElicitResult, ElicitationAction, ElicitationCapability, GetPromptRequestParams, InputRequest, InputRequests,
        InputRequiredResult, InputResponses, JsonObject, ListRootsResult, RootsCapabilities, SamplingCapability,
        ServerRequest,
    },
    service::{RequestContext, ServiceError},
};
use serde_json::{Value, json};

use super::is_modern;

pub(super) const TOOLS: [(&str, &str); 13] = [
    ("test_sampling", "Has the client's model answer a prompt"),
    ("test_elicitation", "Asks the user for a name and an address"),
    ("test_elicitation_sep1034_defaults", "Asks the user, with defaults"),
    ("test_elicitation_sep1330_enums", "Asks the user to choose, in every form of choice"),
    ("test_streaming_elicitation", "Asks the user, without a request of its own on the stream"),
    ("test_input_required_result_elicitation", "Asks the user for a name"),
    ("test_input_required_result_sampling", "Asks the client's model a question"),
    ("test_input_required_result_list_roots", "Asks for the client's roots"),
    ("test_input_required_result_request_state", "Asks the user, and remembers it"),
    ("test_input_required_result_multiple_inputs", "Asks three things at once"),
    ("test_input_required_result_multi_round", "Asks twice"),
    ("test_input_required_result_tampered_state", "Asks the user, and believes only its own memory"),
    (FILTERED, "Asks only what the client declared it can answer"),
];
pub(super) const PROMPT: &str = "test_input_required_result_prompt";
const FILTERED: &str = "test_input_required_result_capabilities";

/// Rounds that may wait for answers. Of more the oldest are forgotten: clients may give up.
const MAX_PENDING: usize = 256;
/// What request states stand for. A client holds only a name for what is kept here, so there is nothing to forge.
static PENDING: Mutex<VecDeque<Pending>> = Mutex::new(VecDeque::new());

struct Pending {
    state: String,
    fixture: String,
    round: usize,
}

/// A request for a tool or a prompt that asks.
pub(super) struct Asking<'r> {
    fixture: &'r str,
    arguments: Option<&'r JsonObject>,
    answers: Option<&'r InputResponses>,
    state: Option<&'r str>,
}

impl<'r> From<&'r CallToolRequestParams> for Asking<'r> {
    fn from(request: &'r CallToolRequestParams) -> Self {
        let CallToolRequestParams { name, arguments, input_responses, request_state, .. } = request;
        Self {
            fixture: name,
            arguments: arguments.as_ref(),
            answers: input_responses.as_ref(),
            state: request_state.as_deref(),
        }
    }
}

impl<'r> From<&'r GetPromptRequestParams> for Asking<'r> {
    fn from(request: &'r GetPromptRequestParams) -> Self {
        let GetPromptRequestParams { name, arguments, input_responses, request_state, .. } = request;
        Self {
            fixture: name,
            arguments: arguments.as_ref(),
            answers: input_responses.as_ref(),
            state: request_state.as_deref(),
        }
    }
}

/// What follows a request.
pub(super) enum Turn {
    /// Questions.
    Ask(InputRequiredResult),
    /// The end, with this to say.
    Conclude(String),
}

pub(super) async fn call(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    Ok(match turn(request.into(), context).await? {
        Turn::Ask(questions) => questions.into(),
        Turn::Conclude(text) => CallToolResult::success(vec![ContentBlock::text(text)]).into(),
    })
}

pub(super) async fn turn(asking: Asking<'_>, context: &RequestContext<RoleServer>) -> Result<Turn, ErrorData> {
    let capabilities = context.client_capabilities().unwrap_or_default();
    let mut rounds = rounds(asking.fixture, asking.arguments)?;
    for questions in &mut rounds {
        if asking.fixture == FILTERED {
            questions.retain(|_, question| lacks(&capabilities, question).is_none());
        }
        if let Some(missing) = questions.values().find_map(|question| lacks(&capabilities, question)) {
            return Err(ErrorData::missing_required_client_capability(missing));
        }
    }
    if !is_modern(context) {
        return converse(asking.fixture, rounds, context).await.map(Turn::Conclude);
    }
    let is_stateful = remembers(asking.fixture);
    let (round, answers) = match (is_stateful, asking.state) {
        (false, _) => (0, asking.answers),
        (true, None) => (0, None),
        (true, Some(state)) => (redeem(state, asking.fixture)?, asking.answers),
    };
    let nothing = InputResponses::new();
    let answers = answers.unwrap_or(&nothing);
    let is_answered = |(key, question)| answers.get(key).is_some_and(|answer| suits(question, answer));
    let next = round + usize::from(rounds[round].iter().all(is_answered));
    if next == rounds.len() {
        return Ok(Turn::Conclude(conclusion(asking.fixture, answers)));
    }
    let state = is_stateful.then(|| issue(asking.fixture, next));
    Ok(Turn::Ask(InputRequiredResult::new(Some(rounds.swap_remove(next)), state)))
}

/// Asks everything while the call runs.
async fn converse(
    fixture: &str,
    rounds: Vec<InputRequests>,
    context: &RequestContext<RoleServer>,
) -> Result<String, ErrorData> {
    let mut answers = InputResponses::new();
    for (key, question) in rounds.into_iter().flatten() {
        let request = match question {
            InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
            InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
            InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
            _ => return Err(ErrorData::internal_error("a question of a kind unknown here", None)),
        };
        let answer = context.peer.send_request(request).await.map_err(|error| match error {
            ServiceError::McpError(error) => error,
            error => ErrorData::internal_error(format!("the client did not answer: {error}"), None),
        })?;
        answers.insert(key, serde_json::to_value(answer).map_err(unusable)?);
    }
    Ok(conclusion(fixture, &answers))
}

fn unusable(error: serde_json::Error) -> ErrorData {
    ErrorData::internal_error(format!("a fixture is not what the protocol asks for: {error}"), None)
}

/// The capability a question needs and the client did not declare.
fn lacks(declared: &ClientCapabilities, question: &InputRequest) -> Option<ClientCapabilities> {
    let mut missing = ClientCapabilities::default();
    match question {
        InputRequest::CreateMessage(_) if declared.sampling.is_none() => {
            missing.sampling = Some(SamplingCapability::default());
        }
        InputRequest::Elicitation(_) if declared.elicitation.is_none() => {
            missing.elicitation = Some(ElicitationCapability::default());
        }
        InputRequest::ListRoots(_) if declared.roots.is_none() => {
            missing.roots = Some(RootsCapabilities::default());
        }
        _ => return None,
    }
    Some(missing)
}

/// Whether this can be the answer to the question.
fn suits(question: &InputRequest, answer: &Value) -> bool {
    match question {
        InputRequest::CreateMessage(_) => serde_json::from_value::<CreateMessageResult>(answer.clone()).is_ok(),
        InputRequest::ListRoots(_) => serde_json::from_value::<ListRootsResult>(answer.clone()).is_ok(),
        _ => serde_json::from_value::<ElicitResult>(answer.clone()).is_ok_and(|answer| {
            answer.action != ElicitationAction::Accept || answer.content.is_some_and(|content| content.is_object())
        }),
    }
}

fn remembers(fixture: &str) -> bool {
    ["_request_state", "_multiple_inputs", "_multi_round", "_tampered_state"].iter().any(|end| fixture.ends_with(end))
}

fn issue(fixture: &str, round: usize) -> String {
    let state = uuid::Uuid::new_v4().to_string();
    let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    pending.truncate(MAX_PENDING - 1);
    pending.push_front(Pending { state: state.clone(), fixture: fixture.to_owned(), round });
    state
}

/// The round a state stands for. Each is good for one request of the fixture it was given for.
fn redeem(state: &str, fixture: &str) -> Result<usize, ErrorData> {
    let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    pending
        .iter()
        .position(|pending| pending.state == state && pending.fixture == fixture)
        .and_then(|index| pending.remove(index))
        .map(|pending| pending.round)
        .ok_or_else(|| ErrorData::invalid_params("the request state is not one this server gave for this call", None))
}

/// What a fixture asks, round by round.
fn rounds(fixture: &str, arguments: Option<&JsonObject>) -> Result<Vec<InputRequests>, ErrorData> {
    let said = |name: &str| arguments?.get(name)?.as_str();
    let name = || form("What is your name?", json!({"name": {"type": "string"}}));
    let confirmation = || form("Please confirm", json!({"ok": {"type": "boolean"}}));
    let roots = json!({"method": "roots/list"});
    let rounds = match fixture {
        "test_sampling" => vec![json!({"answer": sampling(said("prompt").unwrap_or("Hello"), 100)})],
        "test_elicitation" => {
            let fields = json!({
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"},
            });
            vec![json!({"answer": form(said("message").unwrap_or("Who are you?"), fields)})]
        }
        "test_elicitation_sep1034_defaults" => vec![json!({"answer": form("Please check", with_defaults())})],
        "test_elicitation_sep1330_enums" => vec![json!({"answer": form("Please choose", choices())})],
        "test_input_required_result_sampling" => {
            vec![json!({"capital_question": sampling("What is the capital of France?", 100)})]
        }
        "test_input_required_result_list_roots" => vec![json!({"client_roots": roots})],
        "test_streaming_elicitation"
        | "test_input_required_result_request_state"
        | "test_input_required_result_tampered_state" => vec![json!({"confirm": confirmation()})],
        "test_input_required_result_multiple_inputs" => {
            let greeting = sampling("Generate a greeting", 50);
            vec![json!({"user_name": name(), "greeting": greeting, "client_roots": roots})]
        }
        "test_input_required_result_multi_round" => vec![
            json!({"step1": form("Step 1: What is your name?", json!({"name": {"type": "string"}}))}),
            json!({"step2": form("Step 2: What is your favorite color?", json!({"color": {"type": "string"}}))}),
        ],
        FILTERED => vec![json!({"user_name": name(), "greeting": sampling("Generate a greeting", 50)})],
        PROMPT => {
            let fields = json!({"context": {"type": "string"}});
            vec![json!({"user_context": form("What context should the prompt use?", fields)})]
        }
        _ => vec![json!({"user_name": name()})],
    };
    rounds.into_iter().map(|round| serde_json::from_value(round).map_err(unusable)).collect()
}

fn sampling(prompt: &str, max_tokens: u32) -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": prompt}});
    json!({"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": max_tokens}})
}

/// Asks the user to fill in every field.
fn form(message: &str, fields: Value) -> Value {
    let required: Vec<&String> = fields.as_object().into_iter().flat_map(JsonObject::keys).collect();
    let schema = json!({"type": "object", "properties": fields, "required": required});
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}})
}

fn with_defaults() -> Value {
    json!({
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    })
}

fn choices() -> Value {
    let options = json!(["option1", "option2", "option3"]);
    let titled = |noun: &str| {
        let title = |place: &str| format!("{place} {noun}");
        json!([
            {"const": "value1", "title": title("First")},
            {"const": "value2", "title": title("Second")},
            {"const": "value3", "title": title("Third")},
        ])
    };
    json!({
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
    })
}

/// What a fixture says when all is answered.
fn conclusion(fixture: &str, answers: &InputResponses) -> String {
    let answer = |key: &str, pointer: &str| answers.get(key).and_then(|answer| answer.pointer(pointer));
    let text = |key: &str, pointer: &str| answer(key, pointer).and_then(Value::as_str).unwrap_or("nothing").to_owned();
    match fixture {
        "test_sampling" => format!("LLM response: {}", text("answer", "/content/text")),
        "test_elicitation" | "test_elicitation_sep1034_defaults" | "test_elicitation_sep1330_enums" => {
            let content = answer("answer", "/content").unwrap_or(&Value::Null);
            let start = if fixture == "test_elicitation" { "User response" } else { "Elicitation completed" };
            format!("{start}: action={}, content={content}", text("answer", "/action"))
        }
        "test_input_required_result_elicitation" => format!("Hello, {}!", text("user_name", "/content/name")),
        "test_input_required_result_request_state" => "state-ok".to_owned(),
        PROMPT => format!("Use this context: {}", text("user_context", "/content/context")),
        _ => format!("Answers: {}", json!(answers)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fixture_asks_what_the_protocol_can_ask() {
        for fixture in TOOLS.map(|(name, _)| name).into_iter().chain([PROMPT]) {
            let rounds = rounds(fixture, None).expect("questions");
            assert!(rounds.iter().all(|questions| !questions.is_empty()), "{fixture}");
        }
    }

    #[test]
    fn a_state_is_good_once_and_for_its_fixture_only() {
        let state = issue("a_round", 1);
        assert!(redeem(&state, "another").is_err());
        assert!(redeem(&format!("{state}-TAMPERED"), "a_round").is_err());
        assert_eq!(redeem(&state, "a_round").expect("the round"), 1);
        assert!(redeem(&state, "a_round").is_err());
    }

    #[test]
    fn an_answer_must_have_the_shape_of_its_question() {
        let rounds = rounds("test_input_required_result_elicitation", None).expect("questions");
        let question = &rounds[0]["user_name"];
        assert!(suits(question, &json!({"action": "accept", "content": {"name": "Alice"}})));
        assert!(suits(question, &json!({"action": "decline"})));
        assert!(!suits(question, &json!({"action": "accept"})));
        assert!(!suits(question, &json!(12345)));
    }
}
