//! The forms of a DID in filters. Pure.

use percent_encoding::percent_decode_str;

/// Returns the forms of a DID that a filter matches: percent-decoded, and unchanged, since a DID on the chain may
/// contain `%3A`. Empty for a text that is not a DID.
pub fn did_forms(text: &str) -> impl Iterator<Item = String> {
    let decoded = normalize_did(text);
    let unchanged = decoded.as_ref().map(|_| text.trim().to_owned()).filter(|form| Some(form) != decoded.as_ref());
    decoded.into_iter().chain(unchanged)
}

/// Returns a DID trimmed, and percent-decoded if that gives UTF-8; `None` for a text that is not a DID.
pub fn normalize_did(text: &str) -> Option<String> {
    let trimmed = text.trim();
    let decoded =
        percent_decode_str(trimmed).decode_utf8().map_or_else(|_| trimmed.to_owned(), |text| text.into_owned());
    let lower = decoded.to_ascii_lowercase();
    let (method, specific) = lower.strip_prefix("did:")?.split_once(':')?;
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_method && !specific.is_empty() && !decoded.contains(char::is_control)).then_some(decoded)
}
