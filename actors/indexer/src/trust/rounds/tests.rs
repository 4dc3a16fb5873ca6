//! Rounds, step by step.

use super::*;

type Subject = Rounds<u64>;

fn web(name: &str) -> String {
    format!("did:web:{name}")
}

fn judge(name: &str, height: u64, is_fresh: bool) -> Effect {
    Effect::Judge { did: web(name), height, is_fresh }
}

fn open(height: u64) -> Effect {
    Effect::Open(Heights { first: height, last: height })
}

fn close(height: u64) -> Effect {
    Effect::Close(Heights { first: height, last: height })
}

fn opened(rounds: &mut Subject, names: &[(&str, bool)]) -> Vec<Effect> {
    opened_with_deeds(rounds, names, None)
}

fn opened_with_deeds(rounds: &mut Subject, names: &[(&str, bool)], eventful: Option<u64>) -> Vec<Effect> {
    rounds.opened(names.iter().map(|(name, is_fresh)| (web(name), *is_fresh)), eventful)
}

/// Something new, which these rest on.
fn finds(dependents: &[&str]) -> Finding {
    Finding { is_new: true, dependents: dependents.iter().map(|name| web(name)).collect(), consulted: Vec::new() }
}

/// Nothing new, and rests on these.
fn rests_on(parents: &[&str]) -> Finding {
    Finding { consulted: parents.iter().map(|name| web(name)).collect(), ..Finding::default() }
}

fn started() -> Subject {
    let mut rounds = Subject::new(4, 0, BTreeMap::new());
    assert_eq!(rounds.advance(), []);
    assert_eq!(rounds.tip_seen(5), [open(5)]);
    rounds
}

#[test]
fn a_height_without_triggers_is_closed_at_once_and_the_next_is_opened() {
    let mut rounds = started();
    assert_eq!(rounds.tip_seen(6), []);
    assert_eq!(opened(&mut rounds, &[]), [close(5)]);
    assert_eq!(rounds.closed(), [open(6)]);
    assert_eq!(rounds.height(), 5);
}

#[test]
fn a_height_is_closed_with_what_it_triggered() {
    let mut rounds = started();
    assert_eq!(
        opened(&mut rounds, &[("a", true), ("b", false)]),
        [judge("a", 5, true), judge("b", 5, false), Effect::Wait(5)]
    );
    assert_eq!(rounds.judged(&web("b"), 1, Finding::default()), []);
    assert_eq!(rounds.judged(&web("a"), 2, Finding::default()), [close(5)]);
    assert_eq!(rounds.done().len(), 2);
    assert_eq!(rounds.closed(), []);
    assert!(rounds.jobs().is_empty() && rounds.done().is_empty());
}

#[test]
fn who_depends_on_a_verdict_is_judged_after_it_and_circles_end() {
    let mut rounds = started();
    opened(&mut rounds, &[("a", true)]);
    assert_eq!(rounds.judged(&web("a"), 1, finds(&["b", "a"])), [judge("b", 5, false)]);
    assert_eq!(rounds.judged(&web("b"), 2, finds(&["a"])), [judge("a", 5, false)]);
    assert_eq!(rounds.judged(&web("a"), 3, finds(&["b"])), [close(5)]);
    assert_eq!(rounds.done()[&web("a")], 3);
}

/// A round in which `slow` was not judged in time, and the next height.
fn with_a_slow_one() -> Subject {
    let mut rounds = started();
    opened(&mut rounds, &[("quick", true), ("slow", true)]);
    rounds.judged(&web("quick"), 1, Finding::default());
    assert_eq!(rounds.time_is_up(4), [], "an earlier height's");
    assert_eq!(rounds.time_is_up(5), [close(5)]);
    assert_eq!(rounds.jobs(), [(web("slow"), true)].into(), "kept with the height");
    assert_eq!(rounds.closed(), []);
    assert_eq!(rounds.tip_seen(6), [open(6)]);
    rounds
}

