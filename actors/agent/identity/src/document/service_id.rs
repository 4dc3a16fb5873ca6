//! Ids of service entries: fragments of the agent's own DID.

use svc_agent_core::error::{Refusal, RefusalCode};

/// Longest fragment.
const MAX_FRAGMENT: usize = 128;

/// The id of an entry as a caller writes it: a fragment, with or without `#`, or a URL of the agent's own DID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceIdPath(String);

impl ServiceIdPath {
    /// Takes the text of a caller.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the whole id, of an entry that may exist.
    pub fn resolve(&self, did: &str) -> Result<String, Refusal> {
        let refused = |rule: &str| Refusal::of_member(RefusalCode::InvalidInput, "id", rule);
        let fragment = match self.0.split_once('#') {
            Some(("", fragment)) => fragment,
            Some((prefix, fragment)) if prefix == did => fragment,
            Some(_) => return Err(refused(&format!("only ids of {did} belong to this agent"))),
            None if self.0.starts_with("did:") => {
                return Err(refused(&format!("a DID without a fragment; allowed is a fragment, such as {did}#mcp")));
            }
            None => &self.0,
        };
        if fragment.is_empty() || fragment.len() > MAX_FRAGMENT || !is_fragment(fragment) {
            return Err(refused("allowed is a fragment of RFC 3986 with 1 to 128 characters, such as mcp or #mcp"));
        }
        Ok(format!("{did}#{fragment}"))
    }

    /// Returns the whole id of an entry that a caller adds: ids of the agent's own entries are reserved.
    pub fn resolve_new(&self, did: &str) -> Result<String, Refusal> {
        let id = self.resolve(did)?;
        if is_reserved(fragment_of(&id)) {
            let rule = "files, whois, admin-api, endpoint-access and ids that begin with vpr-schemas- or didcomm are the agent's own";
            return Err(Refusal::of_member(RefusalCode::InvalidInput, "id", rule));
        }
        Ok(id)
    }
}

/// Returns the fragment of an id.
pub(super) fn fragment_of(id: &str) -> &str {
    id.split_once('#').map_or(id, |(_, fragment)| fragment)
}

fn is_reserved(fragment: &str) -> bool {
    matches!(fragment, "files" | "whois" | "admin-api" | "endpoint-access")
        || fragment.starts_with("vpr-schemas-")
        || fragment.starts_with("didcomm")
}

/// Whether a text is a fragment of RFC 3986. Characters that need no escape are not escaped: readers take both forms for equal.
fn is_fragment(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_needed = |escape: &str| {
        let escaped =
            u8::from_str_radix(escape, 16).ok().filter(|_| escape.bytes().all(|byte| byte.is_ascii_hexdigit()));
        escaped.is_some_and(|byte| !byte.is_ascii_alphanumeric() && !b"-._~".contains(&byte))
    };
    bytes.iter().enumerate().all(|(at, byte)| match byte {
        b'%' => text.get(at + 1..at + 3).is_some_and(is_needed),
        _ => byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?".contains(byte),
    })
}

/// Makes the fragment of an entry without an id: the type in lower case, and a number if the fragment is in use.
pub(super) fn slug_of_type(kind: &str, is_in_use: impl Fn(&str) -> bool) -> String {
    let words = kind.split(|character: char| !character.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut slug = words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-");
    if slug.is_empty() {
        "service".clone_into(&mut slug);
    }
    if is_reserved(&slug) {
        slug.insert_str(0, "service-");
    }
    // The number must fit as well.
    slug.truncate(MAX_FRAGMENT - 8);
    let numbered = (2..).map(|number| format!("{slug}-{number}"));
    std::iter::once(slug.clone()).chain(numbered).find(|fragment| !is_in_use(fragment)).unwrap_or(slug)
}
