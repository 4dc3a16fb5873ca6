//! The signer's decisions, the table of transactions and the confirmer's judgement together, explored exhaustively against a
//! chain that does the worst it may: every order of events within a budget of faults.
//!
//! The faults: answers get lost, and their requests may still arrive later; a node forgets its mempool, while others may have
//! its transactions; a node is behind; its index may lack any block; blocks come empty; a foreign transaction uses the sequence; the
//! signer dies; the process dies and leaves its journal.

mod state;

use std::{
    collections::{HashMap, VecDeque},
    io::Write,
};

use state::ModelState;

/// Visits every reachable state, the nearest first; a failure comes with the shortest way to it.
fn explore(start: ModelState) -> usize {
    let mut seen: HashMap<u64, (u64, String)> = HashMap::from([(start.state_hash(), (0, "start".to_owned()))]);
    let mut queue = VecDeque::from([start]);
    while let Some(world) = queue.pop_front() {
        let key = world.state_hash();
        for (label, next) in world.successors() {
            let next_key = next.state_hash();
            if seen.contains_key(&next_key) {
                continue;
            }
            seen.insert(next_key, (key, label));
            if let Err(reason) = next.check_invariants().and_then(|()| next.check_termination()) {
                panic!("{reason}\n{}", path_to(&seen, next_key).join("\n"));
            }
            queue.push_back(next);
        }
    }
    seen.len()
}

fn path_to(seen: &HashMap<u64, (u64, String)>, mut key: u64) -> Vec<String> {
    let mut steps = Vec::new();
    while let Some((before, label)) = seen.get(&key).filter(|(before, _)| *before != 0) {
        steps.push(label.clone());
        key = *before;
    }
    steps.reverse();
    steps
}

fn explore_all(bounds: &[(usize, u32, usize)]) {
    for &(callers, faults, window) in bounds {
        let states = explore(ModelState::new(callers, faults, window));
        assert!(states > 1_000, "{states} states");
        // For a run by hand: docs/pipeline.md has the figures.
        let _ = writeln!(std::io::stderr(), "{callers} calls, {faults} faults, window {window}: {states} states");
    }
}

#[test]
fn in_every_order_of_events_a_write_happens_at_most_once_and_its_answer_is_true() {
    explore_all(&[(1, 1, 1), (2, 0, 2)]);
}

/// The same further out: `make model`.
#[test]
#[ignore = "takes minutes in a release build"]
fn the_same_with_more_faults() {
    explore_all(&[(1, 2, 1), (1, 3, 1), (2, 1, 1), (2, 1, 2)]);
}
