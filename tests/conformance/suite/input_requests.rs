//! Fixtures that ask the client for input before they answer. A client with a session is asked during the call; another client
//! gets the questions as the answer and calls again.

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

use super::protocol::is_stateless;

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
    (CAPABILITY_FILTER_TOOL, "Asks only questions that the client has declared it can answer"),
];
pub(super) const PROMPT: &str = "test_input_required_result_prompt";
const CAPABILITY_FILTER_TOOL: &str = "test_input_required_result_capabilities";

/// Rounds that wait for answers. Beyond it the oldest are removed: a client may never answer.
const MAX_PENDING: usize = 256;
/// The pending rounds. A request state is only a random name of one of them, so a client cannot forge a round.
static PENDING: Mutex<VecDeque<PendingRound>> = Mutex::new(VecDeque::new());

struct PendingRound {
    state: String,
    fixture: String,
    round: usize,
}

/// A request for a tool or a prompt that needs input.
pub(super) struct FixtureRequest<'r> {
    fixture: &'r str,
    arguments: Option<&'r JsonObject>,
    answers: Option<&'r InputResponses>,
    state: Option<&'r str>,
}

impl<'r> From<&'r CallToolRequestParams> for FixtureRequest<'r> {
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

impl<'r> From<&'r GetPromptRequestParams> for FixtureRequest<'r> {
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

/// The next step of a request.
pub(super) enum FixtureTurn {
    /// The client is asked these questions.
    Ask(InputRequiredResult),
    /// The request ends with this text.
    Conclude(String),
}

/// Calls a tool that needs input.
pub(super) async fn call(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    Ok(match next_turn(request.into(), context).await? {
        FixtureTurn::Ask(questions) => questions.into(),
        FixtureTurn::Conclude(text) => CallToolResult::success(vec![ContentBlock::text(text)]).into(),
    })
}

/// The next step of a request for a tool or a prompt.
pub(super) async fn next_turn(
    asking: FixtureRequest<'_>,
    context: &RequestContext<RoleServer>,
) -> Result<FixtureTurn, ErrorData> {
    let capabilities = context.client_capabilities().unwrap_or_default();
    let mut rounds = fixture_rounds(asking.fixture, asking.arguments)?;
    for questions in &mut rounds {
        if asking.fixture == CAPABILITY_FILTER_TOOL {
            questions.retain(|_, question| missing_capability(&capabilities, question).is_none());
        }
        if let Some(missing) = questions.values().find_map(|question| missing_capability(&capabilities, question)) {
            return Err(ErrorData::missing_required_client_capability(missing));
        }
    }
    if !is_stateless(context) {
        return ask_in_call(asking.fixture, rounds, context).await.map(FixtureTurn::Conclude);
    }
    let is_stateful = keeps_state(asking.fixture);
    let (round, answers) = match (is_stateful, asking.state) {
        (false, _) => (0, asking.answers),
        (true, None) => (0, None),
        (true, Some(state)) => (redeem_state(state, asking.fixture)?, asking.answers),
    };
    let nothing = InputResponses::new();
    let answers = answers.unwrap_or(&nothing);
    let is_answered = |(key, question)| answers.get(key).is_some_and(|answer| is_answer_to(question, answer));
    let next = round + usize::from(rounds[round].iter().all(is_answered));
    if next == rounds.len() {
        return Ok(FixtureTurn::Conclude(final_text(asking.fixture, answers)));
    }
    let state = is_stateful.then(|| issue_state(asking.fixture, next));
    Ok(FixtureTurn::Ask(InputRequiredResult::new(Some(rounds.swap_remove(next)), state)))
}

/// Asks all questions during the call.
async fn ask_in_call(
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
        answers.insert(key, serde_json::to_value(answer).map_err(invalid_fixture)?);
    }
    Ok(final_text(fixture, &answers))
}

fn invalid_fixture(error: serde_json::Error) -> ErrorData {
    ErrorData::internal_error(format!("a fixture does not match the protocol: {error}"), None)
}

