//! Tests of the evaluator's decisions, step by step.

mod open_evaluations;

use std::collections::BTreeMap;

use crate::trust::{
    core::{EvaluationRounds, MAX_RUNNING, MAX_RUNNING_PER_HOST},
    round::{EvaluationEffect, HeightRange, VerdictImpact},
};

type TestRounds = EvaluationRounds<u64>;

fn web(name: &str) -> String {
    format!("did:web:{name}")
}

fn evaluate(name: &str, height: u64, is_fresh: bool) -> EvaluationEffect {
    EvaluationEffect::EvaluateDid { did: web(name), height, is_fresh }
}

fn open(height: u64) -> EvaluationEffect {
    EvaluationEffect::LoadTriggers(HeightRange { first: height, last: height })
}

fn close(height: u64) -> EvaluationEffect {
    EvaluationEffect::WriteRound(HeightRange { first: height, last: height })
}

fn load(rounds: &mut TestRounds, names: &[(&str, bool)]) -> Vec<EvaluationEffect> {
    load_with_change(rounds, names, None)
}

fn load_with_change(
    rounds: &mut TestRounds,
    names: &[(&str, bool)],
    last_change: Option<u64>,
) -> Vec<EvaluationEffect> {
    rounds.triggers_loaded(names.iter().map(|(name, is_fresh)| (web(name), *is_fresh)), last_change)
}

/// The impact of a new verdict with these dependents.
fn new_verdict(dependents: &[&str]) -> VerdictImpact {
    VerdictImpact { is_new: true, dependents: dependents.iter().map(|name| web(name)).collect(), parents: Vec::new() }
}

/// The impact of an unchanged verdict with these parents.
fn depends_on(parents: &[&str]) -> VerdictImpact {
    VerdictImpact { parents: parents.iter().map(|name| web(name)).collect(), ..VerdictImpact::default() }
}

fn started() -> TestRounds {
    let mut rounds = TestRounds::new(4, 0, BTreeMap::new());
    assert_eq!(rounds.resume(), []);
    assert_eq!(rounds.tip_seen(5), [open(5)]);
    rounds
}

#[test]
fn a_height_without_triggers_is_written_at_once() {
    let mut rounds = started();
    assert_eq!(rounds.tip_seen(6), []);
    assert_eq!(load(&mut rounds, &[]), [close(5)]);
    assert_eq!(rounds.round_written(), [open(6)]);
    assert_eq!(rounds.closed_height(), 5);
}

#[test]
fn a_height_is_written_with_the_verdicts_that_it_triggered() {
    let mut rounds = started();
    assert_eq!(
        load(&mut rounds, &[("a", true), ("b", false)]),
        [evaluate("a", 5, true), evaluate("b", 5, false), EvaluationEffect::StartTimer(5)]
    );
    assert_eq!(rounds.did_evaluated(&web("b"), 1, VerdictImpact::default()), []);
    assert_eq!(rounds.did_evaluated(&web("a"), 2, VerdictImpact::default()), [close(5)]);
    assert_eq!(rounds.verdicts().len(), 2);
    assert_eq!(rounds.round_written(), []);
    assert!(rounds.pending_dids().is_empty() && rounds.verdicts().is_empty());
}

#[test]
fn dependents_are_evaluated_after_a_verdict_and_circles_end() {
    let mut rounds = started();
    load(&mut rounds, &[("a", true)]);
    assert_eq!(rounds.did_evaluated(&web("a"), 1, new_verdict(&["b", "a"])), [evaluate("b", 5, false)]);
    assert_eq!(rounds.did_evaluated(&web("b"), 2, new_verdict(&["a"])), [evaluate("a", 5, false)]);
    assert_eq!(rounds.did_evaluated(&web("a"), 3, new_verdict(&["b"])), [close(5)]);
    assert_eq!(rounds.verdicts()[&web("a")], 3);
}

/// A round in which `slow` was not evaluated in time, and the next height.
fn rounds_with_a_slow_did() -> TestRounds {
    let mut rounds = started();
    load(&mut rounds, &[("quick", true), ("slow", true)]);
    rounds.did_evaluated(&web("quick"), 1, VerdictImpact::default());
    assert_eq!(rounds.wait_expired(4), [], "the timer of an earlier height");
    assert_eq!(rounds.wait_expired(5), [close(5)]);
    assert_eq!(rounds.pending_dids(), [(web("slow"), true)].into(), "pending at this height");
    assert_eq!(rounds.round_written(), []);
    assert_eq!(rounds.tip_seen(6), [open(6)]);
    rounds
}

