//! Servers that answer for one another: one of them is used, the others when it fails.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use svc_otel::metrics;
use tokio::time::timeout;

use super::http_client::{Kind, Upstream, UpstreamError};

/// Origins of servers that answer for one another, in the order of preference; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origins(Vec<String>);

impl Origins {
    /// From a list with commas; `None` when an element is not what `read` takes, or the list is empty.
    pub fn parse(text: &str, read: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let all: Option<Vec<String>> = text.split(',').map(|one| read(one.trim())).collect();
        all.filter(|all| !all.is_empty()).map(Self)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The same with one more at the end.
    #[must_use]
    pub fn and(mut self, origin: impl Into<String>) -> Self {
        self.0.push(origin.into());
        self
    }
}

impl From<String> for Origins {
    fn from(origin: String) -> Self {
        Self(vec![origin])
    }
}

impl From<&String> for Origins {
    fn from(origin: &String) -> Self {
        origin.clone().into()
    }
}

impl From<&Origins> for Origins {
    fn from(origins: &Origins) -> Self {
        origins.clone()
    }
}

impl fmt::Display for Origins {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join(", "))
    }
}

/// How far a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Newest height it has.
    pub height: u64,
    /// False while it catches up.
    pub is_ready: bool,
}

/// A failure that another server may not have.
pub trait NoAnswer {
    /// Whether there was no answer, or none that can be read.
    fn is_no_answer(&self) -> bool;
}

impl NoAnswer for UpstreamError {
    fn is_no_answer(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Protocol { .. } => true,
            Self::Http { status, .. } => matches!(status, 502..=504),
            Self::Saturated { .. } => false,
        }
    }
}

/// Servers of one kind. Clones share which of them is current.
#[derive(Clone)]
pub struct Endpoints {
    members: Arc<[Upstream]>,
    current: Arc<AtomicUsize>,
    pinned: Option<usize>,
}

/// How far behind the best one the current one may be before it is left.
const TOLERANCE: u64 = 2;
/// How long a server may take to say how far it is.
const PATIENCE: Duration = Duration::from_secs(3);

impl Endpoints {
    /// Clients of all of them; the first is current.
    pub fn new(kind: Kind, origins: &Origins) -> Result<Self, UpstreamError> {
        let members: Result<Vec<_>, _> = origins.iter().map(|origin| Upstream::new(kind, origin)).collect();
        Ok(Self { members: members?.into(), current: Arc::default(), pinned: None })
    }

    fn index(&self) -> usize {
        self.pinned.unwrap_or_else(|| self.current.load(Ordering::Acquire)).min(self.members.len() - 1)
    }

    /// The one in use.
    pub fn current(&self) -> &Upstream {
        &self.members[self.index()]
    }

    /// The same with what is current now, whatever comes.
    #[must_use]
    pub fn pinned(&self) -> Self {
        Self { pinned: Some(self.index()), ..self.clone() }
    }

    /// Each of those that are not in use.
    pub fn others(&self) -> Vec<Self> {
        let current = self.index();
        let pinned = |index: usize| Self { pinned: Some(index), ..self.clone() };
        (0..self.members.len()).filter(|index| *index != current).map(pinned).collect()
    }

    /// Whether there is another one.
    pub fn has_choice(&self) -> bool {
        self.members.len() > 1
    }

    /// Origins of all of them.
    pub fn origins(&self) -> Vec<&str> {
        self.members.iter().map(Upstream::origin).collect()
    }

