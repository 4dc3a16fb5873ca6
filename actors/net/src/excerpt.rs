//! Excerpts of untrusted text for error messages.

/// Longest untrusted text in a message, in characters.
const MAX_EXCERPT_CHARS: usize = 256;

/// Returns the first 256 characters of an untrusted text, so that a message stays short.
pub(crate) fn excerpt(text: &str) -> String {
    truncate(text, MAX_EXCERPT_CHARS)
}

/// Returns the first `length` characters of a text, with an ellipsis when some are missing.
pub(crate) fn truncate(text: &str, length: usize) -> String {
    match text.char_indices().nth(length) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}