#[test]
fn a_slow_server_delays_its_own_did_alone_and_once() {
    let mut rounds = with_a_slow_one();
    assert_eq!(opened(&mut rounds, &[]), [close(6)], "not waited for, and still running");
    assert_eq!(rounds.judged(&web("slow"), 9, finds(&["child"])), [], "too late for this one too");
    assert!(rounds.done().is_empty());
    rounds.closed();
    rounds.tip_seen(7);
    let effects = [judge("child", 7, false), Effect::Wait(7)];
    assert_eq!(opened(&mut rounds, &[]), effects, "nothing happened since: it stands");
    assert_eq!(rounds.done(), &[(web("slow"), 9)].into());
    assert_eq!(rounds.judged(&web("child"), 3, Finding::default()), [close(7)]);
    rounds.closed();
    rounds.tip_seen(8);
    assert_eq!(opened(&mut rounds, &[("slow", true)]), [judge("slow", 8, true), close(8)], "not waited for");
    rounds.closed();
    rounds.tip_seen(9);
    opened(&mut rounds, &[("other", true)]);
    assert_eq!(rounds.judged(&web("slow"), 4, Finding::default()), [], "late for its height, in time for this one");
    assert_eq!(rounds.judged(&web("other"), 5, Finding::default()), [close(9)]);
    assert_eq!(rounds.done()[&web("slow")], 4);
    assert!(rounds.jobs().is_empty());
}

#[test]
fn what_is_late_is_judged_again_if_anything_happened_since() {
    let mut rounds = with_a_slow_one();
    assert_eq!(opened_with_deeds(&mut rounds, &[], Some(6)), [close(6)]);
    rounds.judged(&web("slow"), 9, finds(&["child"]));
    rounds.closed();
    rounds.tip_seen(7);
    let effects = [judge("slow", 7, false), judge("child", 7, false), Effect::Wait(7)];
    assert_eq!(opened(&mut rounds, &[]), effects, "what was fetched need not be fetched again");
    assert_eq!(rounds.take_late(&web("slow")), Some(9), "what could not be had included");
    assert_eq!(rounds.done()[&web("slow")], 9, "told meanwhile");
    assert_eq!(rounds.judged(&web("child"), 4, Finding::default()), []);
    assert_eq!(rounds.judged(&web("slow"), 3, Finding::default()), [close(7)]);
    assert_eq!(rounds.done()[&web("slow")], 3);
}

#[test]
fn whoever_is_always_late_is_told_all_the_same() {
    let mut rounds = with_a_slow_one();
    for height in 6..20 {
        opened_with_deeds(&mut rounds, &[("slow", true)], Some(height));
        let told: Vec<_> = rounds.done().values().copied().collect();
        assert_eq!(told, if height == 6 { vec![] } else { vec![height - 1] });
        rounds.judged(&web("slow"), height, Finding::default());
        assert!(rounds.jobs().contains_key(&web("slow")));
        rounds.closed();
        rounds.tip_seen(height + 1);
    }
}

#[test]
fn what_a_newer_verdict_overtakes_is_judged_again_with_newer_material() {
    let mut rounds = started();
    opened(&mut rounds, &[("child", false), ("parent", true)]);
    assert_eq!(rounds.judged(&web("parent"), 1, finds(&[])), []);
    assert_eq!(rounds.judged(&web("child"), 2, rests_on(&["parent"])), [judge("child", 5, false)]);
    assert_eq!(rounds.take_late(&web("child")), None);
    assert_eq!(rounds.judged(&web("child"), 3, Finding::default()), [close(5)]);
    assert_eq!(rounds.done()[&web("child")], 3);
}

#[test]
fn what_was_judged_before_the_one_it_rests_on_is_judged_again() {
    let mut rounds = started();
    opened(&mut rounds, &[("child", false), ("parent", true)]);
    assert_eq!(rounds.judged(&web("child"), 1, rests_on(&["parent"])), []);
    assert_eq!(rounds.judged(&web("parent"), 2, finds(&[])), [judge("child", 5, false)]);
    assert_eq!(rounds.judged(&web("child"), 3, rests_on(&["parent"])), [close(5)]);
    assert_eq!(rounds.done()[&web("child")], 3);
}

#[test]
fn a_circle_of_services_that_overtake_each_other_comes_to_an_end() {
    let mut rounds = started();
    let mut effects = opened(&mut rounds, &[("a", true), ("b", true)]);
    let mut judged = 0;
    while effects.last() != Some(&close(5)) {
        let next = if judged % 2 == 0 { ("a", "b") } else { ("b", "a") };
        let finding = Finding { consulted: vec![web(next.1)], ..finds(&[next.1]) };
        effects = rounds.judged(&web(next.0), judged, finding);
        judged += 1;
        assert!(judged < 20, "{rounds:?}");
    }
    assert!(rounds.jobs().is_empty());
}

