//! Calls that wait for another principal: of clients that cannot ask a person, under the policy `confirm`.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::Serialize;
use svc_kit::wall_clock;
use tokio::time::Instant;

use crate::principals::Principal;

/// Time in which a call is approved, and in which an approved one is repeated.
const LIFETIME: Duration = Duration::from_secs(10 * 60);
/// Waiting calls of one principal, and of all.
const MAX_OF_PRINCIPAL: usize = 100;
const MAX_WAITING: usize = 1_000;

/// A call that waits for its approval, as its readers see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PendingApproval {
    /// Id for `svc approve`.
    pub id: String,
    /// Principal that called.
    pub principal: String,
    /// Tool that was called.
    pub tool: String,
    /// `waiting`, `approved`, or `declined`.
    pub state: &'static str,
    /// Principal that has decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// Time of the call, RFC 3339.
    pub requested_at: String,
    /// SHA-256 of the exact message or request.
    pub digest: String,
    /// The text that is approved.
    pub shown: String,
}

/// The calls that wait.
#[derive(Default)]
pub struct ApprovalStore {
    waiting: Mutex<BTreeMap<String, WaitingCall>>,
    /// Number of changes.
    version: AtomicU64,
}

struct WaitingCall {
    approval: PendingApproval,
    /// Tool, digest and bounds of the call.
    binding: Vec<u8>,
    ends_at: Instant,
}

/// A call that needs an approval.
pub(super) struct ApprovalRequest<'a> {
    pub principal: &'a Principal,
    pub tool: &'a str,
    pub digest: &'a str,
    pub binding: Vec<u8>,
    pub shown: String,
}

/// The state of the approval of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ApprovalState {
    /// It was approved by this principal. The approval is used up.
    Approved(String),
    /// It was declined by this principal.
    Declined(String),
    /// It waits under this id.
    Waiting(String),
    /// Too many calls wait.
    Full,
}

/// The reason for which a decision is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecisionRefusal {
    /// The principal has no right to approve, or the call is its own.
    #[error("another principal with the right to approve has to decide (may_approve)")]
    NotAllowed,
    /// There is no such call, or its time is over.
    #[error("no call waits under this id")]
    Unknown,
    /// The call was decided before.
    #[error("the call was decided already")]
    Decided,
}

impl ApprovalStore {
    /// Asks for the approval of a call, or uses the one that it has.
    pub(super) fn request(&self, call: ApprovalRequest<'_>) -> ApprovalState {
        self.with_waiting(|waiting| {
            let is_same =
                |one: &WaitingCall| one.approval.principal == *call.principal.id && one.binding == call.binding;
            if let Some((id, known)) = waiting.iter().find(|(_, one)| is_same(one)) {
                let (id, decided_by) = (id.clone(), known.approval.decided_by.clone().unwrap_or_default());
                return match known.approval.state {
                    "approved" => {
                        self.change();
                        waiting.remove(&id);
                        ApprovalState::Approved(decided_by)
                    }
                    "declined" => {
                        self.change();
                        waiting.remove(&id);
                        ApprovalState::Declined(decided_by)
                    }
                    _ => ApprovalState::Waiting(id),
                };
            }
            let is_of_one = |one: &&WaitingCall| name_of(&one.approval.principal) == name_of(&call.principal.id);
            let of_principal = waiting.values().filter(is_of_one).count();
            if of_principal >= MAX_OF_PRINCIPAL || waiting.len() >= MAX_WAITING {
                return ApprovalState::Full;
            }
            let id = uuid::Uuid::new_v4().simple().to_string()[..12].to_owned();
            let approval = PendingApproval {
                id: id.clone(),
                principal: call.principal.id.to_string(),
                tool: call.tool.to_owned(),
                state: "waiting",
                decided_by: None,
                requested_at: wall_clock::now_rfc3339(),
                digest: call.digest.to_owned(),
                shown: call.shown,
            };
            tracing::info!(id, principal = &*call.principal.id, tool = call.tool, "a call waits for an approval");
            self.change();
            let ends_at = Instant::now() + LIFETIME;
            waiting.insert(id.clone(), WaitingCall { approval, binding: call.binding, ends_at });
            ApprovalState::Waiting(id)
        })
    }

    /// Changes with every change of the waiting calls.
    pub fn version(&self) -> u64 {
        self.with_waiting(|_| ());
        self.version.load(Ordering::Relaxed)
    }

