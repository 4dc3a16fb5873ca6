//! The rows of a list read as a caller sees them: the members that say something, and a note of the rest. Pure.

use serde_json::{Map, Value};

use crate::mcp::catalog::{ListShape, NextPage};

/// Longest text of a row in bytes; a longer one is cut.
const MAX_TEXT_BYTES: usize = 300;

/// The choices of a caller for the rows.
pub struct RowView<'a> {
    /// The list of the read.
    pub shape: &'a ListShape,
    /// Members to show; empty shows the members that say something.
    pub fields: Vec<&'a str>,
    /// Rows that the page has at most.
    pub limit: u64,
    /// The order of the rows, where the caller has chosen one.
    pub sort: Option<&'a str>,
    /// Whether the request leaves out governance frameworks, which the indexer would nest into each row.
    pub omits_frameworks: bool,
}

impl RowView<'_> {
    /// Shortens the rows of an answer and appends a note of the rest and of the arguments that show it.
    pub fn apply(&self, mut content: Value) -> Value {
        let next_page = self.next_page(&content);
        let Some(rows) = content.get_mut(self.shape.rows).and_then(Value::as_array_mut) else { return content };
        let mut has_omitted = false;
        for row in rows.iter_mut().filter(|row| row.is_object()) {
            *row = if self.fields.is_empty() {
                without_empty_members(row.take(), &mut has_omitted)
            } else {
                self.chosen_members(row.take())
            };
        }
        let omitted = has_omitted.then(|| {
            format!(
                "rows are without members that are null, 0 or empty, and texts end after {MAX_TEXT_BYTES} bytes: fields names the \
                 members to show, raw: true shows everything"
            )
        });
        let frameworks = self
            .omits_frameworks
            .then(|| "governance framework versions are left out: gf_data only_active or all shows them".to_owned());
        let notes: Vec<String> = [next_page, omitted, frameworks].into_iter().flatten().collect();
        if !notes.is_empty() {
            content["note"] = notes.join("; ").into();
        }
        content
    }

    fn chosen_members(&self, row: Value) -> Value {
        let member = |name: &&str| Some(((*name).to_owned(), row.get(*name)?.clone()));
        Value::Object(self.fields.iter().filter_map(member).collect())
    }

    /// The argument that asks for the next page, if there may be one.
    fn next_page(&self, content: &Value) -> Option<String> {
        let rows = content[self.shape.rows].as_array()?;
        let is_full = u64::try_from(rows.len()).is_ok_and(|count| count >= self.limit);
        let more = |argument: String| {
            format!(
                "there may be more than these {} rows: {argument} shows the next ones, or a greater limit",
                rows.len()
            )
        };
        match self.shape.next_page {
            NextPage::ById if is_full => {
                let id = rows.last().and_then(|row| id_of(&row[self.shape.key]));
                let is_ascending = self.sort.is_some_and(|sort| !sort.starts_with('-'));
                Some(more(match (id, is_ascending) {
                    (Some(id), true) => format!("min_id {}", id.saturating_add(1)),
                    (Some(id), false) => format!("max_id {id}"),
                    (None, _) => "max_id or min_id".to_owned(),
                }))
            }
            NextPage::ByMember { argument, member } => {
                let value = content.get(member).filter(|value| !value.is_null())?;
                Some(more(format!("{argument} {value}")))
            }
            NextPage::Unpaged if is_full => {
                Some(format!("there may be more than these {} rows: a greater limit shows them", rows.len()))
            }
            NextPage::ById | NextPage::Unpaged => None,
        }
    }
}

