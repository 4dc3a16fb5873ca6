//! The memory that somebody else's JSON takes. An object of a single member takes some 600 bytes for 8 of text, so that the length of a
//! text alone does not bound what reading it takes.

use serde_json::Value;

/// A node of a map, with room for eleven members.
const NODE: usize = 11 * (size_of::<String>() + size_of::<Value>());
/// Members of a node that is filled no more than it must be.
const FEWEST: usize = 6;
/// The least room an array takes for its items.
const ITEMS: usize = 4 * size_of::<Value>();

/// What reading a text takes, at most and about: counted without reading it.
pub fn of_text(text: &[u8]) -> usize {
    let more = |sum: usize, byte: &u8| match byte {
        b'{' => sum + NODE,
        b'[' => sum + ITEMS,
        // A further member, or a further item of a list that doubles when it is full.
        b',' => sum + NODE.div_ceil(FEWEST).max(2 * size_of::<Value>()),
        _ => sum,
    };
    text.iter().fold(text.len(), more)
}

/// What a value takes, about.
pub fn of_value(value: &Value) -> usize {
    size_of::<Value>() + behind(value)
}

fn behind(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(of_value).sum(),
        Value::Object(members) => {
            let inside = members.iter().map(|(key, value)| key.len() + behind(value));
            NODE * members.len().div_ceil(FEWEST) + inside.sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_kept_is_weighed_by_the_memory_it_takes() {
        assert!(of_value(&json!("x".repeat(1000))) >= 1000);
        assert!(of_value(&json!([[], [], []])) >= 4 * size_of::<Value>());
        assert!(of_value(&json!({"a": 0})) >= 600);
    }

    #[test]
    fn a_text_weighs_no_less_than_what_it_says() {
        let many: Vec<Value> = (0..500).map(|index| json!({"": index})).collect();
        let wide: Value = (0..500).map(|index| (index.to_string(), Value::Null)).collect();
        for value in [json!(many), wide, json!([0, 0, 0, 0, 0]), json!([[[[]]]]), json!({"a": {"b": ["c"]}})] {
            let (text, of_value) = (value.to_string(), of_value(&value));
            let of_text = of_text(text.as_bytes());
            assert!(of_text + size_of::<Value>() >= of_value && of_text <= 5 * of_value, "{of_text} {of_value}");
        }
    }
}
