//! The shape of JSON: nesting and number of values of a text, counted before it is parsed; nesting and characters of a value.

use serde_json::Value;

use crate::{limits, refusal::Refusal};

/// Levels of nesting. The parser has bounded them, so that this ends.
pub fn levels(value: &Value) -> usize {
    match value {
        Value::Object(members) => 1 + members.values().map(levels).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}

/// Whether a name or a text has the character U+0000, which PostgreSQL does not store.
pub fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(members) => members.iter().any(|(name, value)| name.contains('\0') || has_nul(value)),
        _ => false,
    }
}

/// Checks both bounds in one pass over the bytes. The text need not be JSON: the parser that follows says so.
pub(crate) fn check(text: &[u8]) -> Result<(), Refusal> {
    let (mut levels, mut values) = (0usize, 1usize);
    let (mut in_string, mut is_escaped) = (false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                levels += 1;
                values += 1;
                if levels > limits::MAX_JSON_LEVELS {
                    return Err(Refusal::TooDeep);
                }
            }
            b']' | b'}' => levels = levels.saturating_sub(1),
            b',' => values += 1,
            _ => {}
        }
    }
    if values > limits::MAX_JSON_VALUES { Err(Refusal::TooManyValues) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_and_values_are_counted_outside_of_strings() {
        let nested = |levels: usize| format!("{}0{}", "[".repeat(levels), "]".repeat(levels));
        let many = |values: usize| format!("[{}0]", "0,".repeat(values));
        for (text, expected) in [
            (nested(limits::MAX_JSON_LEVELS), Ok(())),
            (nested(limits::MAX_JSON_LEVELS + 1), Err(Refusal::TooDeep)),
            (many(limits::MAX_JSON_VALUES - 2), Ok(())),
            (many(limits::MAX_JSON_VALUES), Err(Refusal::TooManyValues)),
            (format!("\"{}\"", "[,".repeat(limits::MAX_JSON_VALUES)), Ok(())),
            (format!("\"\\\"{}\"", "[".repeat(40)), Ok(())),
            (format!("\"\\\\\"{}", "[".repeat(40)), Err(Refusal::TooDeep)),
            ("]]]".to_owned(), Ok(())),
        ] {
            assert_eq!(check(text.as_bytes()), expected, "{:.40}", text);
        }
    }
}