#[test]
fn a_slow_server_delays_only_its_own_did_and_only_once() {
    let mut rounds = rounds_with_a_slow_did();
    assert_eq!(load(&mut rounds, &[]), [close(6)], "the round does not wait; the evaluation still runs");
    assert_eq!(rounds.did_evaluated(&web("slow"), 9, new_verdict(&["child"])), [], "too late for this height too");
    assert!(rounds.verdicts().is_empty());
    rounds.round_written();
    rounds.tip_seen(7);
    let effects = [evaluate("child", 7, false), EvaluationEffect::StartTimer(7)];
    assert_eq!(load(&mut rounds, &[]), effects, "the registry did not change: the verdict is final");
    assert_eq!(rounds.verdicts(), &[(web("slow"), 9)].into());
    assert_eq!(rounds.did_evaluated(&web("child"), 3, VerdictImpact::default()), [close(7)]);
    rounds.round_written();
    rounds.tip_seen(8);
    assert_eq!(load(&mut rounds, &[("slow", true)]), [evaluate("slow", 8, true), close(8)], "the round does not wait");
    rounds.round_written();
    rounds.tip_seen(9);
    load(&mut rounds, &[("other", true)]);
    assert_eq!(
        rounds.did_evaluated(&web("slow"), 4, VerdictImpact::default()),
        [],
        "late for its height, in time for this one"
    );
    assert_eq!(rounds.did_evaluated(&web("other"), 5, VerdictImpact::default()), [close(9)]);
    assert_eq!(rounds.verdicts()[&web("slow")], 4);
    assert!(rounds.pending_dids().is_empty());
}

#[test]
fn a_late_verdict_is_evaluated_again_if_the_registry_changed() {
    let mut rounds = rounds_with_a_slow_did();
    assert_eq!(load_with_change(&mut rounds, &[], Some(6)), [close(6)]);
    rounds.did_evaluated(&web("slow"), 9, new_verdict(&["child"]));
    rounds.round_written();
    rounds.tip_seen(7);
    let effects = [evaluate("slow", 7, false), evaluate("child", 7, false), EvaluationEffect::StartTimer(7)];
    assert_eq!(load(&mut rounds, &[]), effects, "fetched evidence is used again");
    assert_eq!(rounds.take_unsettled(&web("slow")), Some(9), "with its failed fetches");
    assert_eq!(rounds.verdicts()[&web("slow")], 9, "published meanwhile");
    assert_eq!(rounds.did_evaluated(&web("child"), 4, VerdictImpact::default()), []);
    assert_eq!(rounds.did_evaluated(&web("slow"), 3, VerdictImpact::default()), [close(7)]);
    assert_eq!(rounds.verdicts()[&web("slow")], 3);
}

#[test]
fn a_did_that_is_always_late_is_published() {
    let mut rounds = rounds_with_a_slow_did();
    for height in 6..20 {
        load_with_change(&mut rounds, &[("slow", true)], Some(height));
        let published: Vec<_> = rounds.verdicts().values().copied().collect();
        assert_eq!(published, if height == 6 { vec![] } else { vec![height - 1] });
        rounds.did_evaluated(&web("slow"), height, VerdictImpact::default());
        assert!(rounds.pending_dids().contains_key(&web("slow")));
        rounds.round_written();
        rounds.tip_seen(height + 1);
    }
}

#[test]
fn an_outdated_verdict_is_evaluated_again_with_new_evidence() {
    let mut rounds = started();
    load(&mut rounds, &[("child", false), ("parent", true)]);
    assert_eq!(rounds.did_evaluated(&web("parent"), 1, new_verdict(&[])), []);
    assert_eq!(rounds.did_evaluated(&web("child"), 2, depends_on(&["parent"])), [evaluate("child", 5, false)]);
    assert_eq!(rounds.take_unsettled(&web("child")), None);
    assert_eq!(rounds.did_evaluated(&web("child"), 3, VerdictImpact::default()), [close(5)]);
    assert_eq!(rounds.verdicts()[&web("child")], 3);
}

#[test]
fn a_verdict_that_precedes_its_parent_is_evaluated_again() {
    let mut rounds = started();
    load(&mut rounds, &[("child", false), ("parent", true)]);
    assert_eq!(rounds.did_evaluated(&web("child"), 1, depends_on(&["parent"])), []);
    assert_eq!(rounds.did_evaluated(&web("parent"), 2, new_verdict(&[])), [evaluate("child", 5, false)]);
    assert_eq!(rounds.did_evaluated(&web("child"), 3, depends_on(&["parent"])), [close(5)]);
    assert_eq!(rounds.verdicts()[&web("child")], 3);
}

#[test]
fn a_circle_of_services_that_outdate_each_other_ends() {
    let mut rounds = started();
    let mut effects = load(&mut rounds, &[("a", true), ("b", true)]);
    let mut evaluated = 0;
    while effects.last() != Some(&close(5)) {
        let next = if evaluated % 2 == 0 { ("a", "b") } else { ("b", "a") };
        let impact = VerdictImpact { parents: vec![web(next.1)], ..new_verdict(&[next.1]) };
        effects = rounds.did_evaluated(&web(next.0), evaluated, impact);
        evaluated += 1;
        assert!(evaluated < 20, "{rounds:?}");
    }
    assert!(rounds.pending_dids().is_empty());
}

