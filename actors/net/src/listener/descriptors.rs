//! The file descriptors of the process: accepted connections take a part of them, and the rest is for files and own connections.

use std::sync::{
    OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use rustix::process::{Resource, getrlimit, setrlimit};

/// Descriptors that a process is given when its hard limit allows it.
const WANTED_DESCRIPTORS: u64 = 65_536;
/// Most descriptors that stay free for databases, logs and connections to others.
const MAX_RESERVED: u64 = 512;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// Raises the soft limit of open files towards the hard one. It has no effect after the first connection.
pub fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(u64::MAX).min(WANTED_DESCRIPTORS);
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(wanted);
        // The former limit is enough for few clients.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// Descriptors that accepted connections of this process may have at once.
pub fn descriptor_budget() -> usize {
    static BUDGET: OnceLock<usize> = OnceLock::new();
    *BUDGET.get_or_init(|| {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        usize::try_from(limit - MAX_RESERVED.min(limit / 2)).unwrap_or(usize::MAX)
    })
}

/// The right of a connection to have a descriptor. It is held as long as the socket is open, after an upgrade too.
#[derive(Debug)]
pub(super) struct DescriptorPermit(());

impl DescriptorPermit {
    /// Takes a permit; `None` when the budget is used up.
    pub fn acquire() -> Option<Self> {
        let taken = IN_USE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            (used < descriptor_budget()).then_some(used + 1)
        });
        taken.is_ok().then_some(Self(()))
    }
}

impl Drop for DescriptorPermit {
    fn drop(&mut self) {
        IN_USE.fetch_sub(1, Ordering::Relaxed);
    }
}
