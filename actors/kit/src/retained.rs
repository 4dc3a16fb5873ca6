//! State that outlives the actor that writes it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A value owned by the supervision tree and lent to one actor at a time, as an ETS table with an heir is in OTP: after a
/// crash the next incarnation continues with it. Change it only in steps that each leave it consistent.
pub struct Retained<T>(Arc<Mutex<T>>);

impl<T> Clone for Retained<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Default> Default for Retained<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Retained<T> {
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
