//! Tests of the times and states.

use std::time::Duration;

use svc_agent_core::grant::BlockedReason;

use super::core::{AttemptEnd, BLOCKED_PAUSE, ResolutionCore, ResolutionEffect, ResolutionPhase};

fn at(millis: u64) -> Duration {
    Duration::from_millis(100_000 + millis)
}

fn wake(millis: u64) -> Vec<ResolutionEffect> {
    vec![ResolutionEffect::Wake(Duration::from_millis(millis))]
}

fn attempt(version: u64) -> Vec<ResolutionEffect> {
    vec![ResolutionEffect::Attempt { version }]
}

fn done() -> AttemptEnd {
    AttemptEnd::Done { tx_hash: "AB".to_owned() }
}

fn idle() -> ResolutionCore {
    let mut core = ResolutionCore::new(1, 1, Duration::ZERO, at(0));
    assert_eq!(core.chain_found(at(0)), []);
    core
}

#[test]
fn changes_wait_for_each_other_two_seconds_and_at_most_ten() {
    let mut core = idle();
    assert_eq!(core.phase(), ResolutionPhase::Idle);
    assert_eq!(core.changed(2, at(0)), wake(2_000));
    assert_eq!(core.phase(), ResolutionPhase::Pending);
    for second in 1..9 {
        assert_eq!(core.changed(2 + second, at(second * 1_000)), wake(2_000));
        assert_eq!(core.woken(at(second * 1_000 + 500)), wake(1_500));
    }
    assert_eq!(core.changed(11, at(9_000)), wake(1_000), "ten seconds behind the first change");
    assert_eq!(core.woken(at(10_000)), attempt(11));
    core.sent();
    assert_eq!(core.phase(), ResolutionPhase::Submitted);
    assert_eq!(core.ended(&done(), at(11_000), 0.5), []);
    assert_eq!(core.phase(), ResolutionPhase::Idle);
}

#[test]
fn a_change_during_an_attempt_has_an_attempt_of_its_own() {
    let mut core = idle();
    core.changed(2, at(0));
    assert_eq!(core.woken(at(2_000)), attempt(2));
    assert_eq!(core.changed(3, at(2_500)), []);
    assert_eq!(core.ended(&done(), at(3_000), 0.5), wake(1_500));
    assert_eq!(core.woken(at(4_500)), attempt(3));
}

#[test]
fn nothing_is_attempted_without_a_chain_and_an_old_change_is_due_at_once() {
    let mut core = ResolutionCore::new(5, 3, Duration::from_secs(3_600), at(0));
    assert_eq!(core.phase(), ResolutionPhase::Pending);
    assert_eq!(core.woken(at(60_000)), []);
    assert_eq!(core.chain_found(at(60_000)), attempt(5));
    let mut set_back = ResolutionCore::new(5, 3, Duration::ZERO, at(0));
    assert_eq!(set_back.chain_found(at(0)), wake(2_000), "a time in the future counts as now");
}

#[test]
fn a_blocked_trigger_looks_again_after_an_event_and_every_ten_minutes() {
    let mut core = idle();
    core.changed(2, at(0));
    core.woken(at(2_000));
    let blocked = AttemptEnd::Blocked { reason: BlockedReason::NoGrant, refills_in: None };
    assert_eq!(core.ended(&blocked, at(2_100), 0.5), vec![ResolutionEffect::Wake(BLOCKED_PAUSE)]);
    assert_eq!(core.phase(), ResolutionPhase::Blocked(BlockedReason::NoGrant));
    assert_eq!(
        core.changed(3, at(2_200)),
        vec![ResolutionEffect::Wake(BLOCKED_PAUSE - Duration::from_millis(100))],
        "a change unblocks nothing"
    );
    assert_eq!(core.registry_changed(at(60_000)), wake(1_000));
    assert_eq!(core.registry_changed(at(60_500)), wake(500), "the events of a block are one reason to look");
    assert_eq!(core.woken(at(61_000)), attempt(3));
    assert_eq!(core.phase(), ResolutionPhase::Blocked(BlockedReason::NoGrant), "until the look has ended");
    assert_eq!(core.registry_changed(at(61_100)), []);
    assert_eq!(core.ended(&blocked, at(61_200), 0.5), wake(1_000), "the event came behind the read");
    assert_eq!(core.woken(at(62_200)), attempt(3));
    core.sent();
    assert_eq!(core.ended(&done(), at(63_000), 0.5), []);
    assert_eq!(core.phase(), ResolutionPhase::Idle);
    assert_eq!(core.registry_changed(at(64_000)), [], "an event alone is no reason");
}

#[test]
fn a_trigger_without_fees_looks_again_when_the_allowance_refills() {
    let without_fees = |seconds: Option<u64>| {
        let refills_in = seconds.map(Duration::from_secs);
        AttemptEnd::Blocked { reason: BlockedReason::NoFees, refills_in }
    };
    for (refills_in, is_told, pause) in [
        (None, false, 600_000),
        (Some(30), false, 31_000),
        (Some(0), false, 1_000),
        // Coins may come before that, and no event announces them.
        (Some(86_400), false, 600_000),
        (Some(30), true, 1_000),
    ] {
        let mut core = idle();
        core.changed(2, at(0));
        assert_eq!(core.woken(at(2_000)), attempt(2));
        if is_told {
            assert_eq!(core.registry_changed(at(2_050)), []);
        }
        assert_eq!(core.ended(&without_fees(refills_in), at(2_100), 0.5), wake(pause), "{refills_in:?} {is_told}");
        assert_eq!(core.phase(), ResolutionPhase::Blocked(BlockedReason::NoFees));
        assert_eq!(core.woken(at(2_100 + pause)), attempt(2));
    }
}

#[test]
fn a_trigger_that_the_node_reads_otherwise_names_the_field_and_goes_on_with_the_next_release() {
    let mut core = idle();
    core.changed(2, at(0));
    assert_eq!(core.woken(at(2_000)), attempt(2));
    let reason = BlockedReason::SignedFieldDiffers("pp.v1.MsgTriggerResolver.id is missing".to_owned());
    let blocked = AttemptEnd::Blocked { reason: reason.clone(), refills_in: None };
    assert_eq!(core.ended(&blocked, at(2_100), 0.5), vec![ResolutionEffect::Wake(BLOCKED_PAUSE)]);
    assert_eq!(core.phase(), ResolutionPhase::Blocked(reason));
    assert_eq!(core.registry_changed(at(3_000)), wake(1_000));
    assert_eq!(core.woken(at(4_000)), attempt(2));
    core.sent();
    assert_eq!(core.phase(), ResolutionPhase::Submitted);
    core.ended(&done(), at(5_000), 0.5);
    assert_eq!(core.phase(), ResolutionPhase::Idle);
}

#[test]
fn failures_are_repeated_after_pauses_that_grow_to_five_minutes() {
    let mut core = idle();
    core.changed(2, at(0));
    assert_eq!(core.woken(at(2_000)), attempt(2));
    let mut now = at(2_000);
    let mut pauses = Vec::new();
    for _ in 0..11 {
        let failed = AttemptEnd::Failed("no answer".to_owned());
        let effects = core.ended(&failed, now, 0.5);
        let [ResolutionEffect::Wake(pause)] = effects.as_slice() else { panic!("{effects:?}") };
        pauses.push(pause.as_secs());
        now += *pause;
        assert_eq!(core.woken(now), attempt(2));
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    assert_eq!(core.phase(), ResolutionPhase::Pending);
}
