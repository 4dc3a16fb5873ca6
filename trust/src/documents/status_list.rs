//! The status of a credential by Bitstring Status List 1.0: the entry in the credential, and the bit in the list.

use std::io::Read;

use flate2::read::GzDecoder;
use multibase::Base;
use serde_json::Value;

use crate::{
    did_document::has_type,
    rejection::{RejectionCode, RejectionReason},
};

/// Entries of one credential.
const MAX_ENTRIES: usize = 4;
/// Least number of bits of a list: in a shorter one an entry would point out its holder.
const MIN_BITS: usize = 131_072;
/// Largest list when it is not compressed.
const MAX_LIST_BYTES: u64 = 2 * 1024 * 1024;

/// The meaning of a set bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusPurpose {
    /// The credential is revoked for good.
    Revocation,
    /// The credential does not count for a while.
    Suspension,
}

impl StatusPurpose {
    fn as_str(self) -> &'static str {
        match self {
            Self::Revocation => "revocation",
            Self::Suspension => "suspension",
        }
    }

    /// Code of a credential whose bit is set.
    pub(crate) fn code(self) -> RejectionCode {
        match self {
            Self::Revocation => RejectionCode::CredentialRevoked,
            Self::Suspension => RejectionCode::CredentialSuspended,
        }
    }
}

/// An entry in `credentialStatus`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatusEntry<'a> {
    pub purpose: StatusPurpose,
    pub index: usize,
    /// URL of the credential with the list.
    pub list_url: &'a str,
}

/// The entries of a credential. Fails on a status that cannot be evaluated: it may say that the credential does not count.
pub(crate) fn status_entries(credential: &Value) -> Result<Vec<StatusEntry<'_>>, RejectionReason> {
    let entries = match credential.get("credentialStatus") {
        None => return Ok(Vec::new()),
        Some(Value::Array(several)) => several.as_slice(),
        Some(one) => std::slice::from_ref(one),
    };
    if entries.len() > MAX_ENTRIES {
        let count = format!("{} entries of credentialStatus; at most {MAX_ENTRIES}", entries.len());
        return Err(RejectionReason::new(RejectionCode::TooLarge, count));
    }
    entries.iter().map(read_entry).collect()
}

fn read_entry(entry: &Value) -> Result<StatusEntry<'_>, RejectionReason> {
    let unknown = |detail: &str| RejectionReason::new(RejectionCode::StatusUnsupported, detail);
    if !has_type(entry, "BitstringStatusListEntry") {
        return Err(unknown(&format!("{}", entry["type"])));
    }
    if entry.get("statusSize").is_some_and(|size| size != 1) {
        return Err(unknown("statusSize is not 1"));
    }
    let purposes = [StatusPurpose::Revocation, StatusPurpose::Suspension];
    let purpose = purposes.into_iter().find(|purpose| entry["statusPurpose"] == purpose.as_str());
    let index = entry["statusListIndex"].as_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    Ok(StatusEntry {
        purpose: purpose.ok_or_else(|| unknown(&format!("statusPurpose {}", entry["statusPurpose"])))?,
        index: index
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| unknown("statusListIndex is no number in digits"))?,
        list_url: entry["statusListCredential"].as_str().ok_or_else(|| unknown("it names no statusListCredential"))?,
    })
}

