//! Equivalent servers: one is current, and another one replaces it when it fails.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use svc_otel::metrics;
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use super::{
    http_client::HttpUpstream,
    upstream_error::{UpstreamError, UpstreamKind},
};

/// Origins of equivalent servers in the order of preference; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamOrigins(Vec<String>);

impl UpstreamOrigins {
    /// Parses a comma-separated list. `None` when `read` refuses an element, and when the list is empty.
    pub fn parse(text: &str, read: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let all: Option<Vec<String>> = text.split(',').map(|one| read(one.trim())).collect();
        all.filter(|all| !all.is_empty()).map(Self)
    }

    /// Iterates over all origins.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns the list with one more origin at the end.
    #[must_use]
    pub fn with_origin(mut self, origin: impl Into<String>) -> Self {
        self.0.push(origin.into());
        self
    }
}

impl From<String> for UpstreamOrigins {
    fn from(origin: String) -> Self {
        Self(vec![origin])
    }
}

impl From<&str> for UpstreamOrigins {
    fn from(origin: &str) -> Self {
        Self(vec![origin.to_owned()])
    }
}

impl From<&String> for UpstreamOrigins {
    fn from(origin: &String) -> Self {
        origin.clone().into()
    }
}

impl From<&UpstreamOrigins> for UpstreamOrigins {
    fn from(origins: &UpstreamOrigins) -> Self {
        origins.clone()
    }
}

impl fmt::Display for UpstreamOrigins {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join(", "))
    }
}

/// Progress of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointReach {
    /// Newest height of the server.
    pub height: u64,
    /// False while the server catches up.
    pub is_ready: bool,
}

/// An error of a request to one of several equivalent servers.
pub trait FailoverError {
    /// Whether another server may succeed: there was no answer, or no readable one.
    fn allows_failover(&self) -> bool;
}

impl FailoverError for UpstreamError {
    fn allows_failover(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Paused { .. } | Self::Protocol { .. } => true,
            Self::Http { status, .. } => matches!(status, 502..=504),
            Self::Saturated { .. } => false,
        }
    }
}

/// Clients of equivalent servers. Clones share the current one.
#[derive(Clone)]
pub struct UpstreamEndpoints {
    upstreams: Arc<[HttpUpstream]>,
    current: Arc<watch::Sender<usize>>,
    pinned: Option<usize>,
    /// Whether each server is left out.
    left_out: Arc<[AtomicBool]>,
    recovery: Arc<Notify>,
}

/// Blocks that the current server may be behind the best one before the best one replaces it.
const MAX_HEIGHT_LAG: u64 = 2;
/// Timeout of the question for the progress of a server.
const REACH_TIMEOUT: Duration = Duration::from_secs(3);

