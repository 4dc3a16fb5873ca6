//! Evaluations that are open when they are closed.

use super::*;

#[test]
fn an_open_evaluation_that_closes_is_published_unless_a_newer_one_is_queued() {
    let mut rounds = started();
    assert_eq!(load(&mut rounds, &[]), [close(5)]);
    assert_eq!(rounds.open_evaluation_closed(&web("a"), 4, 1, new_verdict(&["child"])), [], "the round is written");
    assert_eq!(rounds.pending_dids(), [(web("a"), false)].into(), "a restart evaluates it");
    rounds.round_written();
    rounds.tip_seen(6);
    let effects = [evaluate("child", 6, false), EvaluationEffect::StartTimer(6)];
    assert_eq!(load(&mut rounds, &[]), effects, "the registry did not change: the verdict is final");
    assert_eq!(rounds.verdicts(), &[(web("a"), 1)].into());
    assert_eq!(rounds.open_evaluation_closed(&web("child"), 4, 2, VerdictImpact::default()), [], "it is evaluated");
    assert_eq!(rounds.did_evaluated(&web("child"), 3, VerdictImpact::default()), [close(6)]);
    assert_eq!(rounds.verdicts()[&web("child")], 3);
}

#[test]
fn an_open_evaluation_that_closes_in_a_round_is_evaluated_again_if_the_registry_changed() {
    let mut rounds = started();
    load_with_change(&mut rounds, &[("other", true)], Some(5));
    assert_eq!(rounds.open_evaluation_closed(&web("a"), 4, 1, VerdictImpact::default()), [evaluate("a", 5, false)]);
    assert_eq!(rounds.take_unsettled(&web("a")), Some(1), "with its evidence");
    assert_eq!(rounds.did_evaluated(&web("other"), 2, VerdictImpact::default()), []);
    assert_eq!(rounds.did_evaluated(&web("a"), 3, VerdictImpact::default()), [close(5)]);
    assert_eq!(rounds.verdicts()[&web("a")], 3);
}
