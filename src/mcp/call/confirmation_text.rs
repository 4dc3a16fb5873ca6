//! The text that a person confirms. Pure.
//!
//! The author of a message may be an agent that was misled, and may hide a part of it behind other text. Addresses, DIDs, ids, amounts
//! and message types therefore come first and are never shortened; every other long text or list is shown with its length and digest;
//! and a text that does not fit is refused, not cut.

use heck::ToSnakeCase;
use serde_json::Value;
use sha2::{Digest, Sha256};

use svc_wire::address::Address;

use crate::visible_text::visible;

/// Longest text of a question, in bytes. Hosts show it whole.
const MAX_TEXT_BYTES: usize = 16_000;
/// Longest text of a member that is not decisive; a longer one is shown with its length and digest.
const MAX_MEMBER_BYTES: usize = 500;
/// Entries of a list that is not decisive; a longer one is counted.
const MAX_ENTRIES: usize = 20;

/// A message that no question can show whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("what decides it takes {bytes} bytes to show, and a question has room for {MAX_TEXT_BYTES}")]
pub(super) struct TextTooLong {
    /// Bytes of its addresses, amounts and message types, with the rest in short form.
    pub bytes: usize,
}

/// Renders a message: the decisive members, then the others, a line each.
pub(super) fn render(head: &str, message: &Value, digest: &str) -> Result<String, TextTooLong> {
    let mut lines = Lines::default();
    lines.add("", message);
    let Lines { decisive, others } = lines;
    let mut text = format!("{}\n", visible(head));
    decisive.iter().for_each(|line| text.push_str(&format!("{line}\n")));
    if !decisive.is_empty() && !others.is_empty() {
        text.push('\n');
    }
    others.iter().for_each(|line| text.push_str(&format!("{line}\n")));
    text.push_str(&format!("\nsha256 of exactly this: {digest}"));
    if text.len() > MAX_TEXT_BYTES { Err(TextTooLong { bytes: text.len() }) } else { Ok(text) }
}

#[derive(Default)]
struct Lines {
    decisive: Vec<String>,
    others: Vec<String>,
}

impl Lines {
    /// Adds the lines of a value at a path such as `spend_limit[0].amount`.
    fn add(&mut self, path: &str, value: &Value) {
        match value {
            Value::Object(members) if is_coin(value) => {
                let text = |name: &str| members[name].as_str().unwrap_or_default();
                self.decisive.push(format!("{}: {}{}", visible(path), visible(text("amount")), visible(text("denom"))));
            }
            Value::Object(members) if members.is_empty() => {
                self.add_line(path, "{}".to_owned(), is_decisive_name(path))
            }
            Value::Object(members) => {
                for (name, member) in members {
                    let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    self.add(&below, member);
                }
            }
            Value::Array(entries) => self.add_list(path, entries),
            Value::String(text) => self.add_text(path, text),
            other => self.add_line(path, other.to_string(), is_decisive_name(path)),
        }
    }

    fn add_list(&mut self, path: &str, entries: &[Value]) {
        if entries.is_empty() {
            return self.add_line(path, "[]".to_owned(), is_decisive_name(path));
        }
        let is_short = entries.len() <= MAX_ENTRIES;
        if !is_short {
            let digest = hex::encode(Sha256::digest(Value::from(entries.to_vec()).to_string()));
            self.add_line(path, format!("{} entries, sha256 {digest}", entries.len()), false);
        }
        for (number, entry) in entries.iter().enumerate() {
            let mut below = Self::default();
            below.add(&format!("{path}[{number}]"), entry);
            // A decisive entry is shown wherever it stands in a long list.
            self.decisive.extend(below.decisive);
            if is_short {
                self.others.extend(below.others);
            }
        }
    }

    fn add_text(&mut self, path: &str, text: &str) {
        let is_decisive = is_decisive_text(text) || is_decisive_name(path);
        if is_decisive || text.len() <= MAX_MEMBER_BYTES {
            return self.add_line(path, visible(text), is_decisive);
        }
        let (begin, digest) = (&text[..text.floor_char_boundary(MAX_MEMBER_BYTES)], hex::encode(Sha256::digest(text)));
        let shown = format!("{}… ({} bytes in all, sha256 {digest})", visible(begin), text.len());
        self.add_line(path, shown, false);
    }

    fn add_line(&mut self, path: &str, shown: String, is_decisive: bool) {
        let line = if path.is_empty() { shown } else { format!("{}: {shown}", visible(path)) };
        if is_decisive { self.decisive.push(line) } else { self.others.push(line) }
    }
}

fn is_coin(value: &Value) -> bool {
    value.as_object().is_some_and(|members| {
        members.len() == 2 && ["amount", "denom"].iter().all(|name| members.get(*name).is_some_and(Value::is_string))
    })
}