#[test]
fn repeated_requests_for_a_host_do_not_starve_other_dids() {
    let mut rounds = started();
    let evil = |name: &str| (format!("did:web:evil:{name}"), true);
    let slow = ["a", "b", "c", "d"].map(evil);
    assert_eq!(rounds.triggers_loaded(slow.clone(), None).len(), 5);
    rounds.wait_expired(5);
    rounds.round_written();
    rounds.tip_seen(6);
    // The host has its limit of evaluations, and all of them are requested again. A fifth DID must be evaluated.
    let mut requested = slow.to_vec();
    requested.push(("did:web:evil:z".to_owned(), false));
    assert_eq!(rounds.triggers_loaded(requested, Some(6)), [EvaluationEffect::StartTimer(6)]);
    let effects = rounds.did_evaluated("did:web:evil:a", 1, VerdictImpact::default());
    assert_eq!(effects, [EvaluationEffect::EvaluateDid { did: "did:web:evil:z".into(), height: 6, is_fresh: false }]);
}

#[test]
fn a_trigger_during_an_evaluation_is_not_lost() {
    let mut rounds = started();
    load(&mut rounds, &[("a", true)]);
    rounds.wait_expired(5);
    rounds.round_written();
    rounds.tip_seen(6);
    load(&mut rounds, &[("a", true)]);
    assert_eq!(rounds.did_evaluated(&web("a"), 1, VerdictImpact::default()), [], "fetched before the second request");
    assert_eq!(rounds.pending_dids(), [(web("a"), true)].into());
    rounds.round_written();
    rounds.tip_seen(7);
    assert_eq!(load(&mut rounds, &[("b", false)])[0], evaluate("a", 7, true));
}

#[test]
fn heights_that_arrive_during_a_round_are_one_round() {
    let mut rounds = started();
    rounds.tip_seen(9);
    assert_eq!(load(&mut rounds, &[("a", true)]), [evaluate("a", 5, true), EvaluationEffect::StartTimer(5)]);
    rounds.did_evaluated(&web("a"), 1, VerdictImpact::default());
    let rest = HeightRange { first: 6, last: 9 };
    assert_eq!(rounds.round_written(), [EvaluationEffect::LoadTriggers(rest)]);
    assert_eq!(load(&mut rounds, &[("b", false)]), [evaluate("b", 9, false), EvaluationEffect::StartTimer(9)]);
    assert_eq!(rounds.did_evaluated(&web("b"), 2, VerdictImpact::default()), [EvaluationEffect::WriteRound(rest)]);
    rounds.round_written();
    assert_eq!(rounds.closed_height(), 9);
}

#[test]
fn heights_before_the_start_are_evaluated_at_the_live_height() {
    let mut rounds = TestRounds::new(0, 300, BTreeMap::new());
    assert_eq!(rounds.tip_seen(255), [], "a round below the live height is a whole one");
    assert_eq!(rounds.tip_seen(257), [EvaluationEffect::LoadTriggers(HeightRange { first: 1, last: 256 })]);
    assert_eq!(load(&mut rounds, &[("a", true)]), [EvaluationEffect::WriteRound(HeightRange { first: 1, last: 256 })]);
    assert_eq!((rounds.round_written(), rounds.tip_seen(299)), (Vec::new(), Vec::new()));
    assert_eq!(rounds.tip_seen(300), [EvaluationEffect::LoadTriggers(HeightRange { first: 257, last: 300 })]);
    assert_eq!(load(&mut rounds, &[]), [evaluate("a", 300, true), EvaluationEffect::StartTimer(300)]);
}

#[test]
fn no_did_is_evaluated_far_behind_the_tip_and_none_is_lost() {
    let mut rounds = started();
    rounds.tip_seen(1_000);
    load(&mut rounds, &[("a", true)]);
    assert_eq!(rounds.round_written(), [EvaluationEffect::LoadTriggers(HeightRange { first: 6, last: 261 })]);
    for last in [261, 517, 773] {
        assert_eq!(load(&mut rounds, &[]), [EvaluationEffect::WriteRound(HeightRange { first: last - 255, last })]);
        rounds.round_written();
    }
    assert_eq!(load(&mut rounds, &[]), [evaluate("a", 1_000, true), EvaluationEffect::StartTimer(1_000)]);
}