    /// Asks all of them how far they are, and takes another one into use when the current one does not answer or is behind.
    /// One that has not reached `at_least` is not taken.
    pub async fn choose<H, F>(&self, at_least: u64, reach: H)
    where
        H: Fn(Self) -> F,
        F: Future<Output = Option<Reach>>,
    {
        if !self.has_choice() {
            return;
        }
        let asked = (0..self.members.len()).map(|index| {
            let one = Self { pinned: Some(index), ..self.clone() };
            async { timeout(PATIENCE, reach(one)).await.ok().flatten() }
        });
        let reaches = futures::future::join_all(asked).await;
        let current = self.index();
        if let Some(better) = better(&reaches, current, at_least) {
            self.current.store(better, Ordering::Release);
            let (from, to) = (self.members[current].origin(), self.members[better].origin());
            metrics::endpoint_switched(self.members[better].kind().as_str());
            tracing::warn!(kind = self.members[better].kind().as_str(), from, to, "another server is used");
        }
    }

    /// Asks the current one; when it does not answer, another one that has reached `at_least`.
    pub async fn read<T, E, A, AF, H, HF>(&self, at_least: u64, ask: A, reach: H) -> Result<T, E>
    where
        E: NoAnswer,
        A: Fn(Self) -> AF,
        AF: Future<Output = Result<T, E>>,
        H: Fn(Self) -> HF,
        HF: Future<Output = Option<Reach>>,
    {
        let first = self.index();
        let error = match ask(Self { pinned: Some(first), ..self.clone() }).await {
            Err(error) if error.is_no_answer() && self.pinned.is_none() => error,
            answered => return answered,
        };
        for index in (0..self.members.len()).filter(|index| *index != first) {
            let other = Self { pinned: Some(index), ..self.clone() };
            let reached = timeout(PATIENCE, reach(other.clone())).await.ok().flatten();
            if reached.is_some_and(|reach| reach.height >= at_least)
                && let Ok(answer) = ask(other).await
            {
                return Ok(answer);
            }
        }
        Err(error)
    }
}

/// Which one to use instead of the current one, if any: the furthest that is ready, or the furthest at all.
fn better(reaches: &[Option<Reach>], current: usize, at_least: u64) -> Option<usize> {
    let usable = |index: usize| reaches[index].filter(|reach| reach.height >= at_least);
    let rank = |reach: Reach| (reach.is_ready, reach.height);
    // Of equals the first: it is preferred.
    let best =
        (0..reaches.len()).rev().filter(|index| usable(*index).is_some()).max_by_key(|i| usable(*i).map(rank))?;
    let is_good_enough = match (usable(current), usable(best)) {
        (Some(now), Some(then)) => now.height + TOLERANCE >= then.height && (now.is_ready || !then.is_ready),
        _ => false,
    };
    (!is_good_enough && best != current).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_one_is_left_only_for_a_better_one() {
        let at = |height| Some(Reach { height, is_ready: true });
        let syncing = |height| Some(Reach { height, is_ready: false });
        for (reaches, current, at_least, expected) in [
            (vec![at(10), at(12)], 0, 0, None),
            (vec![at(10), at(13)], 0, 0, Some(1)),
            (vec![None, at(5), at(5)], 0, 0, Some(1)),
            (vec![None, at(5), at(9)], 0, 0, Some(2)),
            (vec![None, at(5)], 0, 6, None),
            (vec![None, None], 0, 0, None),
            (vec![at(10), None], 1, 0, Some(0)),
            (vec![syncing(10), at(9)], 0, 0, Some(1)),
            (vec![syncing(10), syncing(9)], 0, 0, None),
            (vec![None, syncing(9)], 0, 0, Some(1)),
        ] {
            assert_eq!(better(&reaches, current, at_least), expected, "{reaches:?}");
        }
    }

    #[test]
    fn a_list_of_origins_is_all_good_or_bad() {
        let read = |text: &str| text.starts_with("http").then(|| text.to_owned());
        let origins = Origins::parse("http://a, http://b", read).expect("two");
        assert_eq!(origins.to_string(), "http://a, http://b");
        assert_eq!(Origins::from("http://a".to_owned()).and("http://b"), origins);
        assert!(Origins::parse("http://a,", read).is_none() && Origins::parse("", read).is_none());
    }
}
