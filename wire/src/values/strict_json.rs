//! JSON in which no object repeats a member: readers of a repeated one do not agree on its value.

use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value as Json, error::Category};

/// A text is no JSON, repeats a member, or is nested too deep.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StrictJsonError(String);

impl From<serde_json::Error> for StrictJsonError {
    fn from(error: serde_json::Error) -> Self {
        match error.classify() {
            // An error of this reader itself is about valid JSON.
            Category::Data => Self(error.to_string()),
            Category::Io | Category::Syntax | Category::Eof => Self(format!("is not JSON: {error}")),
        }
    }
}

/// Parses JSON with at most `max_levels` levels of nesting.
pub fn parse_strict_json(text: &[u8], max_levels: usize) -> Result<Json, StrictJsonError> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let found = StrictJson { levels: max_levels, max_levels }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(found)
}

/// Deserializes JSON in which no object repeats a member, with at most `levels` levels of nesting.
#[derive(Clone, Copy)]
struct StrictJson {
    levels: usize,
    max_levels: usize,
}

impl StrictJson {
    fn inner<E: Error>(self) -> Result<Self, E> {
        let levels = self.levels.checked_sub(1);
        let max_levels = self.max_levels;
        let levels = levels.ok_or_else(|| E::custom(format_args!("is nested in more than {max_levels} levels")))?;
        Ok(Self { levels, max_levels })
    }
}

impl<'de> DeserializeSeed<'de> for StrictJson {
    type Value = Json;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictJson {
    type Value = Json;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Json, E> {
        Ok(flag.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(number.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let inner = self.inner()?;
        let mut found = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            found.push(item);
        }
        Ok(found.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let inner = self.inner()?;
        let mut found = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if found.contains_key(&name) {
                let shown: String = name.chars().take(64).collect();
                return Err(A::Error::custom(format_args!("{shown:?} is given more than once")));
            }
            found.insert(name, members.next_value_seed(inner)?);
        }
        Ok(found.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_repeated_member_at_any_level_and_deep_nesting_are_refused() {
        assert_eq!(
            parse_strict_json(br#"{"a": [{"b": 1.5}, -1, null, true, "c"]}"#, 3),
            Ok(json!({"a": [{"b": 1.5}, -1, null, true, "c"]}))
        );
        for (text, expected) in [
            (r#"{"a": {"b": 1, "b": 2}}"#, "\"b\" is given more than once"),
            (r#"{"a": [[[]]]}"#, "is nested in more than 3 levels"),
            (r#"{"a": 1} {}"#, "is not JSON: trailing characters"),
            ("", "is not JSON: EOF"),
            (&"[".repeat(100_000), "is nested in more than 3 levels"),
        ] {
            let error = parse_strict_json(text.as_bytes(), 3).expect_err("refused").to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
