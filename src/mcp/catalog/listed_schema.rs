//! The form in which a schema is listed. Dispatch checks the strict form; the listed one has only the keywords that the converters of
//! hosts and frameworks take, and none that costs a model tokens and tells it nothing. Pure.

use serde_json::{Map, Value, json};

/// Deepest level of a listed schema. It ends the expansion of definitions that contain themselves.
const MAX_DEPTH: usize = 12;
/// Largest bound that is listed. Greater ones are limits of the number format.
const MAX_LISTED_BOUND: u64 = 100;
/// Keywords that are listed as they are.
const KEPT_KEYWORDS: [&str; 5] = ["description", "required", "const", "default", "contentMediaType"];

/// The side of a call that a schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaSide {
    /// Arguments: null stands for absence, so that no type says it.
    Input,
    /// An answer: null is a value.
    Output,
}

/// The listed form of a schema.
pub(super) fn listed_schema(schema: &Value, side: SchemaSide) -> Value {
    Listing { side, definitions: &schema["$defs"] }.schema(schema, 0)
}

struct Listing<'a> {
    side: SchemaSide,
    definitions: &'a Value,
}

impl Listing<'_> {
    fn schema(&self, schema: &Value, depth: usize) -> Value {
        let Some(keywords) = schema.as_object() else { return json!({}) };
        if depth > MAX_DEPTH {
            return json!({});
        }
        let referred = keywords.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix("#/$defs/"));
        if let Some(definition) = referred.and_then(|name| self.definitions.get(name)) {
            let mut listed = self.schema(definition, depth + 1);
            if let Some(description) = keywords.get("description") {
                listed["description"] = description.clone();
            }
            return listed;
        }
        let mut listed = Map::new();
        let types = Types::of(keywords);
        if let Some(one) = types.listed() {
            listed.insert("type".to_owned(), one.into());
        }
        for keyword in KEPT_KEYWORDS {
            if let Some(value) = keywords.get(keyword) {
                listed.insert(keyword.to_owned(), value.clone());
            }
        }
        self.add_bounds(keywords, &mut listed);
        if let Some(values) = keywords.get("enum").and_then(Value::as_array) {
            listed.entry("type").or_insert_with(|| "string".into());
            listed.insert("enum".to_owned(), listed_values(values).into());
        }
        let is_object = listed.get("type").is_some_and(|kind| kind == "object");
        // An object of any members is listed as its text: some model APIs refuse an object without members, others make it empty.
        if is_object && depth > 0 && self.side == SchemaSide::Input && !keywords.contains_key("properties") {
            listed.insert("type".to_owned(), "string".into());
            let described = listed.get("description").and_then(Value::as_str).unwrap_or_default();
            let description = format!("{described} As JSON text.").trim_start().to_owned();
            listed.insert("description".to_owned(), description.into());
        }
        let is_object = listed.get("type").is_some_and(|kind| kind == "object");
        if let Some(members) = keywords.get("properties").and_then(Value::as_object).filter(|_| is_object) {
            let members = members.iter().map(|(name, member)| (name.clone(), self.schema(member, depth + 1)));
            listed.insert("properties".to_owned(), Value::Object(members.collect()));
        } else {
            listed.shift_remove("required");
        }
        if let Some(items) = keywords.get("items").filter(|_| listed.get("type").is_some_and(|kind| kind == "array")) {
            listed.insert("items".to_owned(), self.schema(items, depth + 1));
        }
        if let Some(alternatives) = keywords.get("anyOf").and_then(Value::as_array) {
            // An alternative that only requires members is a rule between members, which dispatch checks.
            let typed = alternatives.iter().filter(|one| one.get("type").is_some());
            let listed_ones: Vec<Value> = typed.map(|one| self.schema(one, depth + 1)).collect();
            if !listed_ones.is_empty() {
                listed.insert("anyOf".to_owned(), listed_ones.into());
            }
        }
        match self.side {
            SchemaSide::Output => types.with_all(listed),
            SchemaSide::Input => Value::Object(listed),
        }
    }

    /// Whether a schema names the members of an object.
    fn has_members(&self, schema: &Value) -> bool {
        schema.get("$ref").is_some() || schema.get("properties").is_some()
    }

    fn add_bounds(&self, keywords: &Map<String, Value>, listed: &mut Map<String, Value>) {
        if self.side == SchemaSide::Output {
            return;
        }
        if let Some(format) = keywords.get("format").filter(|format| *format == "date-time") {
            listed.insert("format".to_owned(), format.clone());
        }
        let bound = |name: &str| keywords.get(name).and_then(Value::as_u64);
        if let Some(maximum) = bound("maximum").filter(|maximum| *maximum <= MAX_LISTED_BOUND) {
            listed.insert("maximum".to_owned(), maximum.into());
        }
        // An example shows the shape of a value that no type describes.
        let example = keywords.get("examples").and_then(|examples| examples.get(0));
        let has_shape = keywords.get("items").is_some_and(|items| self.has_members(items));
        if let Some(example) = example.filter(|example| !has_shape && (example.is_object() || example.is_array())) {
            let described = keywords.get("description").and_then(Value::as_str).unwrap_or_default();
            listed.insert("description".to_owned(), format!("{described} Example: {example}").into());
        }
    }
}

