//! The answer of an A2A agent, of 1.0 and 0.3: a message, or a task with its state. Pure.

use serde_json::Value;

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct A2aReply {
    /// The task, where the agent has made one.
    pub task: Option<String>,
    /// State of the task in the words of 0.3, such as `completed`; empty for a message.
    pub state: String,
    /// Whether the agent still works.
    pub is_working: bool,
    /// Whether the task has ended without being done.
    pub has_failed: bool,
    /// Its text.
    pub text: String,
    /// The message or task, whole.
    pub content: Value,
}

/// Reads a result; `None` when it is neither message nor task.
pub(super) fn read_reply(result: Value) -> Option<A2aReply> {
    // 1.0 names the kind by the member around it, 0.3 by a member of it; the answer about a task has neither in 1.0.
    let content =
        ["task", "message", "msg"].into_iter().find_map(|name| Some(&result[name]).filter(|one| one.is_object()));
    let content = content.unwrap_or(&result).clone();
    let parts = content["parts"].as_array();
    if let Some(parts) = parts {
        let text = text_of(parts);
        return Some(A2aReply {
            task: None,
            state: String::new(),
            is_working: false,
            has_failed: false,
            text,
            content,
        });
    }
    let state = content["status"]["state"].as_str()?;
    let state = state.strip_prefix("TASK_STATE_").unwrap_or(state).to_ascii_lowercase().replace('_', "-");
    let task = content["id"].as_str()?.to_owned();
    let artifacts = content["artifacts"].as_array().into_iter().flatten();
    let produced: Vec<String> =
        artifacts.map(|one| text_of(one["parts"].as_array().map(Vec::as_slice).unwrap_or_default())).collect();
    let said = text_of(content["status"]["message"]["parts"].as_array().map(Vec::as_slice).unwrap_or_default());
    let text = if produced.iter().all(String::is_empty) { said } else { produced.join("\n") };
    Some(A2aReply {
        is_working: matches!(state.as_str(), "submitted" | "working" | "unspecified" | "unknown"),
        has_failed: matches!(state.as_str(), "failed" | "canceled" | "rejected" | "auth-required"),
        task: Some(task),
        state,
        text,
        content,
    })
}

/// The texts of parts; data as JSON.
fn text_of(parts: &[Value]) -> String {
    let text = |part: &Value| match (part["text"].as_str(), &part["data"]) {
        (Some(text), _) => Some(text.to_owned()),
        (None, Value::Null) => None,
        (None, data) => Some(data.to_string()),
    };
    parts.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_and_tasks_of_both_versions_are_read() {
        let artifact = json!([{"parts": [{"text": "done"}, {"data": {"n": 1}}]}]);
        for (result, state, is_working, has_failed, text) in [
            (json!({"message": {"role": "ROLE_AGENT", "parts": [{"text": "hi"}]}}), "", false, false, "hi"),
            (json!({"kind": "message", "parts": [{"kind": "text", "text": "hi"}]}), "", false, false, "hi"),
            (
                json!({"task": {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": artifact}}),
                "completed",
                false,
                false,
                "done\n{\"n\":1}",
            ),
            (json!({"id": "t", "status": {"state": "TASK_STATE_WORKING"}}), "working", true, false, ""),
            (
                json!({"kind": "task", "id": "t", "status": {"state": "input-required",
                "message": {"parts": [{"kind": "text", "text": "which?"}]}}}),
                "input-required",
                false,
                false,
                "which?",
            ),
            (
                json!({"task": {"id": "t", "status": {"state": "TASK_STATE_AUTH_REQUIRED"}}}),
                "auth-required",
                false,
                true,
                "",
            ),
            (json!({"kind": "task", "id": "t", "status": {"state": "failed"}}), "failed", false, true, ""),
        ] {
            let reply = read_reply(result.clone()).expect("readable");
            assert_eq!(
                (reply.state.as_str(), reply.is_working, reply.has_failed, reply.text.as_str()),
                (state, is_working, has_failed, text),
                "{result}"
            );
        }
        for bad in
            [json!(null), json!({}), json!({"task": {"id": "t"}}), json!({"status": {"state": "completed"}}), json!([])]
        {
            assert_eq!(read_reply(bad.clone()), None, "{bad}");
        }
    }
}
