//! Estimates of the memory of parsed JSON. An object with one member takes about 500 bytes of memory for 8 bytes of text, so the
//! length of untrusted JSON does not bound its memory.

use serde_json::Value;

/// A member of an object, with its hash and its place in the table of hashes, which is at least half full.
const MEMBER_BYTES: usize = size_of::<(u64, String, Value)>() + 2 * (size_of::<usize>() + 1);
/// Smallest capacity of an object, and of an array. A full one doubles it.
const MIN_CAPACITY: usize = 4;

/// Estimates an upper bound of the bytes that the parsed text takes, without parsing it.
pub fn of_text(text: &[u8]) -> usize {
    let more = |sum: usize, byte: &u8| match byte {
        b'{' => sum + MIN_CAPACITY * MEMBER_BYTES,
        b'[' => sum + MIN_CAPACITY * size_of::<Value>(),
        // One more member, which doubles the capacity when it is full. An item of an array takes less.
        b',' => sum + 2 * MEMBER_BYTES,
        _ => sum,
    };
    text.iter().fold(text.len(), more)
}

/// Estimates the bytes that a value takes.
pub fn of_value(value: &Value) -> usize {
    size_of::<Value>() + heap_bytes(value)
}

/// Members that an object with `count` of them has room for: its table of hashes is at most seven eighths full, and its list of
/// members grows with the table.
fn capacity(count: usize) -> usize {
    let buckets = if count < 8 { count + 1 } else { count * 8 / 7 + 1 };
    buckets.next_power_of_two().max(MIN_CAPACITY)
}

fn heap_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(of_value).sum(),
        Value::Object(members) if members.is_empty() => 0,
        Value::Object(members) => {
            let inside = members.iter().map(|(key, value)| key.len() + heap_bytes(value));
            MEMBER_BYTES * capacity(members.len()) + inside.sum::<usize>()
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
        assert!(of_value(&json!({"a": 0})) >= 400);
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
