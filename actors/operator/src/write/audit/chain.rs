//! The chain of an audit file: each line names the hash of the line before it. Pure.
//!
//! A line that was changed, removed or added breaks the chain at the next one. The hash of the last line is the head, and the journal
//! keeps it too, so that lines which were cut off at the end are missed. Lines of earlier releases name no hash, and count only before
//! the first that does.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The result of following the chain through a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct AuditChain {
    /// Lines.
    pub lines: u64,
    /// Lines of earlier releases, which name no hash.
    pub unchained: u64,
    /// Lines that are no record: those of a process that died within one.
    pub torn: u64,
    /// Hash of the last line, lower-case hex; empty for an empty file.
    pub head: String,
    /// The first line that does not follow from the one before it.
    pub broken_at: Option<u64>,
    /// Hash to be found.
    #[serde(skip)]
    known_head: Option<String>,
    /// Whether it was found.
    #[serde(skip)]
    has_known_head: bool,
}

/// The part of a line that chains it.
#[derive(Deserialize)]
struct ChainedLine {
    #[serde(default)]
    previous: Option<String>,
}

impl AuditChain {
    /// A chain in which the line with this hash, or the next line after it, is to be found.
    pub fn new(known_head: Option<&str>) -> Self {
        Self { known_head: known_head.map(str::to_owned), ..Self::default() }
    }

    /// The reason why the lines are not those that were written.
    pub fn problem(&self) -> Option<String> {
        if let Some(line) = self.broken_at {
            return Some(format!("line {line} does not follow from the line before it"));
        }
        let is_missed = self.known_head.is_some() && !self.has_known_head;
        is_missed.then(|| {
            "the newest line that the journal knows is missing: lines were cut off, or the file was replaced".to_owned()
        })
    }

    /// Follows the chain to the next line, without its line break.
    pub fn follow(&mut self, line: &[u8]) {
        self.lines += 1;
        match serde_json::from_slice::<ChainedLine>(line) {
            Ok(ChainedLine { previous: Some(previous) }) => {
                self.has_known_head |= self.known_head.as_ref() == Some(&previous);
                // The first line of a file continues the file before it.
                let is_first = self.lines == 1;
                if !is_first && previous != self.head {
                    self.broken_at = self.broken_at.or(Some(self.lines));
                }
            }
            Ok(ChainedLine { previous: None }) => {
                if self.lines > self.unchained + self.torn + 1 {
                    self.broken_at = self.broken_at.or(Some(self.lines));
                }
                self.unchained += 1;
            }
            Err(_) => self.torn += 1,
        }
        self.head = line_hash(line);
        self.has_known_head |= self.known_head.as_ref() == Some(&self.head);
    }
}

/// Hash of a line, lower-case hex.
pub fn line_hash(line: &[u8]) -> String {
    hex::encode(Sha256::digest(line))
}

/// A line of JSON that names the line before it. Characters that end a line or move the cursor in some reader are escaped.
pub fn chained_line(content: &Value, previous: &str) -> String {
    let mut line = serde_json::json!({ "previous": previous });
    if let (Some(line), Some(content)) = (line.as_object_mut(), content.as_object()) {
        line.extend(content.clone());
    }
    let mut text = String::new();
    for character in line.to_string().chars() {
        match character {
            '\u{7f}'..='\u{9f}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ => text.push(character),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chained(contents: &[Value]) -> Vec<String> {
        let mut previous = String::new();
        let mut chain = |content: &Value| {
            let line = chained_line(content, &previous);
            previous = line_hash(line.as_bytes());
            line
        };
        contents.iter().map(&mut chain).collect()
    }

    fn follow(lines: &[String]) -> AuditChain {
        let mut chain = AuditChain::default();
        lines.iter().for_each(|line| chain.follow(line.as_bytes()));
        chain
    }

    #[test]
    fn a_line_that_was_changed_removed_added_or_moved_breaks_the_chain() {
        let lines =
            chained(&[json!({"record": "a"}), json!({"record": "b"}), json!({"record": "c"}), json!({"record": "d"})]);
        let whole = follow(&lines);
        assert_eq!((whole.lines, whole.broken_at, whole.head.clone()), (4, None, line_hash(lines[3].as_bytes())));
        let edit = |change: fn(&mut Vec<String>)| {
            let mut edited = lines.clone();
            change(&mut edited);
            follow(&edited)
        };
        assert_eq!(edit(|lines| lines[1] = lines[1].replace("\"b\"", "\"x\"")).broken_at, Some(3));
        assert_eq!(edit(|lines| drop(lines.remove(1))).broken_at, Some(2));
        assert_eq!(edit(|lines| lines.swap(1, 2)).broken_at, Some(2));
        assert_eq!(edit(|lines| lines.insert(2, lines[1].clone())).broken_at, Some(3));
        assert_eq!(edit(|lines| lines.insert(2, "{\"record\":\"x\"}".to_owned())).broken_at, Some(3));
        // Lines that are cut off are missed by the journal, which has the head.
        let shorter = edit(|lines| lines.truncate(3));
        assert!(shorter.broken_at.is_none() && shorter.head != whole.head);
        assert_eq!(edit(|lines| drop(lines.remove(0))).broken_at, None, "the first line continues the file before it");
    }

    #[test]
    fn lines_of_an_earlier_release_come_first_and_a_torn_line_is_one_of_the_chain() {
        let earlier = ["{\"record\":\"begun\"}".to_owned(), "{\"record\":\"comp".to_owned()];
        let mut lines = earlier.to_vec();
        lines.push(chained_line(&json!({"record": "new"}), &line_hash(earlier[1].as_bytes())));
        let chain = follow(&lines);
        assert_eq!((chain.lines, chain.unchained, chain.torn, chain.broken_at), (3, 1, 1, None));
    }

    #[test]
    fn no_text_ends_its_line_in_any_reader() {
        let text = "a\n\r\u{85}\u{2028}\u{2029}\u{1b}[2J\u{202e}\u{9b}\u{7f}\u{feff}é😀";
        let line = chained_line(&json!({"text": text}), "");
        assert!(
            line.chars().all(|one| !one.is_control() && !"\u{2028}\u{2029}\u{202e}\u{feff}".contains(one)),
            "{line}"
        );
        assert!(line.contains("é😀"));
        let read: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(read["text"], text);
    }
}
