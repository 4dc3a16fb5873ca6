//! The times of the tries of an open evaluation. Pure.

/// Delays after the first tries, in milliseconds.
const FIRST_DELAYS: [i64; 4] = [2_000, 10_000, 60_000, 300_000];
/// Delay after all later tries, and the longest that a server can ask for.
const LONGEST_DELAY: i64 = 300_000;
/// Part of a delay by which chance makes it longer or shorter, so that the tries of many indexers do not meet.
const JITTER_PERCENT: i64 = 20;

/// The end of a try.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndedTry {
    /// Number of tries so far, this one included.
    pub tries: u32,
    /// Milliseconds since the epoch.
    pub now: i64,
    /// Seconds after which the server asks for the next request.
    pub retry_after: Option<u64>,
}

/// Returns the time of the next try, at most `deadline`. `chance` is a number from -100 to 100.
pub(super) fn next_try_at(ended: EndedTry, deadline: i64, chance: i64) -> i64 {
    let index = usize::try_from(ended.tries.saturating_sub(1)).unwrap_or(usize::MAX);
    let delay = FIRST_DELAYS.get(index).copied().unwrap_or(LONGEST_DELAY);
    let jittered = delay + delay * JITTER_PERCENT * chance.clamp(-100, 100) / 10_000;
    let asked = ended.retry_after.and_then(|seconds| i64::try_from(seconds).ok()?.checked_mul(1_000));
    let asked = ended.retry_after.map_or(0, |_| asked.unwrap_or(LONGEST_DELAY).min(LONGEST_DELAY));
    ended.now.saturating_add(jittered.max(asked)).min(deadline)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_and_a_server_may_ask_for_a_longer_one() {
        let far = i64::MAX;
        for (tries, retry_after, deadline, chance, expected) in [
            (1, None, far, 0, 2_000),
            (2, None, far, 0, 10_000),
            (3, None, far, 0, 60_000),
            (4, None, far, 0, 300_000),
            (5, None, far, 0, 300_000),
            (400, None, far, 0, 300_000),
            (2, None, far, 100, 12_000),
            (2, None, far, -100, 8_000),
            (1, Some(30), far, 0, 30_000),
            (1, Some(30), far, 100, 30_000),
            (3, Some(30), far, 0, 60_000),
            (1, Some(86_400), far, 0, 300_000),
            (1, Some(u64::MAX), far, 0, 300_000),
            (4, None, 1_000 + 7_000, 0, 7_000),
        ] {
            let ended = EndedTry { tries, now: 1_000, retry_after };
            assert_eq!(next_try_at(ended, deadline, chance) - 1_000, expected, "{ended:?} {chance}");
        }
    }
}