#[test]
fn one_host_cannot_use_all_evaluations() {
    let mut rounds = started();
    let one_host = (0..20).map(|index| (format!("did:web:evil:{index}"), true));
    let others = (0..200).map(|index| (format!("did:webvh:scid{index}:h{index}"), true));
    let effects = rounds.triggers_loaded(one_host.chain(others), None);
    let of_evil = |effect: &&EvaluationEffect| matches!(effect, EvaluationEffect::EvaluateDid { did, .. } if did.contains("evil"));
    assert_eq!(effects.iter().filter(of_evil).count(), MAX_RUNNING_PER_HOST);
    assert_eq!(rounds.running_count(), MAX_RUNNING);
    assert_eq!(
        rounds.did_evaluated("did:webvh:scid0:h0", 1, VerdictImpact::default()).len(),
        1,
        "the next evaluation starts"
    );
}

#[test]
fn failures_of_the_indexer_are_retried() {
    let mut rounds = started();
    rounds.load_failed();
    assert_eq!(rounds.resume(), [open(5)]);
    load(&mut rounds, &[("a", true)]);
    assert_eq!(rounds.evaluation_failed(&web("a")).last(), Some(&close(5)));
    assert_eq!(rounds.resume(), [], "the write runs");
    rounds.write_failed();
    assert_eq!(rounds.resume(), [close(5)]);
    assert_eq!(rounds.pending_dids().get(&web("a")), Some(&true));
}

#[test]
fn repeated_results_count_once() {
    let mut rounds = started();
    rounds.tip_seen(9);
    load(&mut rounds, &[]);
    assert_eq!(rounds.round_written(), [EvaluationEffect::LoadTriggers(HeightRange { first: 6, last: 9 })]);
    assert_eq!((rounds.round_written(), rounds.closed_height()), (vec![], 5));
    rounds.load_failed();
    assert_eq!(load(&mut rounds, &[("a", true)]), [], "no load was requested");
}

#[test]
fn a_dependent_of_a_verdict_that_came_during_the_write_is_evaluated_again() {
    let mut rounds = started();
    load(&mut rounds, &[("child", false), ("parent", true)]);
    rounds.did_evaluated(&web("child"), 1, depends_on(&["parent"]));
    assert_eq!(rounds.wait_expired(5), [close(5)]);
    // The store does not have the dependency of the child yet.
    rounds.did_evaluated(&web("parent"), 2, new_verdict(&[]));
    rounds.round_written();
    rounds.tip_seen(6);
    assert_eq!(load(&mut rounds, &[]), [evaluate("child", 6, false), EvaluationEffect::StartTimer(6)]);
}

#[test]
fn two_dids_that_depend_on_each_other_do_not_outdate_each_other_without_end() {
    let mut rounds = started();
    load(&mut rounds, &[("x", true), ("y", true)]);
    let each = |other: &str| VerdictImpact { parents: vec![web(other)], ..new_verdict(&[]) };
    let mut count = 0;
    for step in 0..12 {
        let (did, other) = if step % 2 == 0 { ("x", "y") } else { ("y", "x") };
        if !rounds.did_evaluated(&web(did), step, each(other)).is_empty() {
            count += 1;
        }
    }
    assert!(count < 8 && rounds.pending_dids().is_empty(), "{rounds:?}");
}

#[test]
fn new_verdicts_in_a_circle_across_rounds_end() {
    let mut rounds = started();
    load(&mut rounds, &[("x", true)]);
    let mut height = 5;
    let mut evaluated = 0;
    // Each evaluation is too slow for its round and returns a new verdict.
    while rounds.running_count() > 0 {
        rounds.wait_expired(height);
        rounds.round_written();
        let (did, other) = if evaluated % 2 == 0 { ("x", "y") } else { ("y", "x") };
        rounds.did_evaluated(
            &web(did),
            evaluated,
            VerdictImpact { parents: vec![web(other)], ..new_verdict(&[other]) },
        );
        height += 1;
        rounds.tip_seen(height);
        load(&mut rounds, &[]);
        evaluated += 1;
        assert!(evaluated < 20, "{rounds:?}");
    }
    assert!(rounds.pending_dids().is_empty() && evaluated > 2);
}

#[test]
fn a_new_verdict_cascades_when_it_becomes_final() {
    let mut rounds = started();
    load(&mut rounds, &[("parent", true)]);
    rounds.wait_expired(5);
    rounds.round_written();
    rounds.tip_seen(6);
    load_with_change(&mut rounds, &[], Some(6));
    rounds.round_written();
    rounds.did_evaluated(&web("parent"), 1, new_verdict(&[]));
    rounds.tip_seen(7);
    assert_eq!(
        load(&mut rounds, &[("child", false)])[..2],
        [evaluate("parent", 7, false), evaluate("child", 7, false)]
    );
    // The child began before the parent's verdict; the parent's verdict equals the one that was published first.
    rounds.did_evaluated(&web("child"), 2, depends_on(&["parent"]));
    assert_eq!(rounds.did_evaluated(&web("parent"), 1, VerdictImpact::default()), [evaluate("child", 7, false)]);
}
