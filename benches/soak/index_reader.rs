//! Checks by a read of the indexer that an ecosystem is there, once a write has been answered as indexed.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tokio::time::{Instant, sleep};

/// The indexer comes and goes: it is asked again until it answers.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Reads of the operator's own indexer, with their findings.
pub struct IndexReader {
    origin: String,
    http: reqwest::Client,
    /// How often the chain has gone back. An id belongs to another ecosystem afterwards.
    histories: AtomicU64,
    confirmed: AtomicU64,
    unanswered: AtomicU64,
    untrue: Mutex<Vec<String>>,
}

impl IndexReader {
    pub fn new(origin: String) -> Self {
        let http = reqwest::Client::builder().timeout(Duration::from_secs(2)).build().expect("a client");
        let [histories, confirmed, unanswered] = std::array::from_fn(|_| AtomicU64::new(0));
        Self { origin, http, histories, confirmed, unanswered, untrue: Mutex::default() }
    }

    /// The history in which a call is made.
    pub fn history(&self) -> u64 {
        self.histories.load(Ordering::Acquire)
    }

    /// The chain is about to lose blocks.
    pub fn begin_another_history(&self) {
        self.histories.fetch_add(1, Ordering::AcqRel);
    }

    /// Reads the ecosystem of an answer with `indexer_synced: true`. Nothing is compared once the chain has gone back.
    pub async fn confirm(&self, answer: &Value, did: &str, history: u64) {
        let Some(id) = answer["response"]["ecosystem_id"].as_str() else {
            self.note(format!("an answer without an id: {answer}"));
            return;
        };
        let url = format!("{}/v4/ecosystem/get/{id}", self.origin);
        let deadline = Instant::now() + READ_TIMEOUT;
        while Instant::now() < deadline {
            let found = self.read(&url).await;
            if self.history() != history {
                return;
            }
            match found {
                Some((200, body)) if body["ecosystem"]["did"] == did => {
                    self.confirmed.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Some((status @ (200 | 404 | 410), body)) => {
                    self.note(format!("answered as indexed, and read as {status} {body}: {answer}"));
                    return;
                }
                _ => sleep(RETRY_PAUSE).await,
            }
        }
        self.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    async fn read(&self, url: &str) -> Option<(u16, Value)> {
        let response = self.http.get(url).send().await.ok()?;
        let status = response.status().as_u16();
        Some((status, response.json().await.unwrap_or_default()))
    }

    fn note(&self, words: String) {
        self.untrue.lock().unwrap_or_else(PoisonError::into_inner).push(words);
    }

    /// Answers that a read has contradicted.
    pub fn untrue(&self) -> Vec<String> {
        self.untrue.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The number of answers by the outcome of their read.
    pub fn counts(&self) -> [(&'static str, u64); 2] {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            ("answers as indexed, confirmed by a read", load(&self.confirmed)),
            ("reads without an answer", load(&self.unanswered)),
        ]
    }
}
