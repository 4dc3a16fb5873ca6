//! State that outlives the actor that writes it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A value that the supervision tree owns and one actor uses, like an ETS table with an heir in OTP: after a crash the next
/// incarnation continues with the same value. Every change must leave the value consistent.
pub struct RetainedState<T>(Arc<Mutex<T>>);

impl<T> Clone for RetainedState<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Default> Default for RetainedState<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> RetainedState<T> {
    /// Wraps the initial value.
    pub fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    /// Reads or changes the value. The closure must not block.
    pub fn with<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let mut guard: MutexGuard<'_, T> = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut guard)
    }
}