    /// Approves or declines a call of another principal.
    pub fn decide(
        &self,
        id: &str,
        principal: &Principal,
        is_approved: bool,
    ) -> Result<PendingApproval, DecisionRefusal> {
        self.with_waiting(|waiting| {
            let call = waiting.get_mut(id).ok_or(DecisionRefusal::Unknown)?;
            // A principal with several subjects is one: none of them approves for another.
            let is_own = name_of(&call.approval.principal) == name_of(&principal.id);
            if !may_see(principal, call) {
                return Err(DecisionRefusal::Unknown);
            }
            if is_own || !principal.rights.may_approve {
                return Err(DecisionRefusal::NotAllowed);
            }
            if call.approval.state != "waiting" {
                return Err(DecisionRefusal::Decided);
            }
            call.approval.state = if is_approved { "approved" } else { "declined" };
            call.approval.decided_by = Some(principal.id.to_string());
            self.change();
            // The caller gets the whole time to repeat its call.
            call.ends_at = Instant::now() + LIFETIME;
            tracing::info!(
                id,
                by = &*principal.id,
                state = call.approval.state,
                tool = call.approval.tool,
                "a call was decided"
            );
            Ok(call.approval.clone())
        })
    }

    /// The calls that a principal may see, the oldest first: its own, and all of them when it may approve.
    pub fn list(&self, principal: &Principal) -> Vec<PendingApproval> {
        let mut all: Vec<PendingApproval> = self.with_waiting(|waiting| {
            waiting.values().filter(|one| may_see(principal, one)).map(|one| one.approval.clone()).collect()
        });
        all.sort_by(|one, other| one.requested_at.cmp(&other.requested_at));
        all
    }

    fn change(&self) {
        self.version.fetch_add(1, Ordering::Relaxed);
    }

    fn with_waiting<R>(&self, work: impl FnOnce(&mut BTreeMap<String, WaitingCall>) -> R) -> R {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let known = waiting.len();
        waiting.retain(|_, one| now < one.ends_at);
        if waiting.len() != known {
            self.version.fetch_add(1, Ordering::Relaxed);
        }
        work(&mut waiting)
    }
}

/// The name of a principal, which its subjects share.
fn name_of(id: &str) -> &str {
    id.split_once('/').map_or(id, |(name, _)| name)
}

fn may_see(principal: &Principal, call: &WaitingCall) -> bool {
    principal.rights.may_approve || call.approval.principal == *principal.id
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::principals::PrincipalRights;

    fn principal(name: &str, may_approve: bool) -> Principal {
        Principal::new(name, PrincipalRights { may_approve, ..PrincipalRights::default() })
    }

    fn ask(store: &ApprovalStore, principal: &Principal, binding: &str) -> ApprovalState {
        store.request(ApprovalRequest {
            principal,
            tool: "svc.ledger.pp.revokeParticipant",
            digest: "ab",
            binding: binding.as_bytes().to_vec(),
            shown: "revoke 7".to_owned(),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_approved_once_by_another_principal_that_may() {
        let store = ApprovalStore::default();
        let (agent, chief, other) = (principal("agent", true), principal("chief", true), principal("other", false));
        let ApprovalState::Waiting(id) = ask(&store, &agent, "a") else { panic!("it waits") };
        assert_eq!(ask(&store, &agent, "a"), ApprovalState::Waiting(id.clone()), "the same call is one");
        assert_eq!(store.decide(&id, &agent, true), Err(DecisionRefusal::NotAllowed), "its own");
        assert_eq!(store.decide(&id, &other, true), Err(DecisionRefusal::Unknown), "it may not even see it");
        assert_eq!((store.list(&chief).len(), store.list(&agent).len(), store.list(&other).len()), (1, 1, 0));
        assert_eq!(store.decide(&id, &chief, true).expect("approved").state, "approved");
        assert_eq!(store.decide(&id, &chief, false), Err(DecisionRefusal::Decided));
        assert!(matches!(ask(&store, &agent, "b"), ApprovalState::Waiting(_)), "another message");
        assert!(matches!(ask(&store, &other, "a"), ApprovalState::Waiting(_)), "another principal");
        assert_eq!(ask(&store, &agent, "a"), ApprovalState::Approved("chief".to_owned()));
        assert!(matches!(ask(&store, &agent, "a"), ApprovalState::Waiting(_)), "once");
        let ApprovalState::Waiting(id) = ask(&store, &agent, "c") else { panic!("it waits") };
        store.decide(&id, &chief, false).expect("declined");
        assert_eq!(ask(&store, &agent, "c"), ApprovalState::Declined("chief".to_owned()));
        for number in 0..MAX_OF_PRINCIPAL {
            ask(&store, &agent, &format!("more {number}"));
        }
        assert_eq!(ask(&store, &agent, "too many"), ApprovalState::Full);
        tokio::time::advance(LIFETIME).await;
        assert!(store.list(&chief).is_empty());
    }

    #[test]
    fn the_subjects_of_one_principal_do_not_approve_for_each_other() {
        let store = ApprovalStore::default();
        let people = principal("people", true);
        let (one, two) = (people.for_subject("one"), people.for_subject("two"));
        let ApprovalState::Waiting(id) = ask(&store, &one, "a") else { panic!("it waits") };
        assert!(store.decide(&id, &two, true).is_err() && store.decide(&id, &one, true).is_err());
    }
}
