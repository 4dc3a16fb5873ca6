//! The decisions of a supervisor, without actors and without a clock.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use crate::backoff::Backoff;

/// When a child is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// Always.
    Permanent,
    /// After a failure only.
    Transient,
    /// Never.
    Temporary,
}

/// Who is restarted with a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Nobody.
    OneForOne,
    /// Every child that was started after it, because those depend on it.
    RestForOne,
}

/// How many restarts are normal. One more within the window is a meltdown: the supervisor gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intensity {
    /// Restarts allowed within the window.
    pub restarts: usize,
    /// The window.
    pub within: Duration,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself or on request.
    Normal,
    /// By an error, a panic, a kill, or because its handler was stuck.
    Failed,
}

/// What is to be done about an exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: the child is gone for good.
    Forget,
    /// Stop the others of `children` in reverse order, then start all of them in order after `delay`.
    Restart {
        /// Backoff.
        delay: Duration,
        /// The failed child first, then those that fall with it.
        children: Vec<u64>,
    },
    /// Give up.
    Escalate,
}

struct Child {
    id: u64,
    restart: Restart,
    backoff: Backoff,
    attempts: u32,
    started: Option<Instant>,
}

/// State of one supervisor.
pub struct Policy {
    strategy: Strategy,
    intensity: Intensity,
    children: Vec<Child>,
    restarts: VecDeque<Instant>,
}

/// A child that has run this long is healthy: its next failure is a first one.
const HEALTHY_AFTER: Duration = Duration::from_secs(30);

impl Policy {
    /// A supervisor without children.
    pub fn new(strategy: Strategy, intensity: Intensity) -> Self {
        Self { strategy, intensity, children: Vec::new(), restarts: VecDeque::new() }
    }

    /// Adds a child behind the others.
    pub fn add(&mut self, id: u64, restart: Restart, backoff: Backoff) {
        self.children.push(Child { id, restart, backoff, attempts: 0, started: None });
    }

    /// Forgets a child.
    pub fn remove(&mut self, id: u64) {
        self.children.retain(|child| child.id != id);
    }

    /// A child is up.
    pub fn started(&mut self, id: u64, now: Instant) {
        if let Some(child) = self.children.iter_mut().find(|child| child.id == id) {
            child.started = Some(now);
        }
    }

    /// A child has ended, or could not be started; `random` is uniform in 0..1.
    pub fn exited(&mut self, id: u64, exit: Exit, now: Instant, random: f64) -> Decision {
        let Some(position) = self.children.iter().position(|child| child.id == id) else {
            return Decision::Forget;
        };
        let is_wanted = match (self.children[position].restart, exit) {
            (Restart::Permanent, _) | (Restart::Transient, Exit::Failed) => true,
            (Restart::Transient, Exit::Normal) | (Restart::Temporary, _) => false,
        };
        if !is_wanted {
            self.children.remove(position);
            return Decision::Forget;
        }
        self.restarts.retain(|at| now.duration_since(*at) < self.intensity.within);
        if self.restarts.len() >= self.intensity.restarts {
            return Decision::Escalate;
        }
        self.restarts.push_back(now);
        let child = &mut self.children[position];
        if child.started.is_some_and(|started| now.duration_since(started) >= HEALTHY_AFTER) {
            child.attempts = 0;
        }
        let delay = child.backoff.delay(child.attempts, random);
        child.attempts += 1;
        child.started = None;
        let children = match self.strategy {
            Strategy::OneForOne => vec![id],
            Strategy::RestForOne => self.children[position..].iter().map(|child| child.id).collect(),
        };
        Decision::Restart { delay, children }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(strategy: Strategy) -> Policy {
        let mut policy = Policy::new(strategy, Intensity { restarts: 3, within: Duration::from_secs(10) });
        for (id, restart) in [(1, Restart::Permanent), (2, Restart::Transient), (3, Restart::Temporary)] {
            policy.add(id, restart, Backoff::RESTART);
        }
        policy
    }

    fn restarted(decision: &Decision) -> Vec<u64> {
        match decision {
            Decision::Restart { children, .. } => children.clone(),
            Decision::Forget | Decision::Escalate => Vec::new(),
        }
    }

    #[test]
    fn who_is_started_again_depends_on_the_child_and_on_how_it_ended() {
        let now = Instant::now();
        for (id, exit, expected) in [
            (1, Exit::Normal, vec![1]),
            (1, Exit::Failed, vec![1]),
            (2, Exit::Normal, vec![]),
            (2, Exit::Failed, vec![2]),
            (3, Exit::Normal, vec![]),
            (3, Exit::Failed, vec![]),
            (9, Exit::Failed, vec![]),
        ] {
            let decision = policy(Strategy::OneForOne).exited(id, exit, now, 0.5);
            assert_eq!(restarted(&decision), expected, "{id} {exit:?}");
        }
    }

    #[test]
    fn rest_for_one_takes_the_later_children_along() {
        let now = Instant::now();
        assert_eq!(restarted(&policy(Strategy::RestForOne).exited(1, Exit::Failed, now, 0.5)), [1, 2, 3]);
        assert_eq!(restarted(&policy(Strategy::RestForOne).exited(2, Exit::Failed, now, 0.5)), [2, 3]);
    }

    #[test]
    fn too_many_restarts_within_the_window_escalate_and_old_ones_do_not_count() {
        let (mut policy, start) = (policy(Strategy::OneForOne), Instant::now());
        for _ in 0..3 {
            assert!(matches!(policy.exited(1, Exit::Failed, start, 0.5), Decision::Restart { .. }));
        }
        assert_eq!(policy.exited(2, Exit::Failed, start, 0.5), Decision::Escalate);
        let later = start + Duration::from_secs(10);
        assert!(matches!(policy.exited(1, Exit::Failed, later, 0.5), Decision::Restart { .. }));
    }

    #[test]
    fn the_backoff_grows_and_starts_over_after_health() {
        let intensity = Intensity { restarts: 100, within: Duration::from_secs(1) };
        let mut policy = Policy::new(Strategy::OneForOne, intensity);
        policy.add(1, Restart::Permanent, Backoff::RESTART);
        let mut now = Instant::now();
        let mut delay_of_next = |healthy: Duration| {
            policy.started(1, now);
            now += healthy;
            match policy.exited(1, Exit::Failed, now, 0.5) {
                Decision::Restart { delay, .. } => delay.as_millis(),
                Decision::Forget | Decision::Escalate => panic!("expected a restart"),
            }
        };
        assert_eq!([5, 20, 80], [(); 3].map(|()| delay_of_next(Duration::from_secs(2))));
        assert_eq!(delay_of_next(HEALTHY_AFTER), 5);
    }
}
