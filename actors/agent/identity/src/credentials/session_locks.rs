//! One sending of a session at a time: a pass and a request may want to anchor the same credential, and so may an incarnation of the actor
//! and the one before it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// The sessions that are being sent. The tree keeps them, so that they outlive the actor.
#[derive(Clone, Default)]
pub struct SessionLocks(Arc<Mutex<HashMap<String, Weak<AsyncMutex<()>>>>>);

impl SessionLocks {
    /// Waits until no other task sends the session, and holds it until the guard is dropped.
    pub async fn hold(&self, session: &str) -> OwnedMutexGuard<()> {
        let lock = {
            let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            held.retain(|_, lock| lock.strong_count() > 0);
            let known = held.get(session).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let lock = Arc::new(AsyncMutex::new(()));
                held.insert(session.to_owned(), Arc::downgrade(&lock));
                lock
            })
        };
        lock.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_task_at_a_time_has_a_session_and_none_is_kept() {
        let locks = SessionLocks::default();
        let first = locks.hold("a").await;
        let other = locks.hold("b").await;
        let waiting = tokio::spawn({
            let locks = locks.clone();
            async move { locks.hold("a").await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(first);
        drop(waiting.await.expect("held"));
        drop(other);
        drop(locks.hold("c").await);
        assert_eq!(locks.0.lock().expect("not poisoned").len(), 1);
    }
}
