//! An evaluation that waits for a web server. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_trust::{EvidenceFailure, EvidenceRequest};
use url::Url;

use super::try_schedule::{EndedTry, next_try_at};
use crate::{
    store::{OpenRow, iso_millis},
    trust::round::host_of,
};

/// A request that failed for a reason that may pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedRequest {
    pub request: EvidenceRequest,
    pub failure: EvidenceFailure,
}

/// An evaluation that waits for a web server. Its other evidence is in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenEvaluation {
    pub did: String,
    /// Evaluated height.
    pub height: u64,
    /// Time of its block, nanoseconds since the epoch.
    pub block_time: i64,
    /// First failure, milliseconds since the epoch.
    pub since: i64,
    /// Number of tries, the first one included.
    pub tries: u32,
    /// Milliseconds since the epoch.
    pub next_try_at: i64,
    /// The failed requests. The outcome depends on the first one.
    pub failed: Vec<FailedRequest>,
}

/// The tries of an evaluation before the one that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EarlierTries {
    /// First failure, milliseconds since the epoch.
    pub since: i64,
    pub tries: u32,
}

/// An evaluation that is to stay open.
#[derive(Debug)]
pub struct UnfinishedEvaluation<'a> {
    pub did: &'a str,
    pub height: u64,
    /// Nanoseconds since the epoch.
    pub block_time: i128,
    /// All requests that failed for a reason that may pass.
    pub failed: &'a BTreeMap<EvidenceRequest, EvidenceFailure>,
    /// Those of them on which the outcome depends.
    pub unanswered: &'a BTreeSet<EvidenceRequest>,
    pub earlier: EarlierTries,
}

impl OpenEvaluation {
    /// Opens an evaluation after a try that ended `now`, or keeps it open. `limit` is the longest time that it stays open, in
    /// milliseconds; `chance` is a number from -100 to 100.
    pub fn after_try(unfinished: &UnfinishedEvaluation<'_>, now: i64, limit: i64, chance: i64) -> Self {
        let (first, rest): (Vec<_>, Vec<_>) =
            unfinished.failed.iter().partition(|(request, _)| unfinished.unanswered.contains(*request));
        let failed: Vec<FailedRequest> = first
            .into_iter()
            .chain(rest)
            .map(|(request, failure)| FailedRequest { request: request.clone(), failure: failure.clone() })
            .collect();
        let asked = |failed: &FailedRequest| failed.failure.transient.as_ref()?.retry_after;
        let EarlierTries { since, tries } = unfinished.earlier;
        let ended = EndedTry { tries: tries + 1, now, retry_after: failed.iter().filter_map(asked).max() };
        Self {
            did: unfinished.did.to_owned(),
            height: unfinished.height,
            block_time: i64::try_from(unfinished.block_time).unwrap_or_default(),
            since,
            tries: ended.tries,
            next_try_at: next_try_at(ended, since.saturating_add(limit), chance),
            failed,
        }
    }

    /// Returns the failed requests.
    pub fn failed_requests(&self) -> BTreeSet<EvidenceRequest> {
        self.failed.iter().map(|failed| failed.request.clone()).collect()
    }

    /// Whether it waits for one of these hosts.
    pub fn waits_for(&self, hosts: &BTreeSet<String>) -> bool {
        self.failed.iter().any(|failed| hosts.contains(&request_host(&failed.request)))
    }

    /// Returns the hosts of the failed requests.
    pub fn hosts(&self) -> BTreeSet<String> {
        self.failed.iter().map(|failed| request_host(&failed.request)).collect()
    }

    /// Returns the failures of the DID's own web server.
    pub fn own_failures(&self) -> impl Iterator<Item = &FailedRequest> {
        let own = request_host(&EvidenceRequest::Document(self.did.clone()));
        self.failed.iter().filter(move |failed| request_host(&failed.request) == own)
    }

    /// Returns the row of the store.
    pub fn to_row(&self) -> OpenRow {
        OpenRow { did: self.did.clone(), since: self.since, body: serde_json::to_value(self).unwrap_or_default() }
    }

    /// Reads a row of the store. `None` for a row of another form.
    pub fn from_row(row: &OpenRow) -> Option<Self> {
        serde_json::from_value(row.body.clone()).ok()
    }

