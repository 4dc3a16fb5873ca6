//! The authentication code of an export: HMAC-SHA256 over every byte before its line, with a key that is derived from the store key.

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::super::sealing::{StoreKey, StoreKeys, begin_hmac};

/// Purpose of the key that authenticates a file.
const MAC_PURPOSE: &str = "svc-agent export, authentication code";
/// Purpose of the bytes by which a file names its store key.
const NAME_PURPOSE: &str = "svc-agent export, name of the store key";
/// Bytes of such a name: two keys have the same one by chance once in 2^64 times.
const NAME_BYTES: usize = 8;

/// Start of the last line, which no other line has.
pub(super) const MAC_LINE_START: &[u8] = b"{\"mac\":\"";
/// Length of the last line, with its end: the start, 32 bytes in base64, and `"}` with a line feed.
pub(super) const MAC_LINE_BYTES: usize = MAC_LINE_START.len() + 44 + 3;

/// The authentication code of the lines that were taken so far.
#[derive(Clone)]
pub(super) struct FileMac(Hmac<Sha256>);

impl FileMac {
    /// Begins a file that a store key authenticates.
    pub fn new(key: &StoreKey) -> Self {
        Self(begin_hmac(&key.derive(MAC_PURPOSE)))
    }

    /// Takes a line, with its end.
    pub fn add_line(&mut self, line: &[u8]) {
        self.0.update(line);
    }

    /// Returns the last line of the file, with its end.
    pub fn last_line(&self) -> Vec<u8> {
        let code = STANDARD.encode(self.0.clone().finalize().into_bytes());
        [MAC_LINE_START, code.as_bytes(), b"\"}\n"].concat()
    }

    /// Whether a line is the last one of the file. The time of the comparison does not depend on the bytes.
    pub fn matches(&self, line: &[u8]) -> bool {
        bool::from(self.last_line().ct_eq(line))
    }
}

/// Returns the name by which a file states the store key that authenticates it. It says nothing about the key.
pub(super) fn name_of_key(key: &StoreKey) -> String {
    STANDARD.encode(&key.derive(NAME_PURPOSE)[..NAME_BYTES])
}

/// Returns the store key with a name.
pub(super) fn find_key<'a>(keys: &'a StoreKeys, name: &str) -> Option<&'a StoreKey> {
    [Some(&keys.current), keys.previous.as_ref()].into_iter().flatten().find(|key| name_of_key(key) == name)
}

/// Whether the end of a file is its authentication code. A transfer that broke off ends otherwise. The code itself is verified by an
/// import, which has the store key.
pub fn has_export_end(tail: &[u8]) -> bool {
    let Some((before, line)) = tail.split_at_checked(tail.len().wrapping_sub(MAC_LINE_BYTES)) else { return false };
    before.ends_with(b"\n") && line.starts_with(MAC_LINE_START) && line.ends_with(b"\"}\n")
}
