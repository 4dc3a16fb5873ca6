//! Members of JSON that another party has written: it may be no object at all.

use serde_json::Value;

/// Takes a member out; null where there is none.
pub(crate) fn take_member(value: &mut Value, name: &str) -> Value {
    value.get_mut(name).map(Value::take).unwrap_or_default()
}

/// Takes a text out; `None` where there is none.
pub(crate) fn take_text(value: &mut Value, name: &str) -> Option<String> {
    match take_member(value, name) {
        Value::String(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_member_of_something_else_than_an_object_is_null() {
        for mut value in [json!([]), json!(1), json!("x"), json!(null), json!({"b": 1})] {
            assert_eq!(take_member(&mut value, "a"), Value::Null, "{value}");
        }
        let mut value = json!({"a": "x", "b": 1});
        assert_eq!((take_text(&mut value, "a"), take_text(&mut value, "b")), (Some("x".to_owned()), None));
    }
}