#[test]
fn nobody_keeps_others_waiting_by_being_asked_for_again() {
    let mut rounds = started();
    let evil = |name: &str| (format!("did:web:evil:{name}"), true);
    let slow = ["a", "b", "c", "d"].map(evil);
    assert_eq!(rounds.opened(slow.clone(), None).len(), 5);
    rounds.time_is_up(5);
    rounds.closed();
    rounds.tip_seen(6);
    // All places of the host are taken, and all of them are asked for again; a fifth must be judged.
    let mut asked = slow.to_vec();
    asked.push(("did:web:evil:z".to_owned(), false));
    assert_eq!(rounds.opened(asked, Some(6)), [Effect::Wait(6)]);
    let effects = rounds.judged("did:web:evil:a", 1, Finding::default());
    assert_eq!(effects, [Effect::Judge { did: "did:web:evil:z".into(), height: 6, is_fresh: false }]);
}

#[test]
fn a_new_trigger_while_judging_is_not_lost() {
    let mut rounds = started();
    opened(&mut rounds, &[("a", true)]);
    rounds.time_is_up(5);
    rounds.closed();
    rounds.tip_seen(6);
    opened(&mut rounds, &[("a", true)]);
    assert_eq!(rounds.judged(&web("a"), 1, Finding::default()), [], "fetched before it was asked for again");
    assert_eq!(rounds.jobs(), [(web("a"), true)].into());
    rounds.closed();
    rounds.tip_seen(7);
    assert_eq!(opened(&mut rounds, &[("b", false)])[0], judge("a", 7, true));
}

#[test]
fn heights_that_came_meanwhile_are_one_round() {
    let mut rounds = started();
    rounds.tip_seen(9);
    assert_eq!(opened(&mut rounds, &[("a", true)]), [judge("a", 5, true), Effect::Wait(5)]);
    rounds.judged(&web("a"), 1, Finding::default());
    let rest = Heights { first: 6, last: 9 };
    assert_eq!(rounds.closed(), [Effect::Open(rest)]);
    assert_eq!(opened(&mut rounds, &[("b", false)]), [judge("b", 9, false), Effect::Wait(9)]);
    assert_eq!(rounds.judged(&web("b"), 2, Finding::default()), [Effect::Close(rest)]);
    rounds.closed();
    assert_eq!(rounds.height(), 9);
}

#[test]
fn what_was_before_the_start_is_not_judged_until_the_present() {
    let mut rounds = Subject::new(0, 5, BTreeMap::new());
    rounds.tip_seen(3);
    assert_eq!(opened(&mut rounds, &[("a", true)]), [Effect::Close(Heights { first: 1, last: 3 })]);
    rounds.closed();
    rounds.tip_seen(5);
    assert_eq!(opened(&mut rounds, &[]), [judge("a", 5, true), Effect::Wait(5)]);
}

#[test]
fn far_behind_nothing_is_judged_and_nothing_is_lost() {
    let mut rounds = started();
    rounds.tip_seen(1_000);
    opened(&mut rounds, &[("a", true)]);
    assert_eq!(rounds.closed(), [Effect::Open(Heights { first: 6, last: 261 })]);
    for last in [261, 517, 773] {
        assert_eq!(opened(&mut rounds, &[]), [Effect::Close(Heights { first: last - 255, last })]);
        rounds.closed();
    }
    assert_eq!(opened(&mut rounds, &[]), [judge("a", 1_000, true), Effect::Wait(1_000)]);
}

#[test]
fn nobody_takes_all_places() {
    let mut rounds = started();
    let one_host = (0..20).map(|index| (format!("did:web:evil:{index}"), true));
    let others = (0..200).map(|index| (format!("did:webvh:scid{index}:h{index}"), true));
    let effects = rounds.opened(one_host.chain(others), None);
    let of_evil = |effect: &&Effect| matches!(effect, Effect::Judge { did, .. } if did.contains("evil"));
    assert_eq!(effects.iter().filter(of_evil).count(), LANES_A_HOST);
    assert_eq!(rounds.running(), LANES);
    assert_eq!(rounds.judged("did:webvh:scid0:h0", 1, Finding::default()).len(), 1, "the next takes the place");
}

