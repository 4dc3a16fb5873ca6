//! Decisions of a supervisor, without actors and without a clock.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use crate::backoff::Backoff;

/// Exits after which a child is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartMode {
    /// After every exit.
    Permanent,
    /// After a failure only.
    Transient,
    /// After no exit.
    Temporary,
}

/// Children that are restarted together with a failed child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartStrategy {
    /// No other child.
    OneForOne,
    /// Every child that was started after it, since those depend on it.
    RestForOne,
}

/// Bound of the restarts. One more restart within the period makes the supervisor give up; so does one more restart of a child that
/// had no healthy run since the first of them. Backoff alone thus never hides a child that keeps failing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartIntensity {
    /// Restarts allowed within the period, and of one child without a healthy run.
    pub max_restarts: usize,
    /// Length of the period.
    pub period: Duration,
}

/// Kind of an exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// The child ended by itself or on request.
    Normal,
    /// The child ended by an error, a panic, a kill, or with a stuck handler.
    Failed,
}

/// Reaction of a supervisor to an exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestartDecision {
    /// Do nothing: the child has stopped for good.
    Forget,
    /// Stop the others of `children` in reverse order, then start all of them in order after `delay`.
    Restart {
        /// Delay before the start.
        delay: Duration,
        /// The failed child first, then the children that are restarted with it.
        children: Vec<u64>,
    },
    /// Give up, and fail with the reason.
    Escalate,
}

struct ChildHistory {
    id: u64,
    restart: RestartMode,
    backoff: Backoff,
    attempts: u32,
    started_at: Option<Instant>,
}

/// Restart history of the children of one supervisor.
pub struct RestartPolicy {
    strategy: RestartStrategy,
    intensity: RestartIntensity,
    children: Vec<ChildHistory>,
    restart_times: VecDeque<Instant>,
}

/// Run time after which a child counts as healthy: its backoff starts again.
pub(super) const HEALTHY_AFTER: Duration = Duration::from_secs(30);

impl RestartPolicy {
    /// Makes the policy of a supervisor without children.
    pub fn new(strategy: RestartStrategy, intensity: RestartIntensity) -> Self {
        Self { strategy, intensity, children: Vec::new(), restart_times: VecDeque::new() }
    }

    /// Adds a child after the others.
    pub fn add(&mut self, id: u64, restart: RestartMode, backoff: Backoff) {
        self.children.push(ChildHistory { id, restart, backoff, attempts: 0, started_at: None });
    }

    /// Removes a child.
    pub fn remove(&mut self, id: u64) {
        self.children.retain(|child| child.id != id);
    }

    /// Records the start of a child.
    pub fn record_start(&mut self, id: u64, now: Instant) {
        if let Some(child) = self.children.iter_mut().find(|child| child.id == id) {
            child.started_at = Some(now);
        }
    }

    /// Decides about a child that has ended or did not start; `random` is uniform in 0..1.
    pub fn decide_on_exit(&mut self, id: u64, exit: ExitReason, now: Instant, random: f64) -> RestartDecision {
        let Some(position) = self.children.iter().position(|child| child.id == id) else {
            return RestartDecision::Forget;
        };
        let is_wanted = match (self.children[position].restart, exit) {
            (RestartMode::Permanent, _) | (RestartMode::Transient, ExitReason::Failed) => true,
            (RestartMode::Transient, ExitReason::Normal) | (RestartMode::Temporary, _) => false,
        };
        if !is_wanted {
            self.children.remove(position);
            return RestartDecision::Forget;
        }
        self.restart_times.retain(|at| now.duration_since(*at) < self.intensity.period);
        let child = &mut self.children[position];
        if child.started_at.is_some_and(|started| now.duration_since(started) >= HEALTHY_AFTER) {
            child.attempts = 0;
        }
        let max_restarts = self.intensity.max_restarts;
        if self.restart_times.len() >= max_restarts || child.attempts as usize >= max_restarts {
            return RestartDecision::Escalate;
        }
        self.restart_times.push_back(now);
        let delay = child.backoff.delay(child.attempts, random);
        child.attempts += 1;
        child.started_at = None;
        let children = match self.strategy {
            RestartStrategy::OneForOne => vec![id],
            RestartStrategy::RestForOne => self.children[position..].iter().map(|child| child.id).collect(),
        };
        RestartDecision::Restart { delay, children }
    }
}
