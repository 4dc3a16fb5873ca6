//! A bounded group of tasks with a common end.

use std::{future::Future, sync::Arc, time::Duration};

use svc_otel::trace::{self, MessageOrigin};
use tokio::{sync::Semaphore, task::JoinHandle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;

/// The error of [`TaskGroup::spawn`]: the group is full or closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("all {limit} tasks are in use")]
pub struct TaskLimitError {
    /// The bound.
    pub limit: usize,
}

/// A bounded group of tasks with a common end. A task runs in the span and the call of the code that started it.
#[derive(Clone)]
pub struct TaskGroup {
    tracker: TaskTracker,
    cancellation: CancellationToken,
    permits: Arc<Semaphore>,
    limit: usize,
}

impl TaskGroup {
    /// Makes a group of at most `limit` tasks.
    pub fn new(limit: usize) -> Self {
        Self {
            tracker: TaskTracker::new(),
            cancellation: CancellationToken::new(),
            permits: Arc::new(Semaphore::new(limit)),
            limit,
        }
    }

    /// Starts a task.
    ///
    /// # Errors
    /// When the group is full or closed.
    pub fn spawn<F>(&self, future: F) -> Result<JoinHandle<Option<F::Output>>, TaskLimitError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let permit = Arc::clone(&self.permits).try_acquire_owned().map_err(|_| TaskLimitError { limit: self.limit })?;
        let stop = self.cancellation.clone();
        let call = MessageOrigin::current().call;
        Ok(self.tracker.spawn(
            async move {
                let _permit = permit;
                stop.run_until_cancelled(trace::run_in_call(call, future)).await
            }
            .in_current_span(),
        ))
    }

    /// Returns the number of running tasks.
    pub fn running_count(&self) -> usize {
        self.limit - self.permits.available_permits()
    }

    /// Refuses new tasks, waits for the running tasks, and drops those that still run after `wait_limit`.
    pub async fn drain(&self, wait_limit: Duration) {
        self.permits.close();
        self.tracker.close();
        if tokio::time::timeout(wait_limit, self.tracker.wait()).await.is_err() {
            self.cancellation.cancel();
            self.tracker.wait().await;
        }
    }
}