/// The types of a schema.
struct Types<'a> {
    named: Vec<&'a str>,
    is_nullable: bool,
}

impl<'a> Types<'a> {
    fn of(keywords: &'a Map<String, Value>) -> Self {
        let all: Vec<&str> = match keywords.get("type") {
            Some(Value::String(one)) => vec![one.as_str()],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let (nulls, named): (Vec<&str>, Vec<&str>) = all.into_iter().partition(|kind| *kind == "null");
        Self { named, is_nullable: !nulls.is_empty() }
    }

    /// The listed schema of an answer with each of its types as an alternative: a value of any of them may come.
    fn with_all(&self, mut listed: Map<String, Value>) -> Value {
        let first = self.listed();
        let others = self.named.iter().copied().filter(|kind| Some(*kind) != first);
        let others: Vec<Value> =
            others.chain(self.is_nullable.then_some("null")).map(|kind| json!({"type": kind})).collect();
        if others.is_empty() {
            return Value::Object(listed);
        }
        let description = listed.shift_remove("description");
        let mut alternatives = vec![Value::Object(listed)];
        alternatives.extend(others);
        let mut all = json!({"anyOf": alternatives});
        if let Some(description) = description {
            all["description"] = description;
        }
        all
    }

    /// The one type that is listed: the first one that is no list and no object, which are other ways to write the plain value.
    fn listed(&self) -> Option<&'a str> {
        let plain = self.named.iter().find(|kind| !matches!(**kind, "array" | "object"));
        plain.or_else(|| self.named.first()).copied()
    }
}