/// Whether a text is an address, a DID or the type of a message. Prose that only begins like one is not.
fn is_decisive_text(text: &str) -> bool {
    if text.len() > MAX_MEMBER_BYTES || text.contains(char::is_whitespace) {
        return false;
    }
    let is_type = text.strip_prefix('/').unwrap_or(text).rsplit('.').next().is_some_and(|name| {
        name.starts_with("Msg") && name.len() > 3 && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    is_type || text.starts_with("did:") || Address::prefix_of(text).is_some()
}

/// Whether a member of a path is named like a party, an amount, a limit, a right or an end.
fn is_decisive_name(path: &str) -> bool {
    const WORDS: [&str; 18] = [
        "amount",
        "authority",
        "deposit",
        "did",
        "discount",
        "expiration",
        "fee",
        "feegrant",
        "grantee",
        "granter",
        "id",
        "limit",
        "operator",
        "period",
        "role",
        "threshold",
        "until",
        "weight",
    ];
    let is_decisive = |word: &str| WORDS.iter().any(|known| word == *known || word.strip_suffix('s') == Some(known));
    let names = path.split(['.', '[']);
    names.into_iter().any(|name| name == "@type" || name.to_snake_case().split('_').any(is_decisive))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ADDRESS: &str = "cosmos19rl4cm2hmr8afy4kldpxz3fka4jguq0auqdal4";

    fn shown(message: &Value) -> String {
        render("svc.ledger.de.grantOperatorAuthorization for corporation 1", message, "ab12").expect("it fits")
    }

    #[test]
    fn a_grantee_stands_first_whatever_is_written_before_it() {
        let message = json!({
            "note": "x".repeat(100_000), "spaces": "\n".repeat(400), "grantee": ADDRESS,
            "spend_limit": [{"denom": "usvc", "amount": "5000000"}],
            "msg_types": (0..400).map(|_| "text").collect::<Vec<_>>(), "@type": "/svc.de.v1.MsgGrantOperatorAuthorization",
        });
        let text = shown(&message);
        let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(place(ADDRESS) < place("xxx") && place("5000000usvc") < place("xxx"));
        assert!(place("/svc.de.v1.MsgGrantOperatorAuthorization") < place("xxx"));
        assert!(text.contains("100000 bytes in all") && text.contains("msg_types: 400 entries, sha256"));
        assert!(text.lines().count() < 20 && text.contains("sha256 of exactly this: ab12"), "{text}");
    }

    #[test]
    fn a_decisive_entry_of_a_long_list_is_shown_and_too_many_are_refused() {
        let mut types: Vec<Value> = (0..300).map(|number| json!(format!("note {number}"))).collect();
        types[250] = json!("/svc.pp.v1.MsgSlashParticipantTrustDeposit");
        let text = shown(&json!({"msg_types": types}));
        assert!(text.contains("msg_types[250]: /svc.pp.v1.MsgSlashParticipantTrustDeposit"), "{text}");
        let many: Vec<String> = (0..1_000).map(|number| format!("did:web:host-{number}.example")).collect();
        let refused = render("head", &json!({"dids": many}), "ab12").expect_err("too many");
        assert!(refused.bytes > MAX_TEXT_BYTES);
        let endless = json!({"did": format!("did:web:{}", "a".repeat(20_000))});
        assert!(render("head", &endless, "ab12").is_err(), "a decisive text is not shortened");
    }

    #[test]
    fn prose_that_begins_like_a_did_does_not_come_before_what_decides() {
        let text = shown(&json!({
            "about": format!("did:web:a {}", "x".repeat(300)), "docs": format!("did:web:{}", "y".repeat(9_000)),
            "fees": {"note": "z"}, "participantId": 7, "with_feegrant": true, "policy": {}, "weight": [],
        }));
        let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        for part in ["participantId: 7", "with_feegrant: true", "fees.note: z", "weight: []"] {
            assert!(
                place(part) < place("about: did:web:a x") && place(part) < place("docs: did:web:y"),
                "{part}: {text}"
            );
        }
        assert!(text.contains("9008 bytes in all") && text.contains("policy: {}"), "{text}");
    }

    #[test]
    fn characters_that_reorder_or_hide_text_are_escaped() {
        let text = shown(&json!({"name\u{202e}": "safe\u{202e}evil\r\n\u{200b}", "did": "did:web:a\u{2066}b"}));
        assert!(!text.contains(['\u{202e}', '\u{200b}', '\u{2066}', '\r']), "{text}");
        assert!(text.contains("\\u{202e}") && text.contains("did: did:web:a\\u{2066}b"), "{text}");
    }
}
