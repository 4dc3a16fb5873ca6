//! Documents of other parties: DID Documents, credentials, presentations, status lists, and their digests.

pub mod credential;
pub mod did_document;
pub mod digest;
pub(crate) mod status_list;

use serde_json::Value;
use svc_wire::strict_json::{StrictJsonError, parse_strict_json};

/// Deepest nesting, a little below that of the JSON library.
const MAX_LEVELS: usize = 120;

/// Parses a document. An object that repeats a member is refused: its signer and its reader could take different values.
pub(crate) fn parse_document(text: &str) -> Result<Value, StrictJsonError> {
    parse_strict_json(text.as_bytes(), MAX_LEVELS)
}