    /// Returns the evaluation as answers show it.
    pub fn pending_json(&self) -> Value {
        let first = self.failed.first();
        let cause = first.and_then(|failed| failed.failure.transient.as_ref());
        let url = cause.and_then(|cause| cause.url.clone()).or_else(|| first.map(|failed| text_of(&failed.request)));
        let mut pending = json!({
            "since": iso_millis(i128::from(self.since) * 1_000_000),
            "reason": first.map(|failed| failed.failure.code),
            "url": url, "tries": self.tries,
            "nextTryAt": iso_millis(i128::from(self.next_try_at) * 1_000_000),
        });
        if let Some(status) = cause.and_then(|cause| cause.status) {
            pending["status"] = status.into();
        }
        pending
    }
}

fn text_of(request: &EvidenceRequest) -> String {
    match request {
        EvidenceRequest::Document(text)
        | EvidenceRequest::Resource(text)
        | EvidenceRequest::Participants(text)
        | EvidenceRequest::Digest(text) => text.clone(),
        EvidenceRequest::Schema(id) => id.to_string(),
    }
}

/// Returns the host that answers a request, with its port.
pub fn request_host(request: &EvidenceRequest) -> String {
    match request {
        EvidenceRequest::Document(did) => host_of(did).replace("%3A", ":").replace("%3a", ":"),
        EvidenceRequest::Resource(text) => {
            let url = Url::parse(text).ok();
            let host = url.as_ref().and_then(|url| {
                let host = url.host_str()?;
                Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
            });
            host.unwrap_or_else(|| text.clone())
        }
        EvidenceRequest::Participants(_) | EvidenceRequest::Schema(_) | EvidenceRequest::Digest(_) => text_of(request),
    }
}

#[cfg(test)]
mod tests {
    use svc_trust::{RejectionCode, TransientCause};

    use super::*;

    fn failure(status: Option<u16>, retry_after: Option<u64>) -> EvidenceFailure {
        let transient = Some(TransientCause { url: Some("https://a.example/did.json".into()), status, retry_after });
        EvidenceFailure { code: RejectionCode::DidUnresolvable, message: "no".into(), transient }
    }

    #[test]
    fn an_open_evaluation_names_the_failure_that_decides_and_survives_the_store() {
        let document = EvidenceRequest::Document("did:web:a.example".into());
        let other = EvidenceRequest::Document("did:web:0.example".into());
        let failed = BTreeMap::from([
            (other.clone(), failure(Some(500), None)),
            (document.clone(), failure(Some(503), Some(30))),
        ]);
        let unfinished = UnfinishedEvaluation {
            did: "did:web:a.example",
            height: 7,
            block_time: 5,
            failed: &failed,
            unanswered: &BTreeSet::from([document.clone()]),
            earlier: EarlierTries { since: 1_000, tries: 0 },
        };
        let open = OpenEvaluation::after_try(&unfinished, 2_000, 3_600_000, 0);
        assert_eq!((open.tries, open.next_try_at, open.since), (1, 32_000, 1_000));
        assert_eq!(open.failed_requests(), BTreeSet::from([document.clone(), other]));
        assert_eq!(open.own_failures().map(|failed| &failed.request).collect::<Vec<_>>(), [&document]);
        assert_eq!(OpenEvaluation::from_row(&open.to_row()), Some(open.clone()));
        let expected = json!({
            "since": "1970-01-01T00:00:01.000Z", "reason": "did_unresolvable", "url": "https://a.example/did.json",
            "tries": 1, "nextTryAt": "1970-01-01T00:00:32.000Z", "status": 503,
        });
        assert_eq!(open.pending_json(), expected);
    }

    #[test]
    fn a_document_and_a_resource_of_one_server_have_one_host() {
        for (request, expected) in [
            (EvidenceRequest::Document("did:web:localhost%3A80:a".into()), "localhost:80"),
            (EvidenceRequest::Document("did:webvh:scid:a.example".into()), "a.example"),
            (EvidenceRequest::Resource("https://a.example/x".into()), "a.example"),
            (EvidenceRequest::Resource("http://localhost:8080/x".into()), "localhost:8080"),
        ] {
            assert_eq!(request_host(&request), expected);
        }
    }
}
