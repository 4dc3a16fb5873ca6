//! Tests of the steps and their times.

use std::time::Duration;

use svc_agent_core::error::RefusalCode;
use svc_agent_store::{
    KeyUse,
    RotationPhase::{self, Added, Reissued, Replaced, Requested, Resigned, Retired},
    StoredRotation,
};

use self::Input::{Counted, Done, DoneWithRetired, Failed, Refused, Request, Woken};
use super::core::{
    Clocks, DocumentFacts, RotationCore, RotationEffect, RotationOptions, RotationPauses,
    RotationStep::{self, AddKeys, CountUses, ReissueOwn, ReplaceAll, ResignPresentations, RetireOld},
    StepEnd,
};

const BEGIN: i64 = 1_800_000_000;

const PLAIN: RotationOptions = RotationOptions { reissue: false, is_compromised: false };
const REISSUE: RotationOptions = RotationOptions { reissue: true, is_compromised: false };
const COMPROMISED: RotationOptions = RotationOptions { reissue: false, is_compromised: true };
const BOTH: RotationOptions = RotationOptions { reissue: true, is_compromised: true };

/// The clocks at some seconds after the start.
fn at(seconds: u64) -> Clocks {
    let wall = BEGIN + i64::try_from(seconds).expect("few");
    Clocks { running: Duration::from_secs(1_000 + seconds), wall }
}

fn row(new_version: u64, phase: RotationPhase, seconds: u64, options: RotationOptions) -> StoredRotation {
    let RotationOptions { reissue, is_compromised } = options;
    StoredRotation { new_version, phase, since: at(seconds).wall, reissue, is_compromised }
}

fn save(new_version: u64, phase: RotationPhase, seconds: u64, options: RotationOptions) -> RotationEffect {
    RotationEffect::Save(row(new_version, phase, seconds, options))
}

fn run(new_version: u64, step: RotationStep) -> RotationEffect {
    RotationEffect::Run { new_version, step }
}

fn wake(seconds: u64) -> RotationEffect {
    RotationEffect::Wake(Duration::from_secs(seconds))
}

fn end(new_version: u64) -> RotationEffect {
    RotationEffect::End { new_version }
}

fn remove(methods: &[&str]) -> RotationStep {
    RotationStep::RemoveOld { methods: methods.iter().map(|method| (*method).to_owned()).collect() }
}

fn start(stored: Option<StoredRotation>, facts: DocumentFacts, age: u64) -> RotationCore {
    RotationCore::new(stored, facts, Duration::from_secs(age), RotationPauses::default(), at(0))
}

fn idle() -> RotationCore {
    start(None, DocumentFacts::default(), 0)
}

