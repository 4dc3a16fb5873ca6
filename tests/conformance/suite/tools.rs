//! The tools of the suite. Their names and answers are those of the suite.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, JsonObject,
        LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ResourceContents, SamplingCapability,
        Tool,
    },
    object,
    service::RequestContext,
};
use serde_json::json;
use svc::mcp::error_result;
use svc_wire::error_envelope::{ErrorEnvelope, FailureCode};

use super::{
    input_requests,
    list_changes::{FixtureListChange, notify_change},
    media::{PNG, WAV},
    protocol::log_level_of,
    stream_cut,
};

/// Pause between two notifications of one call.
const PAUSE: Duration = Duration::from_millis(50);

static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let plain = [
        ("test_simple_text", "Answers with text"),
        ("test_image_content", "Answers with an image"),
        ("test_audio_content", "Answers with a sound"),
        ("test_embedded_resource", "Answers with a resource"),
        ("test_multiple_content_types", "Answers with text, an image and a resource"),
        ("test_tool_with_logging", "Logs three messages while it runs"),
        ("test_logging_tool", "Logs three messages while it runs, for a client that asked for them in the request"),
        ("test_tool_with_progress", "Tells its progress three times while it runs"),
        ("test_error_handling", "Always fails"),
        ("test_reconnection", "Loses the stream of its answer, and waits for the client to come back for it"),
        ("test_missing_capability", "Works only for clients that can sample"),
        ("test_trigger_tool_change", "Says that the list of tools has changed"),
        ("test_trigger_prompt_change", "Says that the list of prompts has changed"),
    ];
    let plain = plain.map(|(name, description)| Tool::new(name, description, object!({"type": "object"})));
    let asking = input_requests::TOOLS.map(|(name, description)| {
        // Two of the tools take a text from the caller.
        let properties = json!({"prompt": {"type": "string"}, "message": {"type": "string"}});
        Tool::new(name, description, object!({"type": "object", "properties": properties}))
    });
    let header = Tool::new("test_custom_header", "Takes an argument a header must repeat", header_schema());
    let dialect = Tool::new("json_schema_2020_12_tool", "Has a schema with the words of 2020-12", dialect_schema());
    let envelope = Tool::new("svc_test_envelope", "Fails with the envelope of a code", envelope_schema())
        .with_raw_output_schema(Arc::new(object!({
            "type": "object", "properties": {"needed": {"type": "string"}}, "required": ["needed"],
        })));
    plain.into_iter().chain(asking).chain([header, dialect, envelope]).collect()
});

/// The fixture tools. They are listed before all others, because the suite reads only one page of the list.
pub(super) fn tools() -> &'static [Tool] {
    &TOOLS
}

/// Calls a fixture tool; `None` for any other tool.
pub(super) async fn call(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let name = request.name.as_ref();
    if input_requests::TOOLS.iter().any(|(known, _)| *known == name) {
        return Some(input_requests::call(request, context).await);
    }
    let content = match name {
        "test_simple_text" => text_content("This is a simple text response for testing."),
        "test_image_content" => vec![ContentBlock::image(PNG, "image/png")],
        "test_audio_content" => vec![ContentBlock::audio(WAV, "audio/wav")],
        "test_embedded_resource" => {
            vec![embedded_resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")]
        }
        "test_multiple_content_types" => vec![
            ContentBlock::text("Multiple content types test:"),
            ContentBlock::image(PNG, "image/png"),
            embedded_resource("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ],
        "test_tool_with_logging" | "test_logging_tool" => {
            for message in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                log(context, message).await;
                tokio::time::sleep(PAUSE).await;
            }
            text_content("Three messages were logged.")
        }
        "test_tool_with_progress" => {
            for percent in [0.0, 50.0, 100.0] {
                notify_progress(context, percent).await;
                tokio::time::sleep(PAUSE).await;
            }
            text_content("The progress was reported three times.")
        }
        "test_error_handling" => {
            let content = text_content("This tool intentionally returns an error for testing");
            return Some(Ok(CallToolResult::error(content).into()));
        }
        // Clients check this result against the output schema of the tool, which no envelope fits.
        "svc_test_envelope" => {
            let wanted = request.arguments.as_ref().and_then(|arguments| arguments.get("code"));
            let code = wanted.and_then(|code| serde_json::from_value(code.clone()).ok())?;
            let details = json!({"tx_hash": "AB", "timeout_height": 7});
            let error = ErrorEnvelope::new(code, "the message", "do not repeat").with_details(details);
            return Some(Ok(error_result(&error).into()));
        }
        "test_reconnection" => {
            // A client can resume only a stream of which it has received an event.
            tokio::time::sleep(PAUSE).await;
            stream_cut::cut_stream(context);
            tokio::time::sleep(PAUSE * 10).await;
            text_content("The call outlived its stream.")
        }
        "test_missing_capability" => {
            if context.client_capabilities().is_none_or(|declared| declared.sampling.is_none()) {
                let mut required = ClientCapabilities::default();
                required.sampling = Some(SamplingCapability::default());
                return Some(Err(ErrorData::missing_required_client_capability(required)));
            }
            text_content("The client can sample.")
        }
        "test_trigger_tool_change" => {
            text_content(&format!("{} listeners were notified.", notify_change(FixtureListChange::Tools)))
        }
        "test_trigger_prompt_change" => {
            text_content(&format!("{} listeners were notified.", notify_change(FixtureListChange::Prompts)))
        }
        "test_custom_header" | "json_schema_2020_12_tool" => {
            text_content(&serde_json::Value::from(request.arguments.clone().unwrap_or_default()).to_string())
        }
        _ => return None,
    };
    Some(Ok(CallToolResult::success(content).into()))
}

fn text_content(text: &str) -> Vec<ContentBlock> {
    vec![ContentBlock::text(text)]
}

fn embedded_resource(uri: &str, mime: &str, text: &str) -> ContentBlock {
    ContentBlock::resource(ResourceContents::text(text, uri).with_mime_type(mime))
}

async fn log(context: &RequestContext<RoleServer>, message: &str) {
    if log_level_of(context).is_some_and(|wanted| wanted as u8 <= LoggingLevel::Info as u8) {
        let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, message.into());
        // A failed notification means that the client has disconnected.
        let _ = context.peer.notify_logging_message(message).await;
    }
}

async fn notify_progress(context: &RequestContext<RoleServer>, percent: f64) {
    if let Some(token) = context.meta.get_progress_token() {
        let progress = ProgressNotificationParam::new(token, percent).with_total(100.0);
        // A failed notification means that the client has disconnected.
        let _ = context.peer.notify_progress(progress).await;
    }
}

fn envelope_schema() -> JsonObject {
    let codes: Vec<&str> = FailureCode::ALL.iter().map(|code| code.as_str()).collect();
    object!({"type": "object", "properties": {"code": {"type": "string", "enum": codes}}, "required": ["code"]})
}

fn header_schema() -> JsonObject {
    object!({
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    })
}

fn dialect_schema() -> JsonObject {
    object!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}
