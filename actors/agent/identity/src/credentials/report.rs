//! The end of a pass, and of its steps for the credentials of the settings. Pure.

use std::collections::BTreeMap;

use prost_types::Timestamp;
use svc_wire::timestamp;

use super::{claim_documents::DocumentsError, issuance::IssueStop};
use crate::{
    account_write::{Block, WriteStop},
    credential_settings::{ClaimProblem, problems_text},
};

/// The end of a pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PassReport {
    /// The reasons for which credentials wait, by the names of their presentations.
    pub waiting: BTreeMap<String, String>,
    /// The settings for which the agent issues no credential, by the names of the presentations.
    pub claims: BTreeMap<String, Vec<ClaimProblem>>,
    /// Whether a later pass may succeed without an event.
    pub has_failure: bool,
    /// Seconds until a participant of the DID begins: no event announces that.
    pub begins_in: Option<u64>,
    /// The earliest time of the chain at which an allowance refills that a write waits for.
    pub refills_at: Option<Timestamp>,
}

impl PassReport {
    pub(super) fn wait(&mut self, name: &str, stop: &WriteStop) {
        match stop {
            WriteStop::Blocked(Block { refills_at, .. }) => {
                let both = self.refills_at.into_iter().chain(*refills_at);
                self.refills_at = both.min_by_key(timestamp::unix_nanos);
            }
            WriteStop::Failed(_) | WriteStop::Unanswered(_) => self.has_failure = true,
        }
        self.waiting.insert(name.to_owned(), stop.reason().into_owned());
    }

    /// Notes the end of a step for a credential of the settings.
    pub(super) fn note(&mut self, name: &str, end: Result<OwnEnd, OwnStop>) {
        match end {
            Ok(OwnEnd::Done) => {}
            Ok(OwnEnd::Tomorrow) => {
                let reason = "a credential of this schema was issued within the last day";
                self.waiting.insert(name.to_owned(), reason.to_owned());
            }
            Err(OwnStop::Issue(IssueStop::Stopped(stop))) => self.wait(name, &stop),
            Err(OwnStop::Issue(IssueStop::Refused(refusal))) => self.wait(name, &WriteStop::Failed(refusal.message)),
            Err(OwnStop::Claims(problems)) => self.note_claims(name, problems),
            Err(OwnStop::Documents(problems)) => {
                self.has_failure = true;
                self.note_claims(name, problems);
            }
        }
    }

    fn note_claims(&mut self, name: &str, problems: Vec<ClaimProblem>) {
        let reason = format!("the claims cannot be signed: {}", problems_text(&problems));
        self.waiting.insert(name.to_owned(), reason);
        self.claims.insert(name.to_owned(), problems);
    }
}

/// The end of a step for an own credential.
pub(super) enum OwnEnd {
    /// Nothing is left to do.
    Done,
    /// Another one is due; today's was issued already.
    Tomorrow,
}

/// The reason for which a step for an own credential was not taken.
pub(super) enum OwnStop {
    Issue(IssueStop),
    /// The claims do not fit the schema: other settings come with another start.
    Claims(Vec<ClaimProblem>),
    /// The documents that they name are others; they may change.
    Documents(Vec<ClaimProblem>),
}

impl<T: Into<IssueStop>> From<T> for OwnStop {
    fn from(stop: T) -> Self {
        Self::Issue(stop.into())
    }
}

impl From<DocumentsError> for OwnStop {
    fn from(error: DocumentsError) -> Self {
        match error {
            DocumentsError::Differ(problems) => Self::Documents(problems),
            DocumentsError::Unanswered(reason) => WriteStop::Failed(reason).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use svc_agent_core::grant::BlockedReason;

    use super::*;

    #[test]
    fn a_pass_knows_the_earliest_refill_that_a_write_waits_for() {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let without_fees = |refills_at| WriteStop::Blocked(Block { reason: BlockedReason::NoFees, refills_at });
        let mut report = PassReport::default();
        for (name, refills_at, earliest) in [
            ("a", None, None),
            ("b", at(90), at(90)),
            ("c", at(120), at(90)),
            ("d", at(60), at(60)),
            ("e", None, at(60)),
        ] {
            report.wait(name, &without_fees(refills_at));
            assert_eq!((report.refills_at, report.has_failure), (earliest, false), "{name}");
            assert_eq!(report.waiting[name], "NO_FEES");
        }
        report.wait("f", &WriteStop::Unanswered("no answer".to_owned()));
        assert!(report.has_failure);
    }
}