/// An input of the core. Versions and steps are those of the end.
#[derive(Debug, Clone)]
enum Input {
    Request(RotationOptions),
    Refused(RotationOptions, &'static str),
    Done(u64, RotationStep),
    /// The document has retired keys after the step.
    DoneWithRetired(u64, RotationStep),
    Counted(u64, Vec<(&'static str, u64)>),
    Failed(u64, RotationStep),
    Woken,
}

/// Gives the inputs to a core, each at its second, and compares the effects. The store has the version 1 at first.
fn play(core: &mut RotationCore, script: Vec<(u64, Input, Vec<RotationEffect>)>) {
    for (seconds, input, expected) in script {
        let now = at(seconds);
        let effects = match input.clone() {
            Input::Request(options) => core.request(options, 1, now).expect("admitted").1,
            Input::Refused(options, phase) => {
                let refusal = core.request(options, 1, now).expect_err("refused");
                assert_eq!(refusal.code, RefusalCode::InvalidState, "{seconds}: {input:?}");
                assert!(refusal.message.contains(&format!("{phase:?}")), "{seconds}: {}", refusal.message);
                Vec::new()
            }
            Input::Done(version, step) => core.ended((version, &step), StepEnd::Done { has_retired: false }, now, 0.5),
            Input::DoneWithRetired(version, step) => {
                core.ended((version, &step), StepEnd::Done { has_retired: true }, now, 0.5)
            }
            Input::Counted(version, uses) => {
                let uses =
                    uses.into_iter().map(|(method, credentials)| KeyUse { method: method.to_owned(), credentials });
                core.ended((version, &RotationStep::CountUses), StepEnd::Counted(uses.collect()), now, 0.5)
            }
            Input::Failed(version, step) => core.ended((version, &step), StepEnd::Failed, now, 0.5),
            Input::Woken => core.woken(now),
        };
        assert_eq!(effects, expected, "{seconds}: {input:?}");
    }
}

#[test]
fn the_steps_of_a_rotation_are_thirty_seconds_apart_and_the_old_key_stays_while_credentials_need_it() {
    let mut core = idle();
    play(
        &mut core,
        vec![
            (0, Woken, vec![]),
            (0, Request(PLAIN), vec![save(2, Requested, 0, PLAIN), run(2, AddKeys)]),
            (1, Woken, vec![]),
            (2, Done(2, AddKeys), vec![save(2, Added, 2, PLAIN), wake(30)]),
            (31, Woken, vec![wake(1)]),
            (32, Woken, vec![run(2, ResignPresentations)]),
            (33, Done(2, ResignPresentations), vec![save(2, Resigned, 33, PLAIN), wake(30)]),
            (63, Woken, vec![run(2, RetireOld)]),
            (64, DoneWithRetired(2, RetireOld), vec![save(2, Retired, 64, PLAIN), wake(30)]),
            (94, Woken, vec![run(2, CountUses)]),
            (95, Counted(2, vec![("#1", 3)]), vec![wake(3_600)]),
            (3_695, Woken, vec![run(2, CountUses)]),
            (3_696, Counted(2, vec![("#1", 0)]), vec![run(2, remove(&["#1"]))]),
            (3_697, Done(2, remove(&["#1"])), vec![end(2)]),
            (3_700, Woken, vec![]),
        ],
    );
    assert_eq!(core.phase(), None);
}

#[test]
fn own_credentials_are_replaced_before_the_old_key_is_removed() {
    let mut core = start(Some(row(2, Resigned, 0, REISSUE)), DocumentFacts { has_new: true, has_retired: false }, 30);
    play(
        &mut core,
        vec![
            (0, Woken, vec![run(2, RetireOld)]),
            (1, DoneWithRetired(2, RetireOld), vec![save(2, Retired, 1, REISSUE), run(2, ReissueOwn)]),
            (2, Failed(2, ReissueOwn), vec![wake(1)]),
            (3, Woken, vec![run(2, ReissueOwn)]),
            (9, DoneWithRetired(2, ReissueOwn), vec![save(2, Reissued, 9, REISSUE), wake(30)]),
            (39, Woken, vec![run(2, CountUses)]),
            (40, Counted(2, vec![("#1", 0)]), vec![run(2, remove(&["#1"]))]),
            (41, Done(2, remove(&["#1"])), vec![end(2)]),
        ],
    );
}

#[test]
fn a_compromised_key_leaves_in_the_first_version_and_own_credentials_are_always_replaced() {
    let mut core = idle();
    play(
        &mut core,
        vec![
            (0, Request(COMPROMISED), vec![save(2, Requested, 0, COMPROMISED), run(2, ReplaceAll)]),
            (0, Refused(COMPROMISED, "requested"), vec![]),
            (0, Refused(PLAIN, "requested"), vec![]),
            (1, Done(2, ReplaceAll), vec![save(2, Replaced, 1, COMPROMISED), run(2, ReissueOwn)]),
            (5, Done(2, ReissueOwn), vec![save(2, Reissued, 5, COMPROMISED), end(2)]),
        ],
    );
}

#[test]
fn a_request_during_a_rotation_is_refused_by_the_name_of_the_phase_unless_a_key_is_compromised() {
    let facts = DocumentFacts { has_new: true, has_retired: true };
    for (phase, plain_is_admitted, compromised_is_admitted) in [
        (Requested, false, true),
        (Added, false, true),
        (Resigned, false, true),
        (Retired, true, true),
        (Reissued, true, true),
        (Replaced, true, true),
    ] {
        for (options, is_admitted) in
            [(PLAIN, plain_is_admitted), (REISSUE, plain_is_admitted), (COMPROMISED, compromised_is_admitted)]
        {
            let mut core = start(Some(row(2, phase, 0, PLAIN)), facts, 0);
            let answer = core.request(options, 2, at(0));
            assert_eq!(answer.is_ok(), is_admitted, "{phase:?} {options:?}");
            match answer {
                Ok((version, _)) => assert_eq!(version, 3),
                Err(refusal) => {
                    assert_eq!(refusal.code, RefusalCode::InvalidState);
                    assert!(refusal.message.contains(phase.as_str()), "{}", refusal.message);
                }
            }
        }
    }
}

#[test]
fn each_phase_goes_on_after_a_restart() {
    let [nothing, new, old, both] = [(false, false), (true, false), (false, true), (true, true)]
        .map(|(has_new, has_retired)| DocumentFacts { has_new, has_retired });
    for (stored, facts, age, expected) in [
        (None, nothing, 0, vec![]),
        // Retired keys of a rotation that the store has forgotten.
        (None, old, 0, vec![wake(30)]),
        // Killed before the first version, and behind it: the step is repeated.
        (Some((Requested, PLAIN)), nothing, 0, vec![run(2, AddKeys)]),
        (Some((Requested, PLAIN)), new, 0, vec![run(2, AddKeys)]),
        (Some((Requested, COMPROMISED)), nothing, 0, vec![run(2, ReplaceAll)]),
        (Some((Requested, COMPROMISED)), new, 500, vec![run(2, ReplaceAll)]),
        (Some((Added, PLAIN)), new, 0, vec![wake(30)]),
        (Some((Added, PLAIN)), new, 12, vec![wake(18)]),
        (Some((Added, PLAIN)), new, 500, vec![run(2, ResignPresentations)]),
        (Some((Resigned, REISSUE)), new, 29, vec![wake(1)]),
        (Some((Resigned, REISSUE)), both, 30, vec![run(2, RetireOld)]),
        (Some((Retired, PLAIN)), both, 10, vec![wake(20)]),
        (Some((Retired, PLAIN)), both, 30, vec![run(2, CountUses)]),
        (Some((Retired, REISSUE)), both, 0, vec![run(2, ReissueOwn)]),
        (Some((Reissued, REISSUE)), both, 0, vec![wake(30)]),
        // The last version was published, and its end was not noted.
        (Some((Retired, PLAIN)), new, 0, vec![end(2)]),
        (Some((Reissued, COMPROMISED)), new, 0, vec![end(2)]),
        (Some((Replaced, COMPROMISED)), new, 0, vec![run(2, ReissueOwn)]),
        // The store was recovered with another log.
        (Some((Added, PLAIN)), nothing, 40, vec![run(2, AddKeys)]),
        (Some((Resigned, COMPROMISED)), old, 40, vec![run(2, ReplaceAll)]),
        (Some((Retired, REISSUE)), old, 40, vec![run(2, CountUses)]),
        (Some((Replaced, COMPROMISED)), nothing, 40, vec![end(2)]),
    ] {
        let stored = stored.map(|(phase, options)| row(2, phase, 0, options));
        let effects = start(stored, facts, age).woken(at(0));
        assert_eq!(effects, expected, "{stored:?} {facts:?} {age}");
    }
}

#[test]
fn a_first_step_that_fails_ends_the_rotation_of_a_waiting_caller_and_no_other() {
    let mut core = idle();
    play(
        &mut core,
        vec![
            (0, Request(PLAIN), vec![save(2, Requested, 0, PLAIN), run(2, AddKeys)]),
            (30, Failed(2, AddKeys), vec![end(2)]),
            (31, Woken, vec![]),
            (31, Request(PLAIN), vec![save(2, Requested, 31, PLAIN), run(2, AddKeys)]),
            (32, Done(2, AddKeys), vec![save(2, Added, 32, PLAIN), wake(30)]),
            // Steps without a caller are repeated, with pauses that grow.
            (62, Woken, vec![run(2, ResignPresentations)]),
            (63, Failed(2, ResignPresentations), vec![wake(1)]),
            (64, Woken, vec![run(2, ResignPresentations)]),
            (65, Failed(2, ResignPresentations), vec![wake(2)]),
            (67, Woken, vec![run(2, ResignPresentations)]),
            (68, Done(2, ResignPresentations), vec![save(2, Resigned, 68, PLAIN), wake(30)]),
        ],
    );
    // The caller went with the process.
    let mut core = start(Some(row(2, Requested, 0, COMPROMISED)), DocumentFacts::default(), 0);
    play(
        &mut core,
        vec![
            (0, Woken, vec![run(2, ReplaceAll)]),
            (1, Failed(2, ReplaceAll), vec![wake(1)]),
            // Between two attempts another request may take its place, but none that leaves the key in the document.
            (1, Refused(PLAIN, "requested"), vec![]),
            (1, Request(COMPROMISED), vec![save(3, Requested, 1, BOTH), run(3, ReplaceAll)]),
        ],
    );
}

#[test]
fn a_rotation_that_fails_at_its_begin_gives_back_the_one_that_it_has_replaced() {
    let mut core = start(Some(row(2, Added, 0, REISSUE)), DocumentFacts { has_new: true, has_retired: false }, 0);
    play(
        &mut core,
        vec![
            (0, Woken, vec![wake(30)]),
            (5, Request(COMPROMISED), vec![save(3, Requested, 5, BOTH), run(3, ReplaceAll)]),
            (6, Failed(3, ReplaceAll), vec![save(2, Added, 0, REISSUE), wake(30)]),
            (36, Woken, vec![run(2, ResignPresentations)]),
        ],
    );
}

#[test]
fn a_compromised_key_waits_for_the_version_that_is_being_written_and_for_nothing_else() {
    let mut core = idle();
    play(
        &mut core,
        vec![
            (0, Request(PLAIN), vec![save(2, Requested, 0, PLAIN), run(2, AddKeys)]),
            (1, Request(COMPROMISED), vec![]),
            (1, Refused(COMPROMISED, "requested"), vec![]),
            (
                2,
                Done(2, AddKeys),
                vec![save(2, Added, 2, PLAIN), save(3, Requested, 2, COMPROMISED), run(3, ReplaceAll)],
            ),
            (3, Done(3, ReplaceAll), vec![save(3, Replaced, 3, COMPROMISED), run(3, ReissueOwn)]),
            // Own credentials are replaced once more with the newest key: the end of the older step is ignored.
            (4, Request(COMPROMISED), vec![save(4, Requested, 4, BOTH), run(4, ReplaceAll)]),
            (5, Done(3, ReissueOwn), vec![]),
        ],
    );
    assert_eq!(core.phase(), Some(Requested));
}

#[test]
fn a_queued_request_begins_though_the_step_before_it_has_failed() {
    let mut core = idle();
    play(
        &mut core,
        vec![
            (0, Request(PLAIN), vec![save(2, Requested, 0, PLAIN), run(2, AddKeys)]),
            (1, Request(COMPROMISED), vec![]),
            (2, Failed(2, AddKeys), vec![end(2), save(3, Requested, 2, COMPROMISED), run(3, ReplaceAll)]),
        ],
    );
}

#[test]
fn each_retired_key_goes_when_no_credential_needs_it() {
    let mut core = start(Some(row(3, Retired, 0, PLAIN)), DocumentFacts { has_new: true, has_retired: true }, 30);
    play(
        &mut core,
        vec![
            (0, Woken, vec![run(3, CountUses)]),
            (1, Counted(3, vec![("#1", 0), ("#2", 5)]), vec![run(3, remove(&["#1"]))]),
            (2, DoneWithRetired(3, remove(&["#1"])), vec![run(3, CountUses)]),
            (3, Counted(3, vec![("#2", 5)]), vec![wake(3_600)]),
            // Another rotation does not wait for the credentials; their keys are looked at behind it.
            (4, Request(PLAIN), vec![save(4, Requested, 4, PLAIN), run(4, AddKeys)]),
            (5, DoneWithRetired(4, AddKeys), vec![save(4, Added, 5, PLAIN), wake(30)]),
            (35, Woken, vec![run(4, ResignPresentations)]),
            (36, DoneWithRetired(4, ResignPresentations), vec![save(4, Resigned, 36, PLAIN), wake(30)]),
            (66, Woken, vec![run(4, RetireOld)]),
            (67, DoneWithRetired(4, RetireOld), vec![save(4, Retired, 67, PLAIN), wake(30)]),
            (97, Woken, vec![run(4, CountUses)]),
            (98, Counted(4, vec![("#2", 0), ("#3", 0)]), vec![run(4, remove(&["#2", "#3"]))]),
            (99, Done(4, remove(&["#2", "#3"])), vec![end(4)]),
        ],
    );
}

#[test]
fn the_version_of_a_new_pair_is_above_all_of_the_store_and_of_a_rotation_that_has_made_none() {
    for (stored, newest, expected) in [(None, 1, 2), (None, 7, 8), (Some(4), 3, 5), (Some(4), 9, 10)] {
        let stored = stored.map(|version| row(version, Retired, 0, PLAIN));
        let mut core = start(stored, DocumentFacts { has_new: true, has_retired: true }, 0);
        assert_eq!(core.request(PLAIN, newest, at(0)).expect("admitted").0, expected);
    }
}