impl UpstreamEndpoints {
    /// Makes clients of all origins; the first is current.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn new(kind: UpstreamKind, origins: &UpstreamOrigins) -> Result<Self, UpstreamError> {
        let recovery = Arc::<Notify>::default();
        let connect = |origin| HttpUpstream::with_recovery_signal(kind, origin, Arc::clone(&recovery));
        let members: Result<Vec<_>, _> = origins.iter().map(connect).collect();
        let left_out = origins.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(Self {
            upstreams: members?.into(),
            current: Arc::new(watch::Sender::new(0)),
            pinned: None,
            left_out,
            recovery,
        })
    }

    /// Waits until a request to one of the servers succeeds after one that failed.
    pub async fn recovered(&self) {
        self.recovery.notified().await;
    }

    /// Returns the same servers, of which the same one is current, with connections, permits and circuit breakers of its own: requests
    /// of one kind cannot delay or stop those of the other.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn with_own_connections(&self) -> Result<Self, UpstreamError> {
        let connect = |one: &HttpUpstream| {
            HttpUpstream::with_recovery_signal(one.kind(), one.origin(), Arc::clone(&self.recovery))
        };
        let twins: Result<Vec<_>, _> = self.upstreams.iter().map(connect).collect();
        Ok(Self { upstreams: twins?.into(), ..self.clone() })
    }

    fn current_index(&self) -> usize {
        self.pinned.unwrap_or_else(|| *self.current.borrow()).min(self.upstreams.len() - 1)
    }

    /// Returns the current server.
    pub fn current(&self) -> &HttpUpstream {
        &self.upstreams[self.current_index()]
    }

    /// Waits until the server at `origin` is not the current one.
    pub async fn replaced(&self, origin: &str) {
        let mut changes = self.current.subscribe();
        while self.current().origin() == origin {
            // The sender lives as long as this client.
            let _ = changes.changed().await;
        }
    }

    /// Returns the same servers with the current one fixed.
    #[must_use]
    pub fn pinned(&self) -> Self {
        Self { pinned: Some(self.current_index()), ..self.clone() }
    }

    /// Returns the servers that are not current, each of them fixed.
    pub fn alternatives(&self) -> Vec<Self> {
        let current = self.current_index();
        let pinned = |index: usize| Self { pinned: Some(index), ..self.clone() };
        (0..self.upstreams.len()).filter(|index| *index != current && !self.is_left_out(*index)).map(pinned).collect()
    }

    /// Leaves a server out, or takes it in again: one that is left out is not selected, and no alternative of another one.
    pub fn leave_out(&self, origin: &str, is_left_out: bool) {
        for (upstream, flag) in self.upstreams.iter().zip(self.left_out.iter()) {
            if upstream.origin() == origin {
                flag.store(is_left_out, Ordering::Release);
            }
        }
    }

    pub(super) fn is_left_out(&self, index: usize) -> bool {
        self.left_out[index].load(Ordering::Acquire)
    }

    /// Whether there is more than one server.
    pub fn has_alternatives(&self) -> bool {
        self.upstreams.len() > 1
    }

    /// Returns the origins of all servers.
    pub fn origins(&self) -> Vec<&str> {
        self.upstreams.iter().map(HttpUpstream::origin).collect()
    }

    /// Asks all servers for their progress, and replaces the current one when it does not answer or is behind. The new one has
    /// reached `at_least`. A height above `plausible_height` counts only when another server has it too; `None` believes every height.
    /// Returns the answers, in the order of the servers.
    pub async fn select_current<H, F>(
        &self,
        at_least: u64,
        plausible_height: Option<u64>,
        reach: H,
    ) -> Vec<Option<EndpointReach>>
    where
        H: Fn(Self) -> F,
        F: Future<Output = Option<EndpointReach>>,
    {
        let (reaches, better) = self.compare(at_least, plausible_height, reach).await;
        if let Some(better) = better {
            self.use_server(better);
        }
        reaches
    }

    /// Asks all servers for their progress. Returns the one, fixed, that replaces the current one by the rules of
    /// [`UpstreamEndpoints::select_current`]; the caller ends the streams of the current one before it [uses](Self::use_origin) the other.
    pub async fn find_better<H, F>(&self, at_least: u64, plausible_height: Option<u64>, reach: H) -> Option<Self>
    where
        H: Fn(Self) -> F,
        F: Future<Output = Option<EndpointReach>>,
    {
        let (_, better) = self.compare(at_least, plausible_height, reach).await;
        better.map(|index| Self { pinned: Some(index), ..self.clone() })
    }

    /// Makes the server at an origin the current one.
    pub fn use_origin(&self, origin: &str) {
        if let Some(index) = self.index_of(origin) {
            self.use_server(index);
        }
    }

    /// The same servers with the one at an origin fixed; `None` when none of them has it.
    pub fn at_origin(&self, origin: &str) -> Option<Self> {
        self.index_of(origin).map(|index| Self { pinned: Some(index), ..self.clone() })
    }

    fn index_of(&self, origin: &str) -> Option<usize> {
        self.upstreams.iter().position(|upstream| upstream.origin() == origin)
    }

    fn use_server(&self, index: usize) {
        let mut before = index;
        let is_replaced = self.current.send_if_modified(|current| {
            before = std::mem::replace(current, index);
            before != index
        });
        if !is_replaced {
            return;
        }
        let kind = self.upstreams[index].kind().as_str();
        let (from, to) = (self.upstreams[before].origin(), self.upstreams[index].origin());
        metrics::record_endpoint_switch(kind);
        tracing::warn!(kind, from, to, "the current server is replaced");
    }

    /// The progress of all servers, in their order, and the number of the one that should replace the current one.
    async fn compare<H, F>(
        &self,
        at_least: u64,
        plausible_height: Option<u64>,
        reach: H,
    ) -> (Vec<Option<EndpointReach>>, Option<usize>)
    where
        H: Fn(Self) -> F,
        F: Future<Output = Option<EndpointReach>>,
    {
        if !self.has_alternatives() {
            return (Vec::new(), None);
        }
        let requests = (0..self.upstreams.len()).map(|index| {
            let one = Self { pinned: Some(index), ..self.clone() };
            async { timeout(REACH_TIMEOUT, reach(one)).await.ok().flatten() }
        });
        let mut reaches = futures::future::join_all(requests).await;
        for (index, reach) in reaches.iter_mut().enumerate().filter(|(index, _)| self.is_left_out(*index)) {
            tracing::debug!(origin = self.upstreams[index].origin(), "the server is left out");
            *reach = None;
        }
        let believed = believed_reaches(&reaches, plausible_height);
        let better = better_endpoint(&believed, self.current_index(), at_least);
        (reaches, better)
    }

    /// Returns each server, fixed.
    pub fn all(&self) -> Vec<Self> {
        (0..self.upstreams.len()).map(|index| Self { pinned: Some(index), ..self.clone() }).collect()
    }

    /// Asks the current server, and after an error that allows failover the others that have reached `at_least`.
    ///
    /// # Errors
    /// The error of the current server, when no other server answers.
    pub async fn read_with_failover<T, E, A, AF, H, HF>(&self, at_least: u64, ask: A, reach: H) -> Result<T, E>
    where
        E: FailoverError,
        A: Fn(Self) -> AF,
        AF: Future<Output = Result<T, E>>,
        H: Fn(Self) -> HF,
        HF: Future<Output = Option<EndpointReach>>,
    {
        let first = self.current_index();
        let error = match ask(Self { pinned: Some(first), ..self.clone() }).await {
            Err(error) if error.allows_failover() && self.pinned.is_none() => error,
            outcome => return outcome,
        };
        for index in (0..self.upstreams.len()).filter(|index| *index != first && !self.is_left_out(*index)) {
            let other = Self { pinned: Some(index), ..self.clone() };
            let reached = timeout(REACH_TIMEOUT, reach(other.clone())).await.ok().flatten();
            if reached.is_some_and(|reach| reach.height >= at_least)
                && let Ok(answer) = ask(other).await
            {
                return Ok(answer);
            }
        }
        Err(error)
    }
}

