//! The buffer of a body that is arriving.

use bytes::Bytes;

/// A body that is arriving. Its memory is reserved once, so that no growth exceeds the limit.
pub(super) struct BodyBuffer {
    pub(super) bytes: Vec<u8>,
    limit: usize,
}

impl BodyBuffer {
    pub(super) fn new(announced: Option<u64>, limit: usize) -> Self {
        let length = announced.and_then(|length| usize::try_from(length).ok()).unwrap_or(limit);
        Self { bytes: Vec::with_capacity(length.min(limit)), limit }
    }

    /// Appends a chunk; false when the body would exceed the limit.
    pub(super) fn try_append(&mut self, chunk: &[u8]) -> bool {
        let fits = chunk.len() <= self.limit - self.bytes.len();
        if fits {
            self.bytes.extend_from_slice(chunk);
        }
        fits
    }

    pub(super) fn into_bytes(mut self) -> Bytes {
        self.bytes.shrink_to_fit();
        self.bytes.into()
    }
}
