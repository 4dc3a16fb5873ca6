//! The first height of an empty store.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The first height of an empty store, which all actors share. It moves when no node has the state of that height any more; an actor reads
/// it at its start.
#[derive(Debug, Clone)]
pub struct StartHeight(Arc<AtomicU64>);

impl StartHeight {
    /// Returns the height.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Begins with another height.
    pub fn move_to(&self, height: u64) {
        self.0.store(height, Ordering::SeqCst);
    }
}

impl From<u64> for StartHeight {
    fn from(height: u64) -> Self {
        Self(Arc::new(AtomicU64::new(height)))
    }
}
