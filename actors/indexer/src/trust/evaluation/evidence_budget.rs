//! The limits of one evaluation.

use std::time::Duration;

use serde_json::Value;
use svc_net::json_memory;
use svc_trust::{Evidence, EvidenceFailure, RejectionCode};

/// Longest time that all web servers of one DID may take.
pub(super) const FETCH_TIME_LIMIT: Duration = Duration::from_secs(20);
/// Most fetches of one evaluation.
pub(super) const MAX_FETCHES: usize = 128;
/// Most memory of the evidence of one evaluation, in bytes.
const MAX_EVIDENCE_BYTES: usize = 8 * 1024 * 1024;

/// The resources that one evaluation has used.
pub(super) struct EvidenceBudget {
    /// Time that is left for web servers.
    pub fetch_time_left: Duration,
    /// Keys of the fetched evidence.
    pub fetched_keys: Vec<String>,
    /// Whether a limit refused evidence.
    pub is_exhausted: bool,
    memory_bytes: usize,
}

impl EvidenceBudget {
    /// Starts with the memory of evidence that was fetched earlier.
    pub fn new(evidence: &Evidence) -> Self {
        let documents = evidence.documents.values().flatten().map(|document| json_memory::of_value(document));
        let texts = evidence.resources.values().flatten().map(|text| json_memory::of_text(text.as_bytes()));
        Self {
            fetch_time_left: FETCH_TIME_LIMIT,
            fetched_keys: Vec::new(),
            is_exhausted: false,
            memory_bytes: documents.chain(texts).sum(),
        }
    }

    /// Charges the memory of a body and returns the body. Fails when the evidence takes more memory than allowed.
    pub fn charge(&mut self, body: Value) -> Result<Value, EvidenceFailure> {
        self.memory_bytes +=
            body.as_str().map_or_else(|| json_memory::of_value(&body), |text| json_memory::of_text(text.as_bytes()));
        if self.memory_bytes > MAX_EVIDENCE_BYTES {
            self.is_exhausted = true;
            let message = format!("the material of one DID takes more than {MAX_EVIDENCE_BYTES} bytes of memory");
            Err(EvidenceFailure { code: RejectionCode::TooLarge, message })
        } else {
            Ok(body)
        }
    }
}
