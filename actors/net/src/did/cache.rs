//! The cache of verified documents.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use moka::{Expiry, future::Cache};
use serde_json::Value;

use crate::{fetch::Freshness, json_memory};

/// Cache time of a document without a stated time.
const DEFAULT_TTL: Duration = Duration::from_secs(5 * 60);
/// Longest cache time.
const MAX_TTL: Duration = Duration::from_secs(60 * 60);
/// Memory of all cached documents.
const MAX_CACHE_BYTES: u64 = 32 * 1024 * 1024;

pub(super) type DocumentCache = Cache<Arc<str>, CachedDocument>;

/// A document in the cache.
#[derive(Debug, Clone)]
pub(super) struct CachedDocument {
    pub document: Arc<Value>,
    ttl: Duration,
}

impl CachedDocument {
    /// Makes an entry for the cache; `None` when the document must not be cached.
    pub fn new(document: Arc<Value>, ttl: Option<u32>, freshness: Freshness) -> Option<Self> {
        cache_ttl(ttl, freshness).map(|time| Self { document, ttl: time })
    }
}

/// The logs that were verified last, by DID.
pub(super) type VerifiedLogs = Cache<Arc<str>, VerifiedLog>;

/// A log with the document that it proves. The document of equal bytes needs no other verification: a log proves itself.
#[derive(Debug, Clone)]
pub(super) struct VerifiedLog {
    pub log: Bytes,
    /// `versionId` of each entry, the oldest first.
    pub version_ids: Arc<[String]>,
    pub witnesses: Option<Bytes>,
    pub document: Arc<Value>,
    /// Cache time in seconds, when the controller states one.
    pub ttl: Option<u32>,
}

/// Makes an empty cache of logs, with the same bound of memory as that of the documents.
pub(super) fn new_verified_logs() -> VerifiedLogs {
    Cache::builder()
        .max_capacity(MAX_CACHE_BYTES)
        .weigher(|did: &Arc<str>, verified: &VerifiedLog| {
            let bytes = verified.log.len() + verified.witnesses.as_ref().map_or(0, Bytes::len);
            u32::try_from(did.len() + bytes + json_memory::of_value(&verified.document)).unwrap_or(u32::MAX)
        })
        .build()
}

/// Makes an empty cache.
pub(super) fn new_document_cache() -> DocumentCache {
    Cache::builder()
        .max_capacity(MAX_CACHE_BYTES)
        .weigher(|did: &Arc<str>, cached: &CachedDocument| {
            u32::try_from(did.len() + json_memory::of_value(&cached.document)).unwrap_or(u32::MAX)
        })
        .expire_after(DocumentExpiry)
        .build()
}

/// The `ttl` comes from the controller and is proven by the log, so it goes before the headers of the server.
fn cache_ttl(ttl: Option<u32>, freshness: Freshness) -> Option<Duration> {
    let time = match (ttl, freshness) {
        (Some(seconds), _) => Duration::from_secs(seconds.into()),
        (None, Freshness::Lifetime(time)) => time,
        (None, Freshness::Unspecified) => DEFAULT_TTL,
        (None, Freshness::Uncacheable) => Duration::ZERO,
    };
    (time > Duration::ZERO).then(|| time.min(MAX_TTL))
}

struct DocumentExpiry;

impl Expiry<Arc<str>, CachedDocument> for DocumentExpiry {
    fn expire_after_create(&self, _: &Arc<str>, cached: &CachedDocument, _: Instant) -> Option<Duration> {
        Some(cached.ttl)
    }

    fn expire_after_update(
        &self,
        _: &Arc<str>,
        cached: &CachedDocument,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(cached.ttl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_time_comes_from_the_log_or_else_from_the_server() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let cached = |seconds| Freshness::Lifetime(Duration::from_secs(seconds));
        for (ttl, freshness, expected) in [
            (None, Freshness::Unspecified, seconds(300)),
            (None, Freshness::Uncacheable, None),
            (None, cached(10), seconds(10)),
            (None, cached(u64::MAX), seconds(3600)),
            (Some(60), Freshness::Unspecified, seconds(60)),
            (Some(60), cached(10), seconds(60)),
            (Some(60), Freshness::Uncacheable, seconds(60)),
            (Some(0), Freshness::Unspecified, None),
            (Some(0), cached(10), None),
            (Some(u32::MAX), Freshness::Unspecified, seconds(3600)),
        ] {
            assert_eq!(cache_ttl(ttl, freshness), expected, "{ttl:?} {freshness:?}");
        }
    }

    #[tokio::test]
    async fn each_document_has_its_own_cache_time_and_the_memory_is_bounded() {
        let (documents, did) = (new_document_cache(), Arc::<str>::from("did:web:example.org"));
        let cached = |document: Value, ttl| {
            CachedDocument::new(Arc::new(document), Some(ttl), Freshness::Unspecified).expect("cached")
        };
        documents.insert(Arc::clone(&did), cached(Value::from(1), 1)).await;
        documents.insert(Arc::clone(&did), cached(Value::from(2), 3600)).await;
        let policy = DocumentExpiry.expire_after_update(&did, &cached(Value::from(2), 7), Instant::now(), None);
        assert_eq!(policy, Some(Duration::from_secs(7)), "a new document has its own time");
        for number in 0..100 {
            let did = format!("did:web:{number}.example.org").into();
            documents.insert(did, cached(Value::from("x".repeat(1024 * 1024)), 60)).await;
        }
        documents.run_pending_tasks().await;
        assert!(documents.weighted_size() <= MAX_CACHE_BYTES, "{}", documents.weighted_size());
    }
}
