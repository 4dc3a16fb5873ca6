//! Parts that several answers share.

use serde_json::{Map, Value};

/// Returns an object with one member: an entity or a list under its key.
pub fn wrap_member(key: &str, value: impl Into<Value>) -> Value {
    Value::Object(Map::from_iter([(key.to_owned(), value.into())]))
}

/// Returns an amount of a coin in the form of trust answers: `<amount><denom>`.
pub fn format_coin(amount: impl std::fmt::Display, denom: &str) -> String {
    format!("{amount}{denom}")
}
