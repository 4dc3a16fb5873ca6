//! Documents that are kept, and for how long.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use moka::{Expiry, future::Cache};
use serde_json::Value;

use crate::fetch::Freshness;
use crate::weight;

/// How long a document is kept of which nobody says it.
const UNSPECIFIED: Duration = Duration::from_secs(5 * 60);
/// Longest time a document is kept, whatever is said.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// Memory of all kept documents.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

pub(super) type Documents = Cache<Arc<str>, Kept>;

/// A document that is kept.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub document: Arc<Value>,
    time: Duration,
}

impl Kept {
    /// `None`: it is used once.
    pub fn new(document: Arc<Value>, ttl: Option<u32>, freshness: Freshness) -> Option<Self> {
        time(ttl, freshness).map(|time| Self { document, time })
    }
}

/// An empty cache.
pub(super) fn documents() -> Documents {
    Cache::builder()
        .max_capacity(MAX_BYTES)
        .weigher(|did: &Arc<str>, kept: &Kept| {
            u32::try_from(did.len() + weight::of_value(&kept.document)).unwrap_or(u32::MAX)
        })
        .expire_after(TimeOfEach)
        .build()
}

/// A `ttl` is the controller's word, proven by the log; headers are the server's.
fn time(ttl: Option<u32>, freshness: Freshness) -> Option<Duration> {
    let time = match (ttl, freshness) {
        (Some(seconds), _) => Duration::from_secs(seconds.into()),
        (None, Freshness::For(time)) => time,
        (None, Freshness::Unspecified) => UNSPECIFIED,
        (None, Freshness::NotKept) => Duration::ZERO,
    };
    (time > Duration::ZERO).then(|| time.min(LONGEST))
}

struct TimeOfEach;

impl Expiry<Arc<str>, Kept> for TimeOfEach {
    fn expire_after_create(&self, _: &Arc<str>, kept: &Kept, _: Instant) -> Option<Duration> {
        Some(kept.time)
    }

    fn expire_after_update(&self, _: &Arc<str>, kept: &Kept, _: Instant, _: Option<Duration>) -> Option<Duration> {
        Some(kept.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_kept_as_long_as_the_log_says_or_else_the_server() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let kept = |seconds| Freshness::For(Duration::from_secs(seconds));
        for (ttl, freshness, expected) in [
            (None, Freshness::Unspecified, seconds(300)),
            (None, Freshness::NotKept, None),
            (None, kept(10), seconds(10)),
            (None, kept(u64::MAX), seconds(3600)),
            (Some(60), Freshness::Unspecified, seconds(60)),
            (Some(60), kept(10), seconds(60)),
            (Some(60), Freshness::NotKept, seconds(60)),
            (Some(0), Freshness::Unspecified, None),
            (Some(0), kept(10), None),
            (Some(u32::MAX), Freshness::Unspecified, seconds(3600)),
        ] {
            assert_eq!(time(ttl, freshness), expected, "{ttl:?} {freshness:?}");
        }
    }

    #[tokio::test]
    async fn what_is_kept_has_its_own_time_and_takes_bounded_memory() {
        let (documents, did) = (documents(), Arc::<str>::from("did:web:example.org"));
        let kept =
            |document: Value, ttl| Kept::new(Arc::new(document), Some(ttl), Freshness::Unspecified).expect("kept");
        documents.insert(Arc::clone(&did), kept(Value::from(1), 1)).await;
        documents.insert(Arc::clone(&did), kept(Value::from(2), 3600)).await;
        let policy = TimeOfEach.expire_after_update(&did, &kept(Value::from(2), 7), Instant::now(), None);
        assert_eq!(policy, Some(Duration::from_secs(7)), "a new document brings its own time");
        for number in 0..100 {
            let did = format!("did:web:{number}.example.org").into();
            documents.insert(did, kept(Value::from("x".repeat(1024 * 1024)), 60)).await;
        }
        documents.run_pending_tasks().await;
        assert!(documents.weighted_size() <= MAX_BYTES, "{}", documents.weighted_size());
    }
}
