//! The JSON that amino signers sign.

/// Canonical amino JSON: keys sorted at every level, no spaces, the HTML escapes of Go.
pub(crate) fn amino_json(value: &serde_json::Value) -> String {
    use serde_json::Value;
    match value {
        Value::Object(members) => {
            // Sorted here because feature unification may switch serde_json to insertion order.
            let mut keys: Vec<_> = members.keys().collect();
            keys.sort();
            let body: Vec<_> =
                keys.into_iter().map(|key| format!("{}:{}", amino_string(key), amino_json(&members[key]))).collect();
            format!("{{{}}}", body.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(amino_json).collect::<Vec<_>>().join(",")),
        Value::String(string) => amino_string(string),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn amino_string(string: &str) -> String {
    serde_json::Value::from(string)
        .to_string()
        .replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_characters_are_escaped_as_in_go() {
        assert_eq!(
            amino_json(&serde_json::json!({"b": "<&>\u{2028}", "a": 1})),
            r#"{"a":1,"b":"\u003c\u0026\u003e\u2028"}"#
        );
    }
}
