//! Keys and index entries with several members, by name.
//!
//! The order of the members is the order of the entries in a table, and the order in which they enter the application hash.

use super::table::TableKey;

/// Key of a version of a governance framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VersionKey {
    /// Owner, if it is a corporation; otherwise 0.
    pub corporation_id: u64,
    /// Owner, if it is an ecosystem; otherwise 0.
    pub ecosystem_id: u64,
    pub version: u64,
}

/// Key of a document of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DocumentKey {
    pub version_id: u64,
    pub document_id: u64,
}

/// Key of the index in which repetition and overlap of participants are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ParticipantContextKey {
    pub schema_id: u64,
    pub role: u64,
    pub validator_id: u64,
    pub corporation_id: u64,
    pub participant_id: u64,
}

/// Key of an exchange rate: a pair of assets, each with its type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RatePairKey {
    pub base_type: i32,
    pub base: String,
    pub quote_type: i32,
    pub quote: String,
}

/// Index entry of a VS operator, which serves one corporation only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VsOperatorEntry {
    pub corporation_id: u64,
    pub authorization_id: u64,
}

macro_rules! keys_of_members {
    ($($key:ident { $($member:ident),* })*) => {$(
        impl TableKey for $key {
            fn write_key(&self, bytes: &mut Vec<u8>) {
                $(self.$member.write_key(bytes);)*
            }
        }
    )*};
}

keys_of_members! {
    VersionKey { corporation_id, ecosystem_id, version }
    DocumentKey { version_id, document_id }
    ParticipantContextKey { schema_id, role, validator_id, corporation_id, participant_id }
    RatePairKey { base_type, base, quote_type, quote }
    VsOperatorEntry { corporation_id, authorization_id }
}
