//! Bounds on messages of strangers. Each is checked before the work that it bounds.

/// Bytes of an envelope.
pub const MAX_MESSAGE_BYTES: usize = 5 * 1024 * 1024;
/// Levels of nesting, of the envelope and of the message inside.
pub const MAX_JSON_LEVELS: usize = 32;
/// Values in the message inside: a parsed value takes many times the bytes of its text.
pub const MAX_JSON_VALUES: usize = 50_000;
/// Bytes of the protected header in base64url, which holds one key id twice.
pub const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Recipients of one envelope, and DIDs in `to`.
pub const MAX_RECIPIENTS: usize = 8;
/// Bytes of a DID; the long form of did:peer:4 holds a document.
pub const MAX_DID_BYTES: usize = 8192;
/// Bytes of `id`, `thid` and `pthid`.
pub const MAX_ID_BYTES: usize = 128;
/// Bytes of the type of a message.
pub const MAX_TYPE_BYTES: usize = 256;
/// Bytes of the content of a basic message.
pub const MAX_BASIC_MESSAGE_BYTES: usize = 64 * 1024;
/// Attachments of one message.
pub const MAX_ATTACHMENTS: usize = 16;
/// Seconds that two clocks may differ.
pub const CLOCK_SKEW_SECONDS: i64 = 600;