#[test]
fn failures_of_our_own_are_tried_again() {
    let mut rounds = started();
    rounds.open_failed();
    assert_eq!(rounds.again(), [open(5)]);
    opened(&mut rounds, &[("a", true)]);
    assert_eq!(rounds.judging_failed(&web("a")).last(), Some(&close(5)));
    assert_eq!(rounds.again(), [], "it is being written");
    rounds.close_failed();
    assert_eq!(rounds.again(), [close(5)]);
    assert_eq!(rounds.jobs().get(&web("a")), Some(&true));
}

#[test]
fn what_is_told_twice_counts_once() {
    let mut rounds = started();
    rounds.tip_seen(9);
    opened(&mut rounds, &[]);
    assert_eq!(rounds.closed(), [Effect::Open(Heights { first: 6, last: 9 })]);
    assert_eq!((rounds.closed(), rounds.height()), (vec![], 5));
    rounds.open_failed();
    assert_eq!(opened(&mut rounds, &[("a", true)]), [], "nobody has asked for it");
}

#[test]
fn who_rests_on_what_came_while_the_round_was_written_is_judged_again() {
    let mut rounds = started();
    opened(&mut rounds, &[("child", false), ("parent", true)]);
    rounds.judged(&web("child"), 1, rests_on(&["parent"]));
    assert_eq!(rounds.time_is_up(5), [close(5)]);
    // The store does not know yet that the child rests on it.
    rounds.judged(&web("parent"), 2, finds(&[]));
    rounds.closed();
    rounds.tip_seen(6);
    assert_eq!(opened(&mut rounds, &[]), [judge("child", 6, false), Effect::Wait(6)]);
}

#[test]
fn two_that_rest_on_each_other_do_not_overtake_each_other_for_ever() {
    let mut rounds = started();
    opened(&mut rounds, &[("x", true), ("y", true)]);
    let each = |other: &str| Finding { consulted: vec![web(other)], ..finds(&[]) };
    let mut told = 0;
    for step in 0..12 {
        let (did, other) = if step % 2 == 0 { ("x", "y") } else { ("y", "x") };
        if !rounds.judged(&web(did), step, each(other)).is_empty() {
            told += 1;
        }
    }
    assert!(told < 8 && rounds.jobs().is_empty(), "{rounds:?}");
}

#[test]
fn news_that_goes_in_a_circle_from_round_to_round_comes_to_an_end() {
    let mut rounds = started();
    opened(&mut rounds, &[("x", true)]);
    let mut height = 5;
    let mut judged = 0;
    // Each is too slow for its round, and says something new.
    while rounds.running() > 0 {
        rounds.time_is_up(height);
        rounds.closed();
        let (did, other) = if judged % 2 == 0 { ("x", "y") } else { ("y", "x") };
        rounds.judged(&web(did), judged, Finding { consulted: vec![web(other)], ..finds(&[other]) });
        height += 1;
        rounds.tip_seen(height);
        opened(&mut rounds, &[]);
        judged += 1;
        assert!(judged < 20, "{rounds:?}");
    }
    assert!(rounds.jobs().is_empty() && judged > 2);
}

#[test]
fn what_was_new_is_passed_on_when_it_stands() {
    let mut rounds = started();
    opened(&mut rounds, &[("parent", true)]);
    rounds.time_is_up(5);
    rounds.closed();
    rounds.tip_seen(6);
    opened_with_deeds(&mut rounds, &[], Some(6));
    rounds.closed();
    rounds.judged(&web("parent"), 1, finds(&[]));
    rounds.tip_seen(7);
    assert_eq!(opened(&mut rounds, &[("child", false)])[..2], [judge("parent", 7, false), judge("child", 7, false)]);
    // The child has begun with what was there before; the parent says the same as when it was told first.
    rounds.judged(&web("child"), 2, rests_on(&["parent"]));
    assert_eq!(rounds.judged(&web("parent"), 1, Finding::default()), [judge("child", 7, false)]);
}
