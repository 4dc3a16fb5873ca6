//! The answers of web servers that the tries of one group share, so that a server that several DIDs wait for is asked once.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;
use svc_trust::{EvidenceFailure, EvidenceRequest, RejectionCode, TransientCause};

use crate::trust::patience::open_evaluation::request_host;

/// The answers of one group of tries.
#[derive(Debug, Default)]
pub struct SharedAnswers(Mutex<AnswerTable>);

#[derive(Debug, Default)]
struct AnswerTable {
    by_request: HashMap<EvidenceRequest, Result<Value, EvidenceFailure>>,
    /// Hosts that did not answer, or that refused every request, with the failure.
    down_hosts: HashMap<String, EvidenceFailure>,
}

impl SharedAnswers {
    fn lock(&self) -> MutexGuard<'_, AnswerTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the answer to a request, from an earlier try of the group.
    pub fn find(&self, request: &EvidenceRequest) -> Option<Result<Value, EvidenceFailure>> {
        let table = self.lock();
        let of_host = || {
            let down = table.down_hosts.get(&request_host(request))?;
            let code = match request {
                EvidenceRequest::Document(_) => RejectionCode::DidUnresolvable,
                _ => RejectionCode::ResourceUnavailable,
            };
            Some(Err(EvidenceFailure { code, ..down.clone() }))
        };
        table.by_request.get(request).cloned().or_else(of_host)
    }

    /// Records the answer to a request.
    pub fn record(&self, request: &EvidenceRequest, answer: &Result<Value, EvidenceFailure>) {
        let mut table = self.lock();
        if let Err(failure) = answer
            && failure.transient.as_ref().is_some_and(is_about_the_server)
        {
            table.down_hosts.insert(request_host(request), failure.clone());
        }
        table.by_request.insert(request.clone(), answer.clone());
    }
}

/// Whether a failure is about the whole server: it was not reached, or it or its gateway refuses every request for some time. Other
/// statuses are about one page.
fn is_about_the_server(cause: &TransientCause) -> bool {
    cause.url.is_some() && cause.status.is_none_or(|status| matches!(status, 429 | 502..=504))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_the_server_answers_its_other_requests() {
        let failure = |url: Option<&str>, status| EvidenceFailure {
            transient: Some(TransientCause { url: url.map(str::to_owned), status, retry_after: None }),
            ..EvidenceFailure::new(RejectionCode::ResourceUnavailable, "no")
        };
        let page = EvidenceRequest::Resource("https://a.example/page".into());
        let document = EvidenceRequest::Document("did:web:a.example".into());
        let elsewhere = EvidenceRequest::Document("did:web:b.example".into());
        for (cause, is_shared) in [
            (failure(Some("u"), None), true),
            (failure(Some("u"), Some(503)), true),
            (failure(Some("u"), Some(429)), true),
            (failure(Some("u"), Some(500)), false),
            (failure(None, None), false),
            (EvidenceFailure::new(RejectionCode::ResourceUnavailable, "404"), false),
        ] {
            let shared = SharedAnswers::default();
            shared.record(&page, &Err(cause.clone()));
            assert_eq!(shared.find(&page), Some(Err(cause.clone())));
            let expected = EvidenceFailure { code: RejectionCode::DidUnresolvable, ..cause };
            assert_eq!(shared.find(&document), is_shared.then_some(Err(expected)));
            assert_eq!(shared.find(&elsewhere), None);
        }
    }
}