/// Returns the answers; a server with a height that nothing supports counts as one at the beginning. A height is supported by the
/// clock, by another server that has it, and by the absence of another server that is ready.
fn believed_reaches(reaches: &[Option<EndpointReach>], plausible_height: Option<u64>) -> Vec<Option<EndpointReach>> {
    let is_supported = |index: usize, height: u64| {
        let others = || reaches.iter().enumerate().filter(|(other, _)| *other != index).filter_map(|(_, reach)| *reach);
        others().any(|other| other.height + MAX_HEIGHT_LAG >= height) || !others().any(|other| other.is_ready)
    };
    let believe = |(index, reach): (usize, &Option<EndpointReach>)| {
        let reach = (*reach)?;
        let is_believed =
            plausible_height.is_none_or(|limit| reach.height <= limit) || is_supported(index, reach.height);
        Some(if is_believed { reach } else { EndpointReach { height: 0, is_ready: false } })
    };
    reaches.iter().enumerate().map(believe).collect()
}

/// Returns the server that replaces the current one, if any: the highest one that is ready, or else the highest one.
fn better_endpoint(reaches: &[Option<EndpointReach>], current: usize, at_least: u64) -> Option<usize> {
    let usable = |index: usize| reaches[index].filter(|reach| reach.height >= at_least);
    let rank = |reach: EndpointReach| (reach.is_ready, reach.height);
    // Among equals the first one is preferred.
    let best =
        (0..reaches.len()).rev().filter(|index| usable(*index).is_some()).max_by_key(|i| usable(*i).map(rank))?;
    let is_good_enough = match (usable(current), usable(best)) {
        (Some(now), Some(then)) => now.height + MAX_HEIGHT_LAG >= then.height && (now.is_ready || !then.is_ready),
        _ => false,
    };
    (!is_good_enough && best != current).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_server_is_replaced_by_a_better_one_only() {
        let at = |height| Some(EndpointReach { height, is_ready: true });
        let syncing = |height| Some(EndpointReach { height, is_ready: false });
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
            assert_eq!(better_endpoint(&reaches, current, at_least), expected, "{reaches:?}");
        }
    }

    #[test]
    fn a_server_is_not_preferred_for_a_height_that_only_it_has() {
        let at = |height| Some(EndpointReach { height, is_ready: true });
        for (reaches, current, plausible, expected) in [
            // The tall one is replaced, and never selected.
            (vec![at(1_000), at(100)], 0, Some(120), Some(1)),
            (vec![at(100), at(1_000)], 0, Some(120), None),
            // Two have the height, or the clock explains it.
            (vec![at(100), at(1_000), at(999)], 0, Some(120), Some(1)),
            (vec![at(100), at(118)], 0, Some(120), Some(1)),
            // It is the only one that answers.
            (vec![None, at(1_000)], 0, Some(120), Some(1)),
            (vec![None, at(1_000)], 1, Some(120), None),
            (vec![at(100), at(1_000)], 0, None, Some(1)),
            // The other one catches up.
            (vec![Some(EndpointReach { height: 100, is_ready: false }), at(1_000)], 0, Some(120), Some(1)),
        ] {
            let believed = believed_reaches(&reaches, plausible);
            assert_eq!(better_endpoint(&believed, current, 0), expected, "{reaches:?}");
        }
    }

    #[test]
    fn one_bad_origin_makes_the_list_invalid() {
        let read = |text: &str| text.starts_with("http").then(|| text.to_owned());
        let origins = UpstreamOrigins::parse("http://a, http://b", read).expect("two");
        assert_eq!(origins.to_string(), "http://a, http://b");
        assert_eq!(UpstreamOrigins::from("http://a".to_owned()).with_origin("http://b"), origins);
        assert!(UpstreamOrigins::parse("http://a,", read).is_none() && UpstreamOrigins::parse("", read).is_none());
    }
}
