//! The delay of wrong tokens, by address. Pure.

use std::{collections::HashMap, time::Duration};

use svc_net::listener::AddressKey;
use tokio::time::Instant;

/// Wrong tokens of an address that are answered at once.
const FREE_FAILURES: u32 = 10;
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(5);
/// Time after which an address begins again.
const MEMORY: Duration = Duration::from_secs(10 * 60);
/// Addresses that are remembered. The one whose last failure is the oldest is forgotten first.
const MAX_ADDRESSES: usize = 4_096;

/// Remembers wrong tokens.
#[derive(Debug, Default)]
pub struct WrongTokenThrottle(HashMap<AddressKey, Failures>);

#[derive(Debug)]
struct Failures {
    count: u32,
    last: Instant,
}

impl WrongTokenThrottle {
    /// Counts a wrong token of an address. Returns the delay of its answer.
    pub fn record(&mut self, address: AddressKey, now: Instant) -> Duration {
        if !self.0.contains_key(&address) && self.0.len() >= MAX_ADDRESSES {
            self.0.retain(|_, failures| now < failures.last + MEMORY);
            let oldest = self.0.iter().min_by_key(|(_, failures)| failures.last).map(|(address, _)| *address);
            if let Some(oldest) = oldest.filter(|_| self.0.len() >= MAX_ADDRESSES) {
                self.0.remove(&oldest);
            }
        }
        let failures = self.0.entry(address).or_insert(Failures { count: 0, last: now });
        if now >= failures.last + MEMORY {
            failures.count = 0;
        }
        *failures = Failures { count: failures.count.saturating_add(1), last: now };
        match failures.count.checked_sub(FREE_FAILURES + 1) {
            None => Duration::ZERO,
            Some(doublings) => FIRST_DELAY.saturating_mul(1 << doublings.min(16)).min(LONGEST_DELAY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_tokens_of_one_address_are_slowed_and_the_memory_is_bounded() {
        let address = |number: u32| AddressKey::from(std::net::IpAddr::from(number.to_be_bytes()));
        let (mut throttle, begun) = (WrongTokenThrottle::default(), Instant::now());
        let delays: Vec<Duration> = (0..20).map(|_| throttle.record(address(1), begun)).collect();
        assert!(delays[..10].iter().all(Duration::is_zero));
        assert_eq!(delays[10..13], [100, 200, 400].map(Duration::from_millis));
        assert_eq!(delays[19], LONGEST_DELAY);
        assert!(throttle.record(address(2), begun).is_zero(), "another address");
        assert!(throttle.record(address(1), begun + MEMORY).is_zero(), "after a while");
        for number in 10..20_000 {
            throttle.record(address(number), begun + MEMORY);
        }
        assert_eq!(throttle.0.len(), MAX_ADDRESSES);
    }
}