fn id_of(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// A row without members that are null, 0 or empty, and with texts cut. The inside of a member stays whole: there, null may be the new
/// value of a change, or a part of a message that is voted on.
fn without_empty_members(row: Value, has_omitted: &mut bool) -> Value {
    let Value::Object(members) = row else { return row };
    let mut kept = Map::new();
    for (name, member) in members {
        match member {
            empty if says_nothing(&empty) => *has_omitted = true,
            Value::String(text) if text.len() > MAX_TEXT_BYTES => {
                *has_omitted = true;
                let start = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
                kept.insert(name, format!("{start}… ({} bytes)", text.len()).into());
            }
            whole => {
                kept.insert(name, whole);
            }
        }
    }
    Value::Object(kept)
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const BY_ID: ListShape = ListShape { rows: "rows", key: "id", next_page: NextPage::ById };
    const BY_CURSOR: ListShape =
        ListShape { rows: "rows", key: "id", next_page: NextPage::ByMember { argument: "cursor", member: "next" } };

    fn view(shape: &ListShape, limit: u64) -> RowView<'_> {
        RowView { shape, fields: Vec::new(), limit, sort: None, omits_frameworks: false }
    }

    #[test]
    fn members_that_say_nothing_are_left_out_and_the_note_says_so() {
        let row = json!({"z": 7, "did": null, "count": 0, "list": [], "inner": {}, "archived": false, "changes": {"until": null}});
        let content = view(&BY_ID, 20).apply(json!({"rows": [row], "total": 0}));
        assert_eq!(content["rows"], json!([{"z": 7, "archived": false, "changes": {"until": null}}]));
        assert_eq!(content["total"], 0, "beside the rows everything stays");
        let note = content["note"].as_str().expect("a note");
        assert!(note.contains("raw: true") && !note.contains("more than"), "{note}");
        let bare = RowView { omits_frameworks: true, ..view(&BY_ID, 20) };
        let note = bare.apply(json!({"rows": [{"id": 7}]}))["note"].to_string();
        assert!(note.contains("gf_data"), "{note}");
        let whole = json!({"rows": [{"id": 7}]});
        assert_eq!(view(&BY_ID, 20).apply(whole.clone()), whole, "nothing was left out, so there is no note");
    }

    #[test]
    fn a_long_text_ends_at_a_character_and_tells_its_length() {
        let content = view(&BY_ID, 20).apply(json!({"rows": [{"text": "é".repeat(400)}]}));
        let text = content["rows"][0]["text"].as_str().expect("a text");
        assert!(text.starts_with("éé") && text.ends_with("… (800 bytes)") && text.len() < 320, "{text}");
    }

    #[test]
    fn chosen_fields_come_as_they_are_and_in_the_chosen_order() {
        let chosen = RowView { fields: vec!["did", "id", "missing"], ..view(&BY_ID, 20) };
        let content = chosen.apply(json!({"rows": [{"id": 0, "did": null, "other": 1}]}));
        assert_eq!(content.to_string(), r#"{"rows":[{"did":null,"id":0}]}"#);
    }

    #[test]
    fn a_full_page_names_the_argument_of_the_next_one() {
        let rows = json!({"rows": [{"id": 9}, {"id": "8"}]});
        let note = |view: RowView<'_>, content: &Value| view.apply(content.clone())["note"].as_str().map(str::to_owned);
        assert!(note(view(&BY_ID, 2), &rows).expect("full").contains("max_id 8"));
        let of_member = ListShape { key: "corporation_id", ..BY_ID };
        let by_member = json!({"rows": [{"corporation_id": 4}]});
        assert!(note(view(&of_member, 1), &by_member).expect("full").contains("max_id 4"));
        let ascending = RowView { sort: Some("+id"), ..view(&BY_ID, 2) };
        assert!(note(ascending, &rows).expect("full").contains("min_id 9"));
        assert_eq!(note(view(&BY_ID, 3), &rows), None);
        let paged = json!({"rows": [{"id": 9}], "next": "abc"});
        assert!(note(view(&BY_CURSOR, 20), &paged).expect("a cursor").contains(r#"cursor "abc""#));
        assert_eq!(note(view(&BY_CURSOR, 1), &json!({"rows": [{"id": 9}], "next": null})), None);
        let unpaged = ListShape { rows: "rows", key: "id", next_page: NextPage::Unpaged };
        assert!(note(view(&unpaged, 2), &rows).expect("full").contains("greater limit"));
    }

    #[test]
    fn rows_that_are_no_objects_and_answers_without_rows_stay() {
        for content in [json!({"rows": ["did:web:a"]}), json!({"error": 1}), json!([])] {
            assert_eq!(view(&BY_ID, 20).apply(content.clone()), content);
        }
    }
}
