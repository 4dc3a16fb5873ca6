//! The participants that are still to be read at the node, a bounded number at a time. Pure.

use std::collections::BTreeMap;

/// Participants that events have named and that wait; beyond them, all flows are read.
pub(super) const MAX_NAMED: usize = 10_000;
/// Attempts to read a participant before the next reading of all has to find it: a node may be silent or behind for long, and an index
/// may name heights that never come.
pub(super) const MAX_ATTEMPTS: u32 = 30;

/// A participant that is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedParticipant {
    /// Its id.
    pub id: u64,
    /// Height of the event that names it, 0 without one: a read of an earlier state says nothing about it.
    pub height: u64,
}

/// A part of the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReadStep {
    /// These participants.
    Named(Vec<NamedParticipant>),
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
    Named(Vec<NamedParticipant>),
    /// The page; the flow to go on behind, and none behind the last one. `None` when the page was not read.
    Page(Option<Option<String>>),
}

/// The reading of participants.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// The least height of each.
    named: BTreeMap<u64, u64>,
    /// Those that are read again behind a pause: the least height, and the attempts so far.
    late: BTreeMap<u64, (u64, u32)>,
    /// Whether one of them was given up.
    has_missed: bool,
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
    pub fn name(&mut self, participants: impl IntoIterator<Item = NamedParticipant>) {
        for NamedParticipant { id, height } in participants {
            let least = self.named.entry(id).or_default();
            *least = height.max(*least);
        }
        if self.named.len() + self.late.len() > MAX_NAMED {
            self.named.clear();
            self.late.clear();
            self.want(true);
        }
    }

    /// The pause is over behind which some are read again.
    pub fn pause_over(&mut self) {
        let late: Vec<_> =
            self.late.iter().map(|(id, (height, _))| NamedParticipant { id: *id, height: *height }).collect();
        self.name(late);
    }

    /// All flows are to be read, or those that are under way and, once one was given up, all.
    pub fn want(&mut self, is_whole: bool) {
        let has_missed = std::mem::take(&mut self.has_missed);
        self.wanted = Some(is_whole || has_missed || self.wanted == Some(true));
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
            let some =
                self.named.iter().take(AT_ONCE).map(|(id, height)| NamedParticipant { id: *id, height: *height });
            let some: Vec<NamedParticipant> = some.collect();
            self.named.retain(|id, _| !some.iter().any(|one| one.id == *id));
            ReadStep::Named(some)
        };
        self.step = Some(step.clone());
        Some(step)
    }

    /// A part has ended. False when a pause is needed: before the participants that were not read, and before the next page.
    pub fn ended(&mut self, end: ReadEnd) -> bool {
        let step = self.step.take();
        match end {
            ReadEnd::Named(again) => {
                if let Some(ReadStep::Named(read)) = step {
                    let is_done =
                        |id: u64| read.iter().any(|one| one.id == id) && !again.iter().any(|one| one.id == id);
                    self.late.retain(|id, _| !is_done(*id));
                }
                for NamedParticipant { id, height } in &again {
                    let (least, attempts) = self.late.entry(*id).or_default();
                    (*least, *attempts) = ((*least).max(*height), *attempts + 1);
                    if *attempts >= MAX_ATTEMPTS {
                        self.late.remove(id);
                        self.has_missed = true;
                    }
                }
                again.is_empty()
            }
            ReadEnd::Page(None) => false,
            ReadEnd::Page(Some(next)) => {
                self.page = self.page.take().and_then(|(_, is_whole)| Some((Some(next?), is_whole)));
                true
            }
        }
    }

    /// Whether participants wait that need no pause.
    pub fn has_named(&self) -> bool {
        !self.named.is_empty()
    }
}