/// The bit of an entry in the subject of a status list credential.
pub(crate) fn is_set(entry: &StatusEntry<'_>, subject: &Value) -> Result<bool, RejectionReason> {
    let invalid = |detail: &str| RejectionReason::new(RejectionCode::StatusListInvalid, detail);
    if !has_type(subject, "BitstringStatusList") {
        return Err(invalid("its subject is no BitstringStatusList"));
    }
    let has_purpose = match &subject["statusPurpose"] {
        Value::Array(several) => several.iter().any(|one| one == entry.purpose.as_str()),
        one => one == entry.purpose.as_str(),
    };
    if !has_purpose {
        return Err(invalid(&format!("it is not about {}", entry.purpose.as_str())));
    }
    let text = subject["encodedList"].as_str().ok_or_else(|| invalid("it has no encodedList"))?;
    let compressed = multibase::decode(text).ok().filter(|(base, _)| *base == Base::Base64Url).map(|(_, bytes)| bytes);
    let compressed = compressed.ok_or_else(|| invalid("encodedList is no base64url"))?;
    let mut list = Vec::new();
    let mut reader = GzDecoder::new(compressed.as_slice()).take(MAX_LIST_BYTES + 1);
    reader.read_to_end(&mut list).map_err(|_| invalid("encodedList is not compressed by gzip"))?;
    if list.len() as u64 > MAX_LIST_BYTES {
        return Err(RejectionReason::new(
            RejectionCode::TooLarge,
            format!("a status list above {MAX_LIST_BYTES} bytes"),
        ));
    }
    if list.len() * 8 < MIN_BITS {
        return Err(invalid(&format!("it has fewer than {MIN_BITS} entries")));
    }
    let byte = list.get(entry.index / 8).ok_or_else(|| invalid(&format!("it has no entry {}", entry.index)))?;
    Ok(byte >> (7 - entry.index % 8) & 1 == 1)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use serde_json::json;

    use super::*;

    /// A list of the least size in which the bits of `set` are set.
    pub(crate) fn encoded_list(bits: usize, set: &[usize]) -> String {
        let mut list = vec![0_u8; bits / 8];
        set.iter().for_each(|index| list[index / 8] |= 128 >> (index % 8));
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&list).expect("in memory");
        multibase::encode(Base::Base64Url, encoder.finish().expect("in memory"))
    }

    fn entry(index: &str) -> Value {
        json!({"credentialStatus": {"type": "BitstringStatusListEntry", "statusPurpose": "revocation",
            "statusListIndex": index, "statusListCredential": "https://issuer.example/status/1"}})
    }

    #[test]
    fn the_bit_of_the_index_decides() {
        let subject =
            |list: String| json!({"type": "BitstringStatusList", "statusPurpose": "revocation", "encodedList": list});
        let list = subject(encoded_list(MIN_BITS, &[0, 94_567]));
        for (index, expected) in [("0", true), ("1", false), ("94567", true), ("94566", false), ("131071", false)] {
            let credential = entry(index);
            let entries = status_entries(&credential).expect("an entry");
            assert_eq!(is_set(&entries[0], &list).expect("a bit"), expected, "{index}");
        }
        let credential = entry("7");
        let seventh = status_entries(&credential).expect("an entry")[0];
        let beyond = entry("131072");
        let beyond = status_entries(&beyond).expect("an entry")[0];
        let bomb = subject(encoded_list(MAX_LIST_BYTES as usize * 8 * 8, &[]));
        for (entry, subject, code) in [
            (seventh, json!({"type": "Other"}), RejectionCode::StatusListInvalid),
            (seventh, subject("zabc".to_owned()), RejectionCode::StatusListInvalid),
            (seventh, subject("uabc".to_owned()), RejectionCode::StatusListInvalid),
            (seventh, subject(encoded_list(MIN_BITS - 8, &[])), RejectionCode::StatusListInvalid),
            (beyond, list.clone(), RejectionCode::StatusListInvalid),
            (seventh, bomb, RejectionCode::TooLarge),
        ] {
            assert_eq!(is_set(&entry, &subject).expect_err("refused").code, code, "{entry:?}");
        }
    }

    #[test]
    fn a_status_that_cannot_be_evaluated_is_refused() {
        assert_eq!(status_entries(&json!({})).expect("no status"), []);
        let with = |name: &str, value: Value| {
            let mut credential = entry("7");
            credential["credentialStatus"][name] = value;
            credential
        };
        for credential in [
            with("type", json!("StatusList2021Entry")),
            with("statusPurpose", json!("message")),
            with("statusPurpose", Value::Null),
            with("statusSize", json!(2)),
            with("statusListIndex", json!(7)),
            with("statusListIndex", json!("-1")),
            with("statusListIndex", json!("99999999999999999999999999")),
            with("statusListCredential", Value::Null),
            json!({"credentialStatus": null}),
            json!({"credentialStatus": "revoked"}),
        ] {
            let refused = status_entries(&credential).expect_err("refused");
            assert_eq!(refused.code, RejectionCode::StatusUnsupported, "{credential}");
        }
    }
}
