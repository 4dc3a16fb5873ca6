//! The signer's decisions, the table of transactions and the confirmer's judgement together, explored exhaustively against a
//! chain that does the worst it may: every order of events within a budget of faults.
//!
//! The faults: answers get lost, and their requests may still arrive later; a node refuses a transaction and passes it on, is
//! behind, lies about sequence and height, forgets its mempool while others keep it; its index may lack any block; blocks come
//! empty; the ante handler refuses a transaction in a block, and its bytes come back; a foreign transaction uses the sequence; a
//! caller withdraws its write, or repeats it after the decision; the signer dies; the process dies and leaves its journal.

mod answers;
mod callers;
mod chain;
mod events;
mod state;

use std::{
    collections::{HashMap, VecDeque},
    io::Write,
};

use state::ModelState;

/// The order of an exploration.
#[derive(Clone, Copy)]
enum SearchOrder {
    /// A failure comes with the shortest way to it.
    NearestFirst,
    /// Needs less memory.
    DeepestFirst,
}

/// Visits every reachable state; a failure comes with a way to it.
fn explore(start: ModelState, order: SearchOrder) -> usize {
    // For each state: the one before it, and the number of the event between them.
    let mut seen: HashMap<u64, (u64, u16)> = HashMap::from([(start.state_hash(), (0, 0))]);
    let mut queue = VecDeque::from([start.clone()]);
    let next = |queue: &mut VecDeque<ModelState>| match order {
        SearchOrder::NearestFirst => queue.pop_front(),
        SearchOrder::DeepestFirst => queue.pop_back(),
    };
    while let Some(world) = next(&mut queue) {
        let key = world.state_hash();
        for (number, (_, next)) in (0..).zip(world.successors()) {
            let next_key = next.state_hash();
            if seen.contains_key(&next_key) {
                continue;
            }
            seen.insert(next_key, (key, number));
            if let Err(reason) = next.check_invariants().and_then(|()| next.check_termination()) {
                panic!("{reason}\n{}", path_to(start, &seen, next_key).join("\n"));
            }
            queue.push_back(next);
        }
    }
    seen.len()
}

fn path_to(start: ModelState, seen: &HashMap<u64, (u64, u16)>, mut key: u64) -> Vec<String> {
    let mut numbers = Vec::new();
    while let Some((before, number)) = seen.get(&key).filter(|(before, _)| *before != 0) {
        numbers.push(usize::from(*number));
        key = *before;
    }
    let mut world = start;
    let step = |number| {
        let (label, next) = world.successors().swap_remove(number);
        world = next;
        label
    };
    numbers.into_iter().rev().map(step).collect()
}

fn explore_all(order: SearchOrder, bounds: &[(usize, u32, usize)]) {
    for &(callers, faults, window) in bounds {
        let states = explore(ModelState::new(callers, faults, window), order);
        assert!(states > 1_000, "{states} states");
        // For a run by hand: docs/pipeline.md has the figures.
        let _ = writeln!(std::io::stderr(), "{callers} calls, {faults} faults, window {window}: {states} states");
    }
}

#[test]
fn in_every_order_of_events_a_write_happens_at_most_once_and_its_answer_is_true() {
    explore_all(SearchOrder::NearestFirst, &[(1, 1, 1), (2, 0, 2)]);
}

/// The same further out: `make model`.
#[test]
#[ignore = "takes minutes in a release build"]
fn the_same_with_more_faults() {
    explore_all(SearchOrder::DeepestFirst, &[(1, 2, 1), (2, 1, 1), (2, 1, 2)]);
}
