//! Messages as JSON texts.

/// Returns a message as JSON.
pub fn encode_message(message: &impl serde::Serialize) -> String {
    // The serialization of these plain structs cannot fail; clients ignore an empty object.
    serde_json::to_string(message).unwrap_or_else(|_| "{}".to_owned())
}
