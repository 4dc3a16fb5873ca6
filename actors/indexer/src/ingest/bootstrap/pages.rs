//! A first state in pages. Pure.
//!
//! A page is the most that is read at once and written in one transaction, so that the memory of a start does not grow with the chain. The
//! position goes on with the last page of a list: a start that ends between two pages of one list reads that list again, and skips the
//! entities that the store has.

use std::collections::VecDeque;

use super::position::StartPosition;
use crate::{
    block::{EntityRef, VoteRecord},
    ingest::node_reader::EntityReading,
};

/// Entities and votes of a page, as many as a list of the node has.
pub const PAGE_SIZE: usize = svc_net::upstream::LIST_LIMIT as usize;

/// An entity or a vote of a first state.
#[derive(Debug, Clone)]
pub enum StartEntry {
    /// An entity, with its state where the list has it.
    Entity(EntityRef, Option<Box<EntityReading>>),
    /// A vote on an open proposal.
    Vote(VoteRecord),
}

/// A list of the node, or a part of it, and the list after it.
#[derive(Debug, Clone)]
pub struct Listing {
    pub entries: Vec<StartEntry>,
    pub next: StartPosition,
}

impl Listing {
    /// A list of entities without their states.
    pub fn of(entities: impl IntoIterator<Item = EntityRef>, next: StartPosition) -> Self {
        Self { entries: entities.into_iter().map(|one| StartEntry::Entity(one, None)).collect(), next }
    }
}

/// A page, and the position once it is written.
#[derive(Debug)]
pub struct StartPage {
    pub entries: Vec<StartEntry>,
    pub position: StartPosition,
}

/// The pages of a first state, from a position on.
#[derive(Debug)]
pub struct StartPages {
    /// The position of the pages that were given.
    position: StartPosition,
    /// Entries of lists that are read, and in no page yet.
    waiting: VecDeque<StartEntry>,
    /// Whether a page was given that ends within them.
    is_split: bool,
    /// The list after them.
    next: StartPosition,
}

impl StartPages {
    /// Goes on at a position.
    pub fn resume(position: StartPosition) -> Self {
        Self { next: position.clone(), waiting: VecDeque::new(), is_split: false, position }
    }

    /// The list to read; `None` when there is a page to write, or nothing is left.
    pub fn wanted_list(&self) -> Option<&StartPosition> {
        // The position goes on only where no entry waits, so that a split list waits for none.
        let is_short = !self.is_split && self.waiting.len() < PAGE_SIZE / 2 && self.position.joins(&self.next);
        let wants = self.next != StartPosition::End && (self.waiting.is_empty() || is_short);
        wants.then_some(&self.next)
    }

    /// Adds the wanted list.
    pub fn add(&mut self, listing: Listing) {
        self.waiting.extend(listing.entries);
        self.next = listing.next;
    }

    /// Takes the next page. The last one may be empty: it has the position at the end.
    pub fn take(&mut self) -> Option<StartPage> {
        if self.position == StartPosition::End {
            return None;
        }
        let count = self.waiting.len().min(PAGE_SIZE);
        let entries = self.waiting.drain(..count).collect();
        self.is_split = !self.waiting.is_empty();
        if !self.is_split {
            self.position = self.next.clone();
        }
        Some(StartPage { entries, position: self.position.clone() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// A chain whose lists have these numbers of sessions. The position has the number of the list as a proposal.
    struct Chain(Vec<usize>);

    impl Chain {
        fn list(&self, position: &StartPosition) -> Listing {
            let StartPosition::Votes { proposal, .. } = position else { panic!("{position:?}") };
            let list = *proposal as usize;
            let before: usize = self.0[..list].iter().sum();
            let names = (before..before + self.0[list]).map(|id| EntityRef::Session(id.to_string()));
            Listing::of(names, self.at(list + 1))
        }

        fn at(&self, list: usize) -> StartPosition {
            match list < self.0.len() {
                true => StartPosition::Votes { proposal: list as u64, key: Vec::new() },
                false => StartPosition::End,
            }
        }
    }

    fn names(page: &StartPage) -> impl Iterator<Item = String> + '_ {
        page.entries.iter().map(|entry| match entry {
            StartEntry::Entity(EntityRef::Session(name), None) => name.clone(),
            other => panic!("{other:?}"),
        })
    }

    proptest! {
        #[test]
        fn no_more_than_a_page_is_read_at_once_and_a_start_that_is_killed_reads_the_rest_once(
            lists in vec(prop_oneof![0_usize..40, 900_usize..1_100, 2_000_usize..3_000], 1..12),
            kills in vec(0_usize..6, 0..8),
        ) {
            let longest = lists.iter().copied().max().unwrap_or(0);
            let total: usize = lists.iter().sum();
            let chain = Chain(lists);
            // A store keeps its rows and the position.
            let (mut stored, mut position) = (BTreeSet::new(), chain.at(0));
            let mut rewritten = 0;
            // The last run is not killed.
            for pages_until_kill in kills.into_iter().chain([usize::MAX]) {
                let mut pages = StartPages::resume(position.clone());
                let mut written = 0;
                while written < pages_until_kill {
                    while let Some(wanted) = pages.wanted_list().cloned() {
                        pages.add(chain.list(&wanted));
                        prop_assert!(pages.waiting.len() < PAGE_SIZE / 2 + longest.max(1));
                    }
                    let Some(page) = pages.take() else { break };
                    prop_assert!(page.entries.len() <= PAGE_SIZE);
                    let before = stored.len();
                    stored.extend(names(&page));
                    rewritten += before + page.entries.len() - stored.len();
                    position = page.position;
                    written += 1;
                }
            }
            prop_assert_eq!(&position, &StartPosition::End);
            prop_assert_eq!(stored.len(), total);
            // A run reads at most one list again, with the short ones before it.
            prop_assert!(rewritten <= 8 * (PAGE_SIZE / 2 + longest));
        }
    }

    #[test]
    fn short_lists_share_a_page_and_lists_that_need_each_other_do_not() {
        let owned = |id| StartPosition::NextCorporation { after: id };
        let entity = |id| [EntityRef::TrustDeposit(id)];
        let mut pages = StartPages::resume(owned(0));
        pages.add(Listing::of(entity(1), owned(1)));
        assert_eq!(pages.wanted_list(), Some(&owned(1)), "a short list waits for the next one");
        pages.add(Listing::of(entity(2), StartPosition::AFTER_CORPORATIONS));
        assert_eq!(pages.wanted_list(), None, "participants need the rows of the page");
        let page = pages.take().expect("a page");
        assert_eq!((page.entries.len(), page.position), (2, StartPosition::AFTER_CORPORATIONS));
        pages.add(Listing::of([], StartPosition::End));
        assert_eq!(pages.wanted_list(), None);
        let last = pages.take().expect("the end is written");
        assert_eq!((last.entries.len(), last.position), (0, StartPosition::End));
        assert!(pages.take().is_none());
    }
}
