//! Text that a command prints for a person. It goes to standard output; logs go to standard error.

use std::io::{self, Write};

use serde_json::Value;
use svc_wire::syntax::plain_text;

/// Prints a line. A closed standard output is not an error.
pub(super) fn print_line(text: impl AsRef<str>) {
    let _ = writeln!(io::stdout().lock(), "{}", text.as_ref());
}

/// Rows of two columns, the first padded to its longest cell.
pub(super) fn render_table(rows: &[(String, String)]) -> String {
    let width = rows.iter().map(|(left, _)| left.chars().count()).max().unwrap_or(0);
    rows.iter().map(|(left, right)| format!("{left:<width$}  {right}\n")).collect()
}

/// Prints structured content as JSON, or as a table with a row per member and nested values as compact JSON.
pub(super) fn print_content(content: &Value, as_json: bool) -> anyhow::Result<()> {
    let text = if as_json { serde_json::to_string_pretty(content)? } else { render_table(&content_rows(content)) };
    print_line(text.trim_end());
    Ok(())
}

fn content_rows(content: &Value) -> Vec<(String, String)> {
    match content {
        Value::Object(members) => members.iter().map(|(key, value)| (key.clone(), plain_text(value))).collect(),
        other => vec![("value".to_owned(), plain_text(other))],
    }
}
