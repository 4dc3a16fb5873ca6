//! The order of reads: one at a time, and one more for the requests that arrive during a read. Pure.

use super::RefreshTrigger;

/// The read under way, and the callers of this and of the next one. `W` is a waiting caller.
#[derive(Debug)]
pub struct RefreshQueue<W> {
    is_reading: bool,
    /// Reason for the next read. The read under way may have begun too early for it.
    next_trigger: Option<RefreshTrigger>,
    current_waiters: Vec<W>,
    next_waiters: Vec<W>,
}

impl<W> Default for RefreshQueue<W> {
    fn default() -> Self {
        Self { is_reading: false, next_trigger: None, current_waiters: Vec::new(), next_waiters: Vec::new() }
    }
}

impl<W> RefreshQueue<W> {
    /// A read is requested. True when it starts now, false when the next read serves it.
    pub fn request(&mut self, trigger: RefreshTrigger, waiter: Option<W>) -> bool {
        if self.is_reading {
            self.next_trigger = Some(trigger);
            self.next_waiters.extend(waiter);
            return false;
        }
        self.is_reading = true;
        self.current_waiters.extend(waiter);
        true
    }

    /// The read has ended; yields the callers that it serves and the reason for the next read, which then starts.
    pub fn finish(&mut self) -> (Vec<W>, Option<RefreshTrigger>) {
        let served = std::mem::replace(&mut self.current_waiters, std::mem::take(&mut self.next_waiters));
        let next = self.next_trigger.take();
        self.is_reading = next.is_some();
        (served, next)
    }

    /// Whether a read is under way.
    pub fn is_reading(&self) -> bool {
        self.is_reading
    }
}
