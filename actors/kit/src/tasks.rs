//! Bounded tasks that live no longer than their owner.

use std::{future::Future, sync::Arc};

use svc_otel::trace::{self, Origin};
use tokio::{sync::Semaphore, task::JoinHandle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;

/// No room for one more task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("all {limit} tasks are in use")]
pub struct Saturated {
    /// The bound.
    pub limit: usize,
}

/// A bounded group of tasks with one end. A task carries on the span and the call of whoever started it.
#[derive(Clone)]
pub struct TaskGroup {
    tracker: TaskTracker,
    stop: CancellationToken,
    permits: Arc<Semaphore>,
    limit: usize,
}

impl TaskGroup {
    /// A group of at most `limit` tasks.
    pub fn new(limit: usize) -> Self {
        Self {
            tracker: TaskTracker::new(),
            stop: CancellationToken::new(),
            permits: Arc::new(Semaphore::new(limit)),
            limit,
        }
    }

    /// Starts a task, or refuses when the group is full or closed.
    pub fn spawn<F>(&self, future: F) -> Result<JoinHandle<Option<F::Output>>, Saturated>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let permit = Arc::clone(&self.permits).try_acquire_owned().map_err(|_| Saturated { limit: self.limit })?;
        let stop = self.stop.clone();
        let call = Origin::current().call;
        Ok(self.tracker.spawn(
            async move {
                let _permit = permit;
                stop.run_until_cancelled(trace::within(call, future)).await
            }
            .in_current_span(),
        ))
    }

    /// Tasks running now.
    pub fn running(&self) -> usize {
        self.limit - self.permits.available_permits()
    }

    /// Refuses new tasks and waits for the running ones; those that outlast `patience` are dropped.
    pub async fn drain(&self, patience: std::time::Duration) {
        self.permits.close();
        self.tracker.close();
        if tokio::time::timeout(patience, self.tracker.wait()).await.is_err() {
            self.stop.cancel();
            self.tracker.wait().await;
        }
    }

    /// Drops every task.
    pub fn abort(&self) {
        self.permits.close();
        self.stop.cancel();
    }
}
