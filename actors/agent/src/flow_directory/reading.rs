//! The participants that are still to be read at the node, a bounded number at a time. Pure.

use std::collections::BTreeSet;

/// Participants that events have named and that wait; beyond them, all flows are read.
const MAX_NAMED: usize = 10_000;

/// A part of the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReadStep {
    /// These participants.
    Named(Vec<u64>),
    /// A page of flows, behind one of them.
    Page {
        /// The flow before the page; none for the first.
        after: Option<String>,
        /// Whether those at rest are read too.
        is_whole: bool,
    },
}

/// The end of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReadEnd {
    /// Participants of events; those that have to be read again.
    Named(Vec<u64>),
    /// The page; the flow to go on behind, and none behind the last one. `None` when the page was not read.
    Page(Option<Option<String>>),
}

/// The reading of participants.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    named: BTreeSet<u64>,
    /// The page that is next.
    page: Option<(Option<String>, bool)>,
    /// The reading that begins when the present one has ended, and whether it is whole.
    wanted: Option<bool>,
    step: Option<ReadStep>,
}

/// Participants of events that are read at a time.
const AT_ONCE: usize = 100;

impl Reading {
    /// Events name participants.
    pub fn name(&mut self, ids: impl IntoIterator<Item = u64>) {
        self.named.extend(ids);
        if self.named.len() > MAX_NAMED {
            self.named.clear();
            self.want(true);
        }
    }

    /// All flows are to be read, or those that are under way.
    pub fn want(&mut self, is_whole: bool) {
        self.wanted = Some(is_whole || self.wanted == Some(true));
    }

    /// The next part, unless one is being read. Events go before pages.
    pub fn begin(&mut self) -> Option<ReadStep> {
        if self.step.is_some() {
            return None;
        }
        let step = if self.named.is_empty() {
            if self.page.is_none() {
                self.page = self.wanted.take().map(|is_whole| (None, is_whole));
            }
            let (after, is_whole) = self.page.clone()?;
            ReadStep::Page { after, is_whole }
        } else {
            let some: Vec<u64> = self.named.iter().take(AT_ONCE).copied().collect();
            self.named.retain(|id| !some.contains(id));
            ReadStep::Named(some)
        };
        self.step = Some(step.clone());
        Some(step)
    }

    /// A part has ended. False when a pause is needed before the next one.
    pub fn ended(&mut self, end: ReadEnd) -> bool {
        self.step = None;
        match end {
            ReadEnd::Named(again) => {
                let is_done = again.is_empty();
                self.name(again);
                is_done
            }
            ReadEnd::Page(None) => false,
            ReadEnd::Page(Some(next)) => {
                self.page = self.page.take().and_then(|(_, is_whole)| Some((Some(next?), is_whole)));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(after: Option<&str>, is_whole: bool) -> Option<ReadStep> {
        Some(ReadStep::Page { after: after.map(str::to_owned), is_whole })
    }

    #[test]
    fn events_go_before_pages_and_a_failed_part_is_read_again() {
        let mut reading = Reading::default();
        assert_eq!(reading.begin(), None);
        reading.want(false);
        assert_eq!(reading.begin(), page(None, false));
        reading.name([3, 1]);
        assert_eq!(reading.begin(), None, "one part at a time");
        assert!(reading.ended(ReadEnd::Page(Some(Some("f".into())))));
        assert_eq!(reading.begin(), Some(ReadStep::Named(vec![1, 3])));
        assert!(!reading.ended(ReadEnd::Named(vec![3])));
        assert_eq!(reading.begin(), Some(ReadStep::Named(vec![3])));
        assert!(reading.ended(ReadEnd::Named(vec![])));
        assert_eq!(reading.begin(), page(Some("f"), false));
        assert!(!reading.ended(ReadEnd::Page(None)));
        reading.want(true);
        assert_eq!(reading.begin(), page(Some("f"), false), "the page once more");
        assert!(reading.ended(ReadEnd::Page(Some(None))));
        assert_eq!(reading.begin(), page(None, true));
        assert!(reading.ended(ReadEnd::Page(Some(None))));
        assert_eq!(reading.begin(), None);
    }

    #[test]
    fn too_many_names_become_a_reading_of_all() {
        let mut reading = Reading::default();
        reading.name(0..=MAX_NAMED as u64);
        assert_eq!(reading.begin(), page(None, true));
    }
}
