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

use super::{receipt::WriteAnswer, recorded::reused_key, stored_digest::is_stored_once};

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
    /// The last active write of each message that is stored once, by its digest, with the number of the admission.
    single_writes: HashMap<String, (u64, WriteHandle<WriteAnswer>)>,
    admitted: u64,
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
    /// Digest of a message that is stored once, and the number of the admission.
    single: Option<(String, u64)>,
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
        if let Some((digest, number)) = &self.single
            && state.single_writes.get(digest).is_some_and(|(last, _)| last == number)
        {
            state.single_writes.remove(digest);
        }
    }
}

/// A write that starts.
pub(crate) struct AdmittedWrite {
    pub permit: AdmissionPermit,
    pub task: WriteTask<WriteAnswer>,
    pub handle: WriteHandle<WriteAnswer>,
    /// An active write with an equal message that is stored once.
    pub earlier: Option<WriteHandle<WriteAnswer>>,
}

/// The decision on a write.
pub(crate) enum AdmissionDecision {
    /// The write starts.
    Admitted(Box<AdmittedWrite>),
    /// The same write is active under the same key.
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
        let is_single = is_stored_once(&intent.encoded);
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
            let session = Arc::clone(&intent.origin.session);
            let count = state.session_counts.entry(Arc::clone(&session)).or_default();
            if *count >= MAX_SESSION_WRITES {
                return Err(overloaded_error(&format!("{MAX_SESSION_WRITES} writes of this session")));
            }
            *count += 1;
            let (task, handle) = WriteTask::new(Arc::clone(intent), span);
            state.admitted += 1;
            let number = state.admitted;
            let single = is_single.then(|| (digest.clone(), number));
            let last =
                single.clone().and_then(|(digest, _)| state.single_writes.insert(digest, (number, handle.clone())));
            let earlier = last.map(|(_, handle)| handle);
            if let Some(key) = &key {
                state.keyed_writes.insert(key.clone(), KeyedWrite { digest, handle: handle.clone() });
            }
            let permit = AdmissionPermit { state: Arc::clone(&self.state), session, key, single };
            Ok(AdmissionDecision::Admitted(Box::new(AdmittedWrite { permit, task, handle, earlier })))
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
