//! Estimates of the memory of parsed JSON. An object with one member takes about 600 bytes of memory for 8 bytes of text, so the
//! length of untrusted JSON does not bound its memory.

use serde_json::Value;

/// A node of a map, with room for eleven members.
const MAP_NODE_BYTES: usize = 11 * (size_of::<String>() + size_of::<Value>());
/// Members of a node with the least allowed fill.
const MIN_NODE_MEMBERS: usize = 6;
/// Smallest capacity of an array.
const MIN_ARRAY_BYTES: usize = 4 * size_of::<Value>();

/// Estimates an upper bound of the bytes that the parsed text takes, without parsing it.
pub fn of_text(text: &[u8]) -> usize {
    let more = |sum: usize, byte: &u8| match byte {
        b'{' => sum + MAP_NODE_BYTES,
        b'[' => sum + MIN_ARRAY_BYTES,
        // One more member, or one more item of an array, which doubles its capacity when it is full.
        b',' => sum + MAP_NODE_BYTES.div_ceil(MIN_NODE_MEMBERS).max(2 * size_of::<Value>()),
        _ => sum,
    };
    text.iter().fold(text.len(), more)
}

/// Estimates the bytes that a value takes.
pub fn of_value(value: &Value) -> usize {
    size_of::<Value>() + heap_bytes(value)
}

fn heap_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(of_value).sum(),
        Value::Object(members) => {
            let inside = members.iter().map(|(key, value)| key.len() + heap_bytes(value));
            MAP_NODE_BYTES * members.len().div_ceil(MIN_NODE_MEMBERS) + inside.sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_estimate_of_a_value_covers_its_text_and_its_nodes() {
        assert!(of_value(&json!("x".repeat(1000))) >= 1000);
        assert!(of_value(&json!([[], [], []])) >= 4 * size_of::<Value>());
        assert!(of_value(&json!({"a": 0})) >= 600);
    }

    #[test]
    fn the_estimate_of_a_text_is_no_less_than_that_of_its_value() {
        let many: Vec<Value> = (0..500).map(|index| json!({"": index})).collect();
        let wide: Value = (0..500).map(|index| (index.to_string(), Value::Null)).collect();
        for value in [json!(many), wide, json!([0, 0, 0, 0, 0]), json!([[[[]]]]), json!({"a": {"b": ["c"]}})] {
            let (text, of_value) = (value.to_string(), of_value(&value));
            let of_text = of_text(text.as_bytes());
            assert!(of_text + size_of::<Value>() >= of_value && of_text <= 5 * of_value, "{of_text} {of_value}");
        }
    }
}
