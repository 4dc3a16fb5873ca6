//! `svc tools`: lists the tools of a running server, or explains one of them.

use anyhow::bail;
use rmcp::model::Tool;
use serde_json::Value;
use svc_wire::syntax::plain_text;

use super::{
    connection::ClientArgs,
    output::{print_json, print_line, render_table},
};
use crate::secrets::ProcessSecrets;

/// Prints the list of tools, or the description and the arguments of the tool `name`. Fails when the server does not list it.
pub(super) async fn run(name: Option<&str>, server: &ClientArgs, secrets: &mut ProcessSecrets) -> anyhow::Result<()> {
    let client = server.connect(secrets).await?;
    let tools = client.list_tools().await;
    client.close().await;
    let tools = tools?;
    let Some(name) = name else {
        if server.json {
            print_json(&tools)?;
            return Ok(());
        }
        let rows: Vec<_> =
            tools.iter().map(|tool| (tool.name.to_string(), tool.title.clone().unwrap_or_default())).collect();
        print_line(render_table(&rows).trim_end());
        return Ok(());
    };
    let Some(tool) = tools.iter().find(|tool| tool.name == name) else {
        let similar = similar_names(name, &tools);
        let hint = if similar.is_empty() {
            "`svc tools` lists them".to_owned()
        } else {
            format!("similar names: {}", similar.join(", "))
        };
        bail!("the server lists no tool {name:?}; {hint}");
    };
    if server.json {
        return print_json(tool);
    }
    print_line(describe_tool(tool).trim_end());
    Ok(())
}

/// The tool of a name, also on a server that lists names with underscores.
pub(super) fn find_listed<'a>(name: &str, tools: &'a [Tool]) -> Option<&'a Tool> {
    let dotted = |name: &str| name.replace('_', ".");
    tools.iter().find(|tool| dotted(&tool.name) == dotted(name))
}

/// At most five tool names that contain the last segment of a mistyped name.
pub(super) fn similar_names<'a>(name: &str, tools: &'a [Tool]) -> Vec<&'a str> {
    let wanted = name.to_lowercase();
    let last = wanted.rsplit('.').next().unwrap_or_default();
    let names = tools.iter().map(|tool| &*tool.name);
    names.filter(|known| !last.is_empty() && known.to_lowercase().contains(last)).take(5).collect()
}

/// A row of the table of arguments. The order of the fields is the order of the rows: required arguments come first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ArgumentRow {
    is_optional: bool,
    usage: String,
    description: String,
}

/// The description of a tool, and each argument with its type and a mark for a required one.
fn describe_tool(tool: &Tool) -> String {
    let mut text = format!("{}\n{}\n", tool.name, tool.description.as_deref().unwrap_or_default());
    let required: Vec<&str> = tool
        .input_schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let properties = tool.input_schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut rows: Vec<ArgumentRow> = properties
        .iter()
        .map(|(name, schema)| {
            let is_required = required.contains(&name.as_str());
            let mark = if is_required { "*" } else { " " };
            ArgumentRow {
                is_optional: !is_required,
                usage: format!("{mark} {name}=<{}>", type_label(schema)),
                description: schema["description"].as_str().unwrap_or_default().to_owned(),
            }
        })
        .collect();
    rows.sort();
    if !rows.is_empty() {
        text.push_str("\nArguments (* required):\n");
        let cells: Vec<_> = rows.into_iter().map(|row| (row.usage, row.description)).collect();
        text.push_str(&render_table(&cells));
    }
    text
}

fn type_label(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(plain_text).collect::<Vec<_>>().join("|");
    }
    match &schema["type"] {
        Value::Array(several) => several.iter().map(plain_text).collect::<Vec<_>>().join("|"),
        Value::String(one) => one.clone(),
        _ => "json".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_description_names_the_required_arguments_first() {
        let schema = json!({
            "type": "object", "required": ["b"],
            "properties": {"a": {"enum": ["x", 1], "description": "A."}, "b": {"type": "string", "description": "B."}},
        });
        let schema = Arc::new(schema.as_object().cloned().expect("an object"));
        let text = describe_tool(&Tool::new("svc.x", "Does it.", schema));
        let (first, second) = (text.find("* b=<string>").expect("b"), text.find("a=<x|1>").expect("a"));
        assert!(first < second, "{text}");
    }
}
