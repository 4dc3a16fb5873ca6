//! Tool arguments as a person types them.

use anyhow::{Context, anyhow, bail};
use serde_json::{Map, Value};

/// Parses either one JSON object or words of the form `name=value`. The schema of an argument decides how its value is read: as
/// text where only text is allowed, otherwise as JSON. Fails on a word of another form.
pub(super) fn parse_arguments(words: &[String], schema: &Map<String, Value>) -> anyhow::Result<Map<String, Value>> {
    if let [only] = words
        && only.trim_start().starts_with('{')
    {
        return serde_json::from_str(only).map_err(|error| anyhow!("the arguments are not a JSON object: {error}"));
    }
    let mut arguments = Map::new();
    for word in words {
        let (name, value) =
            word.split_once('=').ok_or_else(|| anyhow!("{word:?} is neither name=value nor a JSON object"))?;
        let property = &schema.get("properties").map_or(&Value::Null, |all| &all[name]);
        arguments.insert(name.to_owned(), parse_argument(value, property));
    }
    Ok(arguments)
}

/// The words with one JSON object in place of `@FILE` or `-`. Fails when the file or standard input cannot be read.
pub(super) fn read_words(words: &[String]) -> anyhow::Result<Vec<String>> {
    let [only] = words else { return Ok(words.to_vec()) };
    let (text, source) = if only == "-" {
        (std::io::read_to_string(std::io::stdin()), "standard input".to_owned())
    } else if let Some(path) = only.strip_prefix('@') {
        (std::fs::read_to_string(path), path.to_owned())
    } else {
        return Ok(words.to_vec());
    };
    let text = text.with_context(|| format!("cannot read {source}"))?;
    if !text.trim_start().starts_with('{') {
        bail!("{source} has no JSON object");
    }
    Ok(vec![text])
}

fn parse_argument(text: &str, schema: &Value) -> Value {
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if types == ["string"] {
        return text.into();
    }
    match serde_json::from_str(text) {
        Ok(value) => value,
        // A list of texts may be typed without quotes.
        Err(_) if types == ["array"] => text.split(',').map(str::trim).collect::<Vec<_>>().into(),
        Err(_) => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_read_by_their_schema() {
        let schema = json!({"properties": {
            "id": {"type": ["integer", "string"]}, "did": {"type": "string"}, "archive": {"type": "boolean"},
            "msg_types": {"type": "array"}, "fees": {"type": ["object", "integer"]},
        }});
        let schema = schema.as_object().expect("an object");
        let words = ["id=7", "did=7", "archive=true", "msg_types=/a,/b", "fees={\"value\":1}", "other=x"];
        let read = parse_arguments(&words.map(str::to_owned), schema).expect("readable");
        let expected = json!({
            "id": 7, "did": "7", "archive": true, "msg_types": ["/a", "/b"], "fees": {"value": 1}, "other": "x",
        });
        assert_eq!(Value::Object(read), expected);
        let whole = parse_arguments(&["{\"id\": 7}".to_owned()], schema).expect("readable");
        assert_eq!(Value::Object(whole), json!({"id": 7}));
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), " {\"id\": 7}\n").expect("written");
        let named = format!("@{}", file.path().display());
        assert_eq!(read_words(std::slice::from_ref(&named)).expect("readable"), [" {\"id\": 7}\n"]);
        std::fs::write(file.path(), "id=7").expect("written");
        let no_object = read_words(&[named]).expect_err("no object").to_string();
        assert!(no_object.ends_with("has no JSON object"), "{no_object}");
        assert!(read_words(&["@/nowhere/at/all".to_owned()]).is_err());
        assert_eq!(read_words(&["id=7".to_owned()]).expect("as it is"), ["id=7"]);
        for bad in ["{\"id\": ", "id"] {
            assert!(parse_arguments(&[bad.to_owned()], schema).is_err(), "{bad}");
        }
    }
}
