//! Scopes of access.

/// Scopes of one request or token.
pub const MAX_SCOPES: usize = 16;
/// Bytes of one scope.
const MAX_SCOPE_BYTES: usize = 64;

/// Whether a text is a scope: `[a-z0-9:._-]{1,64}`.
pub fn is_scope(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b":._-".contains(&byte);
    (1..=MAX_SCOPE_BYTES).contains(&text.len()) && text.bytes().all(is_allowed)
}

/// Reads the scopes of a token, which stand between single spaces; an empty text has none. `None` when one of them is no scope, is there
/// twice, or they are too many.
pub fn scope_list(text: &str) -> Option<Vec<String>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let scopes: Vec<String> = text.split(' ').take(MAX_SCOPES + 1).map(str::to_owned).collect();
    is_scope_set(&scopes).then_some(scopes)
}

/// Returns the scopes as a token has them.
pub fn scope_text(scopes: &[String]) -> String {
    scopes.join(" ")
}

/// Whether these are scopes, not too many, and each only once.
pub(super) fn is_scope_set(scopes: &[String]) -> bool {
    let is_first = |(place, scope): (usize, &String)| !scopes[..place].contains(scope);
    scopes.len() <= MAX_SCOPES && scopes.iter().all(|scope| is_scope(scope)) && scopes.iter().enumerate().all(is_first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_list_is_read_as_it_is_written() {
        let many = |count: usize| (0..count).map(|number| format!("s{number}")).collect::<Vec<_>>().join(" ");
        for (text, expected) in [
            (String::new(), Some(0)),
            ("mcp:read".into(), Some(1)),
            ("mcp:read mcp:tool:svc.idx.x_y-z".into(), Some(2)),
            (many(16), Some(16)),
            (many(17), None),
            ("a a".into(), None),
            ("a  b".into(), None),
            (" a".into(), None),
            ("A".into(), None),
            ("a\tb".into(), None),
            ("x".repeat(65), None),
            ("x".repeat(64), Some(1)),
        ] {
            let list = scope_list(&text);
            assert_eq!(list.as_ref().map(Vec::len), expected, "{text}");
            if let Some(list) = list {
                assert_eq!(scope_text(&list), text);
            }
        }
    }
}
