//! Admission of writes: bounds per session and in total, and joining a write that is active under the same key.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use svc_kit::TaskGroup;
use svc_pipeline::{WriteHandle, WriteIntent, WriteTask};
use svc_wire::error_envelope::{ErrorEnvelope, FailureCode};
use tracing::Span;

use super::{receipt::WriteAnswer, recorded::reused_key, stored_digest::has_same_effect_once};

/// Longest idempotency key, in characters.
pub const MAX_KEY_CHARACTERS: usize = 128;
/// Active writes in total.
pub(crate) const MAX_ACTIVE_WRITES: usize = 4_096;
/// Active writes of one session.
const MAX_SESSION_WRITES: usize = 1_024;

/// The active writes.
pub(crate) struct ActiveWrites {
    tasks: TaskGroup,
    state: Arc<Mutex<AdmissionState>>,
}

#[derive(Default)]
struct AdmissionState {
    /// Number of active writes, by session.
    session_counts: HashMap<Arc<str>, usize>,
    /// Active writes with an idempotency key, by principal and key.
    keyed_writes: HashMap<WriteKey, KeyedWrite>,
    /// Active writes that serve each request with the same message, by its digest.
    shared_writes: HashMap<String, WriteHandle<WriteAnswer>>,
}

/// A principal, and an idempotency key that it has chosen.
type WriteKey = (Arc<str>, String);

/// An active write with an idempotency key.
struct KeyedWrite {
    digest: String,
    handle: WriteHandle<WriteAnswer>,
}

/// The place of a write among the active ones. Dropping it returns the place.
pub(crate) struct AdmissionPermit {
    state: Arc<Mutex<AdmissionState>>,
    session: Arc<str>,
    key: Option<WriteKey>,
    /// Digest of the message, where the write is shared.
    shared: Option<String>,
}

impl Drop for AdmissionPermit {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = state.session_counts.get_mut(&self.session) {
            *count -= 1;
            if *count == 0 {
                state.session_counts.remove(&self.session);
            }
        }
        if let Some(key) = &self.key {
            state.keyed_writes.remove(key);
        }
        if let Some(digest) = &self.shared {
            state.shared_writes.remove(digest);
        }
    }
}

/// The decision on a write.
pub(crate) enum AdmissionDecision {
    /// The write starts.
    Admitted { permit: AdmissionPermit, task: WriteTask<WriteAnswer>, handle: WriteHandle<WriteAnswer> },
    /// The same write is active under the same key, or one that serves this request too.
    Joined { handle: WriteHandle<WriteAnswer> },
}

impl ActiveWrites {
    pub(crate) fn new() -> Self {
        Self { tasks: TaskGroup::new(MAX_ACTIVE_WRITES), state: Arc::default() }
    }

    fn with_state<R>(&self, work: impl FnOnce(&mut AdmissionState) -> R) -> R {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Digest of the message of an active write under a key of a principal.
    pub(crate) fn find_digest(&self, principal: &str, key: &str) -> Option<String> {
        let key = (Arc::from(principal), key.to_owned());
        self.with_state(|state| state.keyed_writes.get(&key).map(|write| write.digest.clone()))
    }

    /// Admits a write, or joins it with the active one under its key.
    pub(crate) fn admit(&self, intent: &Arc<WriteIntent>, span: Span) -> Result<AdmissionDecision, ErrorEnvelope> {
        let digest = intent.encoded.digest();
        let shared = has_same_effect_once(&intent.encoded).then(|| digest.clone());
        let key = intent.idempotency_key.as_ref().map(|key| (Arc::clone(&intent.origin.principal), key.clone()));
        self.with_state(|state| {
            if let Some(key) = &key
                && let Some(active) = state.keyed_writes.get(key)
            {
                return if active.digest == digest {
                    Ok(AdmissionDecision::Joined { handle: active.handle.clone() })
                } else {
                    Err(reused_key(&key.1))
                };
            }
            if let Some(handle) = shared.as_ref().and_then(|digest| state.shared_writes.get(digest)) {
                return Ok(AdmissionDecision::Joined { handle: handle.clone() });
            }
            let session = Arc::clone(&intent.origin.session);
            let count = state.session_counts.entry(Arc::clone(&session)).or_default();
            if *count >= MAX_SESSION_WRITES {
                return Err(overloaded_error(&format!("{MAX_SESSION_WRITES} writes of this session")));
            }
            *count += 1;
            let (task, handle) = WriteTask::new(Arc::clone(intent), span);
            if let Some(key) = &key {
                state.keyed_writes.insert(key.clone(), KeyedWrite { digest, handle: handle.clone() });
            }
            if let Some(digest) = &shared {
                state.shared_writes.insert(digest.clone(), handle.clone());
            }
            let permit = AdmissionPermit { state: Arc::clone(&self.state), session, key, shared };
            Ok(AdmissionDecision::Admitted { permit, task, handle })
        })
    }

    /// Starts the task of an admitted write.
    pub(crate) fn start(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
        permit: AdmissionPermit,
    ) -> Result<(), ErrorEnvelope> {
        // The caller's span ends when the caller is answered; the task may take longer.
        let spawned = Span::none().in_scope(|| {
            self.tasks.spawn(async move {
                let _permit = permit;
                work.await;
            })
        });
        spawned.map(drop).map_err(|full| overloaded_error(&format!("{} writes", full.limit)))
    }

    /// Refuses new writes and lets active ones end. The next process finds undecided ones in the journal.
    pub(crate) async fn drain(&self, wait_limit: Duration) {
        self.tasks.drain(wait_limit).await;
    }
}

fn overloaded_error(limit: &str) -> ErrorEnvelope {
    let message = format!("{limit} are already under way");
    ErrorEnvelope::new(FailureCode::Overloaded, message, "nothing was sent; try again in a moment")
}
