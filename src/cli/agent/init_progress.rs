//! The lines that a person sees while `svc agent init` sends steps and waits for them. Pure: the clock is an argument.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::init::{steps, text};

/// Time between two lines about a step that is waited for.
pub(super) const TELL_PAUSE: Duration = Duration::from_secs(10);
/// Longest wait for the tool server's answer, for the node to show a step that was sent, or for a step that ends by itself.
pub(super) const STEP_TIMEOUT: Duration = Duration::from_secs(180);

/// The states of the steps that were seen last, and the times of the last change and of the last line.
pub(super) struct SetupProgress {
    states: Vec<(Value, Value)>,
    changed_at: Instant,
    told_at: Instant,
}

impl SetupProgress {
    pub fn begin(now: Instant) -> Self {
        Self { states: Vec::new(), changed_at: now, told_at: now }
    }

    /// Whether the steps were seen once.
    pub fn has_looked(&self) -> bool {
        !self.states.is_empty()
    }

    /// The lines about the steps that have changed since the last look; none at the first one.
    pub fn look(&mut self, setup: &Value, now: Instant) -> Vec<String> {
        // The times in the messages change with each look.
        let states: Vec<_> = steps(setup).map(|step| (step["id"].clone(), step["state"].clone())).collect();
        if states == self.states {
            return Vec::new();
        }
        let is_changed = |state: &&(Value, Value)| !self.states.is_empty() && !self.states.contains(state);
        let lines = states.iter().filter(is_changed).map(|(id, state)| format!("{}: {}", text(id), text(state)));
        let lines = lines.collect();
        (self.states, self.changed_at, self.told_at) = (states, now, now);
        lines
    }

    /// A step was sent: the wait for it begins.
    pub fn sent(&mut self, now: Instant) {
        (self.changed_at, self.told_at) = (now, now);
    }

    /// Whether a step is still waited for.
    pub fn has_time(&self, now: Instant) -> bool {
        now.duration_since(self.changed_at) <= STEP_TIMEOUT
    }

    /// The line about a step that is waited for, when one is due: its reason, and the longest time left.
    pub fn wait(&mut self, step: &Value, now: Instant) -> Option<String> {
        if now.duration_since(self.told_at) < TELL_PAUSE {
            return None;
        }
        self.told_at = now;
        let left = STEP_TIMEOUT.saturating_sub(now.duration_since(self.changed_at)).as_secs();
        Some(format!("{}: {}; waiting for {left} s at most", text(&step["id"]), text(&step["reason"])))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn setup(states: &[(&str, &str)]) -> Value {
        let step = |(id, state): &(&str, &str)| json!({"id": id, "state": state, "reason": format!("{id} is awaited")});
        json!({"steps": states.iter().map(step).collect::<Vec<_>>()})
    }

    #[test]
    fn a_line_follows_each_change_and_each_ten_seconds_of_a_wait() {
        let begin = Instant::now();
        let mut progress = SetupProgress::begin(begin);
        let (missing, waiting) = ([("issuer", "missing")], [("issuer", "waiting")]);
        let holder = [("issuer", "done"), ("holder", "waiting")];
        for (second, states, expected) in [
            // The first look changes nothing.
            (0, &missing[..], &[][..]),
            (9, &missing, &[]),
            (10, &missing, &["issuer: issuer is awaited; waiting for 170 s at most"]),
            (11, &missing, &[]),
            (19, &missing, &[]),
            (20, &missing, &["issuer: issuer is awaited; waiting for 160 s at most"]),
            // A change is a line at once, and its wait begins.
            (21, &waiting, &["issuer: waiting"]),
            (30, &waiting, &[]),
            (31, &waiting, &["issuer: issuer is awaited; waiting for 170 s at most"]),
            (35, &holder, &["issuer: done", "holder: waiting"]),
            (36, &holder, &[]),
            // A look may take long.
            (60, &holder, &["holder: holder is awaited; waiting for 155 s at most"]),
            (69, &holder, &[]),
            (215, &holder, &["holder: holder is awaited; waiting for 0 s at most"]),
        ] {
            let (setup, now) = (setup(states), begin + Duration::from_secs(second));
            let mut lines = progress.look(&setup, now);
            assert!(progress.has_time(now), "{second}");
            let open = steps(&setup).find(|step| step["state"] != "done").expect("an open step");
            lines.extend(progress.wait(open, now));
            assert_eq!(lines, expected, "{second}");
        }
        assert!(!progress.has_time(begin + Duration::from_secs(216)));
    }

    #[test]
    fn a_step_that_is_sent_has_the_whole_time() {
        let begin = Instant::now();
        let mut progress = SetupProgress::begin(begin);
        let at = |second| begin + Duration::from_secs(second);
        let setup = setup(&[("issuer", "missing")]);
        progress.look(&setup, at(0));
        progress.sent(at(100));
        assert!(progress.has_time(at(280)) && !progress.has_time(at(281)));
        assert_eq!(progress.wait(&setup["steps"][0], at(109)), None);
        let line = progress.wait(&setup["steps"][0], at(112)).expect("a line");
        assert_eq!(line, "issuer: issuer is awaited; waiting for 168 s at most");
    }
}
