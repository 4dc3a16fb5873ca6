//! Rates of messages: one bucket for each peer, and one for strangers. Pure but for its lock.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Peers whose rate is remembered. One that was quiet for long has a full bucket, which needs no memory.
const MAX_PEERS: usize = 20_000;

/// A number of tokens that grows with time.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

/// Buckets of one rate, by name.
#[derive(Debug)]
pub(crate) struct Rates {
    per_second: f64,
    burst: f64,
    buckets: Mutex<HashMap<String, Bucket>>,
}

impl Rates {
    /// `burst` tokens at once, and `per_second` more each second.
    pub fn new(per_second: f64, burst: f64) -> Self {
        Self { per_second, burst, buckets: Mutex::default() }
    }

    /// Takes a token; else returns the seconds after which there is one.
    pub fn take(&self, name: &str, now: Instant) -> Result<(), u64> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_PEERS && !buckets.contains_key(name) {
            let full_after = Duration::from_secs_f64(self.burst / self.per_second);
            buckets.retain(|_, bucket| now.saturating_duration_since(bucket.at) < full_after);
            // So many at once have a reason: each begins again, which locks none out.
            if buckets.len() >= MAX_PEERS {
                buckets.clear();
            }
        }
        let bucket = buckets.entry(name.to_owned()).or_insert(Bucket { tokens: self.burst, at: now });
        let grown = now.saturating_duration_since(bucket.at).as_secs_f64() * self.per_second;
        (bucket.tokens, bucket.at) = ((bucket.tokens + grown).min(self.burst), now);
        if bucket.tokens < 1.0 {
            let wait = (1.0 - bucket.tokens) / self.per_second;
            return Err(wait.ceil().clamp(1.0, 60.0) as u64);
        }
        bucket.tokens -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_its_burst_and_then_its_rate_and_others_are_not_touched() {
        let (rates, start) = (Rates::new(20.0, 200.0), Instant::now());
        let taken = (0..1_000).filter(|_| rates.take("a", start).is_ok()).count();
        assert_eq!((taken, rates.take("b", start)), (200, Ok(())));
        assert_eq!(rates.take("a", start), Err(1));
        let later = start + Duration::from_secs(1);
        assert_eq!((0..1_000).filter(|_| rates.take("a", later).is_ok()).count(), 20);
    }

    #[test]
    fn the_memory_has_a_bound() {
        let (rates, start) = (Rates::new(1.0, 1.0), Instant::now());
        for peer in 0..3 * MAX_PEERS {
            assert_eq!(rates.take(&peer.to_string(), start), Ok(()), "no peer is locked out by others");
            assert!(rates.buckets.lock().expect("a lock").len() <= MAX_PEERS);
        }
    }
}
