//! Text that a command prints for a person. It goes to standard output; logs go to standard error.

use std::{
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use serde::Serialize;
use serde_json::{Map, Value};
use svc_wire::syntax::plain_text;

use crate::visible_text::{is_treacherous, visible, visible_lines};

/// The form of printed content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputForm {
    /// A table that fits a terminal: the first columns, and the beginning of long cells.
    Table,
    /// A table with every column and whole cells.
    Wide,
    /// JSON.
    Json,
}

impl OutputForm {
    /// The form that the options of a command choose.
    pub(super) fn chosen(is_json: bool, is_wide: bool) -> Self {
        match (is_json, is_wide) {
            (true, _) => Self::Json,
            (false, true) => Self::Wide,
            (false, false) => Self::Table,
        }
    }
}

/// Columns and characters of a cell in a table that fits a terminal.
const MAX_COLUMNS: usize = 6;
const MAX_CELL_CHARACTERS: usize = 48;

/// Prints lines. Characters that a terminal would obey are escaped. A closed standard output is not an error.
pub(super) fn print_line(text: impl AsRef<str>) {
    print_text(&format!("{}\n", visible_lines(text.as_ref())));
}

/// Prints a value as JSON.
pub(super) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print_line(visible_json(serde_json::to_string_pretty(value)?.trim_end()));
    Ok(())
}

/// Whether standard output was closed by its reader, such as `head`.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Prints text as it is. A closed standard output is not an error.
pub(super) fn print_text(text: &str) {
    let mut output = io::stdout().lock();
    if output.write_all(text.as_bytes()).and_then(|()| output.flush()).is_err() {
        IS_CLOSED.store(true, Ordering::Relaxed);
    }
}

/// Whether nothing that is printed has a reader any more.
pub(super) fn is_output_closed() -> bool {
    IS_CLOSED.load(Ordering::Relaxed)
}

/// JSON text with the same characters escaped as JSON does.
pub(super) fn visible_json(text: &str) -> String {
    let escape = |one: char| {
        let mut units = [0; 2];
        one.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>()
    };
    // A line feed stands between members; inside a text, JSON has escaped it already.
    text.chars().map(|one| if one != '\n' && is_treacherous(one) { escape(one) } else { one.to_string() }).collect()
}

/// Rows of two columns, the first padded to its longest cell.
pub(super) fn render_table(rows: &[(String, String)]) -> String {
    let rows: Vec<(String, String)> = rows.iter().map(|(left, right)| (visible(left), visible(right))).collect();
    let width = rows.iter().map(|(left, _)| left.chars().count()).max().unwrap_or(0);
    rows.iter().map(|(left, right)| format!("{left:<width$}  {right}\n")).collect()
}

/// Prints structured content: as JSON, or as a table with a row per member. Lists of records become tables of their own.
pub(super) fn print_content(content: &Value, form: OutputForm) -> anyhow::Result<()> {
    if form == OutputForm::Json {
        return print_json(content);
    }
    print_line(render_content(content, form == OutputForm::Wide).trim_end());
    Ok(())
}

/// The members of content as rows, and behind them a table for each list of records.
fn render_content(content: &Value, is_wide: bool) -> String {
    let Value::Object(members) = content else {
        return render_table(&[("value".to_owned(), plain_text(content))]);
    };
    let (lists, others): (Vec<_>, Vec<_>) = members.iter().partition(|(_, value)| records(value).is_some());
    let row = |(name, value): (&String, &Value)| (name.clone(), plain_text(value));
    let mut text = render_table(&others.into_iter().map(row).collect::<Vec<_>>());
    for (name, value) in lists {
        let records = records(value).unwrap_or_default();
        let separator = if text.is_empty() { "" } else { "\n" };
        text = format!("{text}{separator}{} ({})\n{}", visible(name), records.len(), render_records(&records, is_wide));
    }
    text
}

/// The records of a list; `None` for a value that is no list of records, and for an empty list.
fn records(value: &Value) -> Option<Vec<&Map<String, Value>>> {
    let items = value.as_array().filter(|items| !items.is_empty())?;
    items.iter().map(Value::as_object).collect()
}

/// A table with a line per record and a column per member, in the order in which the members appear.
fn render_records(records: &[&Map<String, Value>], is_wide: bool) -> String {
    let mut columns: Vec<&String> = Vec::new();
    for name in records.iter().flat_map(|record| record.keys()) {
        if !columns.contains(&name) {
            columns.push(name);
        }
    }
    let omitted = if is_wide { 0 } else { columns.len().saturating_sub(MAX_COLUMNS) };
    columns.truncate(columns.len() - omitted);
    let cell = |value: Option<&Value>| {
        let text =
            value.filter(|value| !value.is_null()).map(plain_text).map(|text| visible(&text)).unwrap_or_default();
        let is_long = !is_wide && text.chars().count() > MAX_CELL_CHARACTERS;
        if is_long { text.chars().take(MAX_CELL_CHARACTERS - 1).chain(['…']).collect() } else { text }
    };
    let header: Vec<String> = columns.iter().map(|name| visible(name)).collect();
    let lines = records.iter().map(|record| columns.iter().map(|name| cell(record.get(*name))).collect());
    let table: Vec<Vec<String>> = std::iter::once(header).chain(lines).collect();
    let width = |index: usize| table.iter().map(|line| line[index].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    for line in &table {
        let cells: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}", width = *width)).collect();
        text.push_str(&format!("  {}\n", cells.join("  ").trim_end()));
    }
    if omitted > 0 {
        text.push_str(&format!("  (columns left out: {omitted}; --wide or --json shows all)\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_terminal_gets_no_character_that_it_would_obey() {
        assert_eq!(visible("did:web:a\u{202e}gpj\u{1b}[2J\n"), "did:web:a\\u{202e}gpj\\u{1b}[2J\\n");
        assert_eq!(visible("Zürich 東京"), "Zürich 東京");
        let value = json!({"did": "a\u{202e}b\u{200b}\u{e0041}"});
        let text = visible_json(&serde_json::to_string_pretty(&value).expect("serialises"));
        assert!(text.is_ascii(), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), value);
        assert!(!render_table(&[("k\u{1b}".to_owned(), "v\u{7}".to_owned())]).contains(['\u{1b}', '\u{7}']));
    }

    #[test]
    fn a_list_of_records_is_a_table_that_fits_or_is_whole() {
        let long = "x".repeat(80);
        let rows = json!([{"id": 1, "did": "did:web:a", "c": null, "d": {"e": 1}, "f": 1, "g": 1, "h": long}, {"id": 20, "i": 7}]);
        let content = json!({"ecosystems": rows, "note": "more"});
        let table = render_content(&content, false);
        assert_eq!(table.lines().next(), Some("note  more"));
        assert!(table.contains("ecosystems (2)") && table.contains("  id  did        c  d        f  g\n"), "{table}");
        assert!(
            table.contains("  1   did:web:a     {\"e\":1}  1  1\n") && table.contains("(columns left out: 2;"),
            "{table}"
        );
        let wide = render_content(&content, true);
        assert!(wide.contains(&long) && wide.contains("  i\n") && !wide.contains("left out"), "{wide}");
        assert_eq!(render_content(&json!({"rows": []}), false), "rows  []\n");
        assert_eq!(render_content(&json!([1]), false), "value  [1]\n");
    }
}
