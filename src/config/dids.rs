//! DIDs in settings.

use svc_wire::syntax::is_web_did;

/// Parses a DID that can be resolved.
pub(super) fn parse_did(text: &str) -> Option<String> {
    is_web_did(text).then(|| text.to_owned())
}

/// Parses a list with commas of DIDs that can be resolved. Another separator makes the text no list: it would be one DID of nothing.
pub(super) fn parse_dids<C: FromIterator<String>>(text: &str) -> Option<C> {
    text.split(',').map(|did| parse_did(did.trim())).collect()
}