/// The capability that a question needs and the client has not declared.
fn missing_capability(declared: &ClientCapabilities, question: &InputRequest) -> Option<ClientCapabilities> {
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

/// Whether the value has the shape of an answer to the question.
fn is_answer_to(question: &InputRequest, answer: &Value) -> bool {
    match question {
        InputRequest::CreateMessage(_) => serde_json::from_value::<CreateMessageResult>(answer.clone()).is_ok(),
        InputRequest::ListRoots(_) => serde_json::from_value::<ListRootsResult>(answer.clone()).is_ok(),
        _ => serde_json::from_value::<ElicitResult>(answer.clone()).is_ok_and(|answer| {
            answer.action != ElicitationAction::Accept || answer.content.is_some_and(|content| content.is_object())
        }),
    }
}

fn keeps_state(fixture: &str) -> bool {
    ["_request_state", "_multiple_inputs", "_multi_round", "_tampered_state"].iter().any(|end| fixture.ends_with(end))
}

fn issue_state(fixture: &str, round: usize) -> String {
    let state = uuid::Uuid::new_v4().to_string();
    let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    pending.truncate(MAX_PENDING - 1);
    pending.push_front(PendingRound { state: state.clone(), fixture: fixture.to_owned(), round });
    state
}

/// Removes and returns the round of a request state. Fails for a state that was used before or belongs to another fixture.
fn redeem_state(state: &str, fixture: &str) -> Result<usize, ErrorData> {
    let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    pending
        .iter()
        .position(|pending| pending.state == state && pending.fixture == fixture)
        .and_then(|index| pending.remove(index))
        .map(|pending| pending.round)
        .ok_or_else(|| ErrorData::invalid_params("the request state is not one this server gave for this call", None))
}

/// The questions of a fixture, round by round.
fn fixture_rounds(fixture: &str, arguments: Option<&JsonObject>) -> Result<Vec<InputRequests>, ErrorData> {
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
        CAPABILITY_FILTER_TOOL => vec![json!({"user_name": name(), "greeting": sampling("Generate a greeting", 50)})],
        PROMPT => {
            let fields = json!({"context": {"type": "string"}});
            vec![json!({"user_context": form("What context should the prompt use?", fields)})]
        }
        _ => vec![json!({"user_name": name()})],
    };
    rounds.into_iter().map(|round| serde_json::from_value(round).map_err(invalid_fixture)).collect()
}

fn sampling(prompt: &str, max_tokens: u32) -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": prompt}});
    json!({"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": max_tokens}})
}

/// A question that asks the user to fill in every field.
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

/// The text of a fixture after all answers.
fn final_text(fixture: &str, answers: &InputResponses) -> String {
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
    fn every_question_of_a_fixture_is_valid_in_the_protocol() {
        for fixture in TOOLS.map(|(name, _)| name).into_iter().chain([PROMPT]) {
            let rounds = fixture_rounds(fixture, None).expect("questions");
            assert!(rounds.iter().all(|questions| !questions.is_empty()), "{fixture}");
        }
    }

    #[test]
    fn a_state_is_valid_once_and_for_its_fixture_only() {
        let state = issue_state("a_round", 1);
        assert!(redeem_state(&state, "another").is_err());
        assert!(redeem_state(&format!("{state}-TAMPERED"), "a_round").is_err());
        assert_eq!(redeem_state(&state, "a_round").expect("the round"), 1);
        assert!(redeem_state(&state, "a_round").is_err());
    }

    #[test]
    fn an_answer_must_have_the_shape_of_its_question() {
        let rounds = fixture_rounds("test_input_required_result_elicitation", None).expect("questions");
        let question = &rounds[0]["user_name"];
        assert!(is_answer_to(question, &json!({"action": "accept", "content": {"name": "Alice"}})));
        assert!(is_answer_to(question, &json!({"action": "decline"})));
        assert!(!is_answer_to(question, &json!({"action": "accept"})));
        assert!(!is_answer_to(question, &json!(12345)));
    }
}