/// The texts of an enumeration, each value once. An enumeration of the chain has numbers beside its names, and names with their
/// prefix (`SCHEMA_MODE_OPEN`) beside the short ones; an order has `+id` beside `id`. The text `null` is a synonym of absence.
fn listed_values(values: &[Value]) -> Vec<Value> {
    let texts: Vec<&str> = values.iter().filter_map(Value::as_str).filter(|text| *text != "null").collect();
    let is_of_chain = texts.len() < values.len() && values.iter().any(Value::is_number);
    let is_prefixed = |text: &str| {
        (is_of_chain && texts.iter().any(|other| text.ends_with(&format!("_{other}"))))
            || text.strip_prefix('+').is_some_and(|plain| texts.contains(&plain))
    };
    texts.iter().filter(|text| !is_prefixed(text)).map(|text| Value::from(*text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(schema: &Value) -> Value {
        listed_schema(schema, SchemaSide::Input)
    }

    #[test]
    fn an_argument_has_one_type_and_no_keyword_that_only_dispatch_needs() {
        for (strict, listed) in [
            (
                json!({"type": ["integer", "string"], "minimum": 1, "maximum": u64::MAX, "pattern": "^[0-9]+$", "description": "Id."}),
                json!({"type": "integer", "description": "Id."}),
            ),
            (
                json!({"type": ["object", "integer", "string"], "properties": {"value": {"type": "integer"}}, "required": ["value"],
                       "additionalProperties": false, "description": "Fees."}),
                json!({"type": "integer", "description": "Fees."}),
            ),
            (json!({"type": ["string", "array", "object"]}), json!({"type": "string"})),
            (json!({"type": ["string", "integer"]}), json!({"type": "string"})),
            (json!({"type": ["string", "null"], "minLength": 1, "maxLength": 9}), json!({"type": "string"})),
            (json!({"type": "string", "format": "uuid"}), json!({"type": "string"})),
            (json!({"type": "string", "format": "date-time"}), json!({"type": "string", "format": "date-time"})),
            (json!({"type": "integer", "minimum": 1, "maximum": 50}), json!({"type": "integer", "maximum": 50})),
            (json!({"type": "string", "enum": ["id", "+id", "-id"]}), json!({"type": "string", "enum": ["id", "-id"]})),
            (json!({"enum": ["null", "none", "full"]}), json!({"type": "string", "enum": ["none", "full"]})),
            (
                json!({"enum": ["OPEN", "CLOSED", "MODE_OPEN", "MODE_CLOSED", 1, 2]}),
                json!({"type": "string", "enum": ["OPEN", "CLOSED"]}),
            ),
            (
                json!({"type": "string", "enum": ["ACCEPTED", "NOT_ACCEPTED"]}),
                json!({"type": "string", "enum": ["ACCEPTED", "NOT_ACCEPTED"]}),
            ),
            (
                json!({"type": "array", "items": {"type": "string", "pattern": "^/"}, "minItems": 1, "maxItems": 9}),
                json!({"type": "array", "items": {"type": "string"}}),
            ),
        ] {
            assert_eq!(input(&strict), listed, "{strict}");
        }
    }

    #[test]
    fn definitions_stand_where_they_are_used_and_recursion_ends() {
        let schema = json!({
            "type": "object",
            "properties": {"coins": {"type": "array", "items": {"$ref": "#/$defs/Coin"}, "description": "Coins.", "examples": [[{"amount": "5"}]]}},
            "$defs": {"Coin": {"type": "object", "properties": {"amount": {"type": "string"}, "of": {"$ref": "#/$defs/Coin"}}}},
        });
        let listed = input(&schema);
        let coin = &listed["properties"]["coins"]["items"];
        assert_eq!(coin["properties"]["amount"], json!({"type": "string"}));
        assert_eq!(listed["properties"]["coins"]["description"], "Coins.", "the members show the shape");
        let free = json!({"type": "object", "properties": {"claims": {"type": "object", "description": "Claims."}}});
        assert_eq!(
            input(&free)["properties"]["claims"],
            json!({"type": "string", "description": "Claims. As JSON text."})
        );
        let text = listed.to_string();
        assert!(!text.contains("$ref") && text.len() < 2_000, "{text}");
    }

    #[test]
    fn null_is_a_value_of_an_answer() {
        let schema = json!({"type": "object", "required": ["id"], "additionalProperties": false, "properties": {
            "id": {"type": "integer", "minimum": 1}, "did": {"type": ["string", "null"], "description": "DID."},
            "key": {"type": ["string", "integer"]},
        }});
        let expected = json!({"type": "object", "required": ["id"], "properties": {
            "id": {"type": "integer"}, "did": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "DID."},
            "key": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        }});
        assert_eq!(listed_schema(&schema, SchemaSide::Output), expected);
    }
}
