//! The signer's decisions, in tables.

use std::collections::BTreeSet;

use svc_kit::upstream::{Kind, UpstreamError};

use super::*;

#[derive(Default)]
struct Table(BTreeSet<u64>, u64);

impl Live for Table {
    fn is_live_at(&self, sequence: u64) -> bool {
        self.0.contains(&sequence)
    }
    fn count(&self) -> usize {
        self.0.len()
    }
    fn floor(&self) -> u64 {
        self.1
    }
}

fn session() -> Arc<str> {
    "session".into()
}

const A: CallId = CallId(1);
const B: CallId = CallId(2);

fn unreachable() -> NodeError {
    NodeError::Upstream(UpstreamError::Unreachable { kind: Kind::Rpc, origin: "o".into(), reason: "r".into() })
}

fn refused(codespace: &str, code: u32, raw_log: &str) -> Result<BroadcastOutcome, NodeError> {
    Ok(BroadcastOutcome::Refused(error(codespace, code, raw_log)))
}

fn error(codespace: &str, code: u32, raw_log: &str) -> ChainError {
    ChainError { codespace: codespace.into(), code, raw_log: raw_log.into() }
}

fn simulate(call: CallId, sequence: u64, with_granter: bool) -> Effect {
    Effect::Simulate { call, sequence, with_granter }
}

fn send(call: CallId, sequence: u64, with_granter: bool) -> Effect {
    Effect::Send { call, sequence, with_granter, gas_limit: 150_000, fee: 3_750 }
}

fn in_flight(call: CallId, hash: &str) -> Effect {
    Effect::Answer { call, outcome: Ok(hash.into()) }
}

/// A signer that expects sequence 5 and has simulated write A there.
fn sending(granter: Option<Option<u128>>, table: &Table) -> Core {
    let mut core = Core::new(25_000, WindowBound::Adaptive, false);
    assert_eq!(core.submit(A, session(), granter, table), [Effect::Learn]);
    assert_eq!(core.learned(Ok(Some(5)), "a", table), [simulate(A, 5, granter.is_some())]);
    assert_eq!(core.simulated(A, Ok(150_000), table), [send(A, 5, granter.is_some())]);
    core
}

#[test]
fn writes_go_out_on_consecutive_sequences_without_waiting_for_blocks() {
    let mut table = Table::default();
    let mut core = sending(None, &table);
    assert_eq!(core.submit(B, session(), None, &table), []);
    table.0.insert(5);
    assert_eq!(core.sent(A, "H5", Ok(BroadcastOutcome::Accepted), &table), [in_flight(A, "H5"), simulate(B, 6, false)]);
    assert_eq!(core.simulated(B, Ok(150_000), &table), [send(B, 6, false)]);
}

#[test]
fn a_refusal_because_of_the_allowance_is_tried_once_without_granter() {
    for (codespace, code) in [("feegrant", 2), ("feegrant", 3), ("feegrant", 7), ("sdk", 38)] {
        let table = Table::default();
        let mut core = sending(Some(None), &table);
        let retract = Effect::Retract { hash: "H".into() };
        assert_eq!(core.sent(A, "H", refused(codespace, code, ""), &table), [retract.clone(), simulate(A, 5, false)]);
        assert_eq!(core.simulated(A, Ok(150_000), &table), [send(A, 5, false)]);
        let answer = Effect::Answer { call: A, outcome: Err(SubmitError::Rejected(error(codespace, code, ""))) };
        assert_eq!(core.sent(A, "H", refused(codespace, code, ""), &table), [retract, answer]);
    }
}

#[test]
fn the_allowance_is_not_used_when_it_fails_in_simulation_or_is_too_small() {
    let table = Table::default();
    for (budget, simulated) in
        [(Some(None), Err(Ok(error("sdk", 6, "fee allowance expired")))), (Some(Some(3_749)), Ok(150_000))]
    {
        let mut core = Core::new(25_000, WindowBound::Adaptive, false);
        core.submit(A, session(), budget, &table);
        core.learned(Ok(Some(5)), "a", &table);
        assert_eq!(core.simulated(A, simulated, &table), [simulate(A, 5, false)]);
        assert_eq!(core.simulated(A, Ok(150_000), &table), [send(A, 5, false)]);
    }
    let enough = sending(Some(Some(3_750)), &table);
    assert_eq!(enough.step, Step::Sending { sequence: 5, gas_limit: 150_000 });
}

#[test]
fn a_wrong_sequence_resynchronises_in_both_directions() {
    let mut table = Table::default();
    let mut core = sending(None, &table);
    let ahead = "account sequence mismatch, expected 9, got 5: incorrect account sequence";
    let retract = Effect::Retract { hash: "H".into() };
    assert_eq!(core.sent(A, "H", refused("sdk", 32, ahead), &table), [retract, simulate(A, 9, false)]);
    // The node has lost our live transactions 7 and 8: they are sent again, the same bytes, before anything else.
    table.0.extend([7, 8]);
    let behind = error("sdk", 6, "account sequence mismatch, expected 7, got 9: incorrect account sequence");
    assert_eq!(core.simulated(A, Err(Ok(behind)), &table), [Effect::Resend { sequence: 7 }]);
    assert_eq!(core.resent(Ok(BroadcastOutcome::Accepted), &table), [Effect::Resend { sequence: 8 }]);
    assert_eq!(core.resent(Ok(BroadcastOutcome::Accepted), &table), [simulate(A, 9, false)]);
}

#[test]
fn a_sequence_that_stays_wrong_is_given_up() {
    let table = Table::default();
    let mut core = sending(None, &table);
    let wrong = || refused("sdk", 32, "account sequence mismatch, expected 5, got 5");
    for _ in 0..MAX_SETBACKS {
        assert_eq!(core.sent(A, "H", wrong(), &table)[1], simulate(A, 5, false));
        core.simulated(A, Ok(150_000), &table);
    }
    let effects = core.sent(A, "H", wrong(), &table);
    assert!(matches!(&effects[1], Effect::Answer { outcome: Err(SubmitError::Sequence(_)), .. }), "{effects:?}");
}

#[test]
fn a_hand_over_without_an_answer_is_in_flight_and_sent_again() {
    let mut table = Table::default();
    let mut core = sending(None, &table);
    table.0.insert(5);
    assert_eq!(core.sent(A, "H", Err(unreachable()), &table), [in_flight(A, "H"), Effect::Learn]);
    assert_eq!(core.learned(Err(unreachable()), "a", &table), [Effect::ChooseNode]);
    assert_eq!(core.ticked(&table), [Effect::Learn]);
    assert_eq!(core.learned(Ok(Some(5)), "a", &table), [Effect::Resend { sequence: 5 }]);
    assert_eq!(core.resent(refused("sdk", 19, ""), &table), []);
    assert_eq!(core.expected(), Some(6));
    assert_eq!(core.submit(B, session(), None, &table), [simulate(B, 6, false)]);
}

#[test]
fn a_node_that_is_down_fails_those_who_wait_and_nobody_later() {
    let table = Table::default();
    let mut core = Core::new(25_000, WindowBound::Adaptive, false);
    core.submit(A, session(), None, &table);
    core.submit(B, session(), None, &table);
    let answer = |call| Effect::Answer { call, outcome: Err(SubmitError::Node(unreachable())) };
    assert_eq!(core.learned(Err(unreachable()), "a", &table), [answer(A), answer(B), Effect::ChooseNode]);
    assert_eq!(core.submit(A, session(), None, &table), []);
    assert_eq!(core.ticked(&table), [Effect::Learn]);
    assert_eq!(core.learned(Ok(Some(5)), "a", &table), [simulate(A, 5, false)]);
    assert_eq!(core.simulated(A, Err(Err(unreachable())), &table), [Effect::ChooseNode, answer(A)]);
}

#[test]
fn a_new_incarnation_makes_sure_of_what_is_in_flight_before_it_signs() {
    let table = Table(BTreeSet::from([4, 5]), 0);
    let mut core = Core::new(25_000, WindowBound::Adaptive, true);
    assert_eq!(core.ticked(&table), [Effect::Learn]);
    core.submit(A, session(), None, &table);
    assert_eq!(core.learned(Ok(Some(4)), "a", &table), [Effect::Resend { sequence: 4 }]);
    assert_eq!(core.resent(refused("sdk", 19, ""), &table), [Effect::Resend { sequence: 5 }]);
    assert_eq!(core.resent(Ok(BroadcastOutcome::Accepted), &table), [simulate(A, 6, false)]);
}

#[test]
fn a_full_mempool_pauses_until_the_next_block_and_shrinks_the_window() {
    let table = Table::default();
    let mut core = sending(None, &table);
    assert_eq!(core.sent(A, "H", refused("sdk", 20, ""), &table), [Effect::Retract { hash: "H".into() }]);
    assert_eq!(core.window(), 128);
    assert_eq!(core.ticked(&table), [simulate(A, 5, false)]);
}

#[test]
fn the_window_and_the_queue_are_bounded() {
    let table = Table((1000..1256).collect(), 0);
    let mut core = Core::new(25_000, WindowBound::Adaptive, false);
    core.submit(A, session(), None, &table);
    assert_eq!(core.learned(Ok(Some(5)), "a", &table), [], "the window is full");
    let smaller = Table((1001..1256).collect(), 0);
    assert_eq!(core.settled(true, &smaller), [simulate(A, 5, false)]);
    for call in 0..QUEUE_LIMIT as u64 {
        assert_eq!(core.submit(CallId(10 + call), session(), None, &smaller), []);
    }
    assert!(matches!(
        &core.submit(B, session(), None, &smaller)[..],
        [Effect::Answer { outcome: Err(SubmitError::Overloaded { .. }), .. }]
    ));
}

#[test]
fn an_expiry_frees_its_sequence_for_the_next_write() {
    let mut table = Table::default();
    let mut core = sending(None, &table);
    table.0.insert(5);
    core.sent(A, "H", Ok(BroadcastOutcome::Accepted), &table);
    table.0.remove(&5);
    assert_eq!(core.settled(false, &table), [Effect::Learn]);
    core.submit(B, session(), None, &table);
    assert_eq!(core.learned(Ok(Some(5)), "a", &table), [simulate(B, 5, false)]);
}

#[test]
fn a_withdrawn_write_is_never_signed_and_one_that_has_left_cannot_be_withdrawn() {
    let table = Table::default();
    let mut core = Core::new(25_000, WindowBound::Adaptive, false);
    core.submit(A, session(), None, &table);
    core.submit(B, session(), None, &table);
    core.learned(Ok(Some(5)), "a", &table);
    assert_eq!(core.withdraw(A, &table), (Withdrawal::Taken, vec![simulate(B, 5, false)]), "while it is simulated");
    assert_eq!(core.simulated(A, Ok(150_000), &table), [], "its late answer is ignored");
    core.submit(A, session(), None, &table);
    assert_eq!(core.withdraw(A, &table), (Withdrawal::Taken, vec![]), "while it waits");
    assert_eq!(core.simulated(B, Ok(150_000), &table), [send(B, 5, false)]);
    assert_eq!(core.withdraw(B, &table), (Withdrawal::Leaving, vec![]), "once it is handed over");
    assert_eq!(core.withdraw(A, &table), (Withdrawal::Gone, vec![]), "twice");
    let effects = core.sent(B, "H", refused("sdk", 20, ""), &table);
    assert!(matches!(&effects[1], Effect::Answer { outcome: Err(_), .. }), "now or never: {effects:?}");
}

#[test]
fn too_little_gas_for_check_tx_is_doubled_once() {
    let table = Table::default();
    let mut core = sending(None, &table);
    let more = Effect::Send { call: A, sequence: 5, with_granter: false, gas_limit: 300_000, fee: 7_500 };
    let retract = Effect::Retract { hash: "H".into() };
    assert_eq!(core.sent(A, "H", refused("sdk", 11, ""), &table), [retract.clone(), more]);
    let answer = Effect::Answer { call: A, outcome: Err(SubmitError::Rejected(error("sdk", 11, ""))) };
    assert_eq!(core.sent(A, "H", refused("sdk", 11, ""), &table), [retract, answer]);
}

#[test]
fn a_node_that_is_behind_is_not_believed_and_after_a_while_those_who_wait_are_told() {
    let table = Table(BTreeSet::new(), 9);
    let mut core = Core::new(25_000, WindowBound::Adaptive, false);
    core.submit(A, session(), None, &table);
    for _ in 0..MAX_BEHIND {
        assert_eq!(core.learned(Ok(Some(7)), "a", &table), [Effect::ChooseNode]);
        assert_eq!(core.ticked(&table), [Effect::Learn]);
    }
    let behind = SubmitError::Behind { expected: 7, used_below: 9 };
    let answer = Effect::Answer { call: A, outcome: Err(behind) };
    assert_eq!(core.learned(Ok(Some(7)), "a", &table), [answer, Effect::ChooseNode]);
    core.submit(B, session(), None, &table);
    assert_eq!(core.ticked(&table), [Effect::Learn]);
    assert_eq!(core.learned(Ok(Some(9)), "a", &table), [simulate(B, 9, false)]);
}

#[test]
fn a_doubt_in_the_middle_of_a_write_is_looked_into_behind_it() {
    let mut table = Table::default();
    let mut core = sending(None, &table);
    assert_eq!(core.doubt(&table), []);
    table.0.insert(5);
    assert_eq!(core.sent(A, "H", Ok(BroadcastOutcome::Accepted), &table), [in_flight(A, "H"), Effect::Learn]);
    assert_eq!(core.learned(Ok(Some(5)), "a", &table), [Effect::Resend { sequence: 5 }]);
    assert_eq!(core.resent(Ok(BroadcastOutcome::Accepted), &table), []);
}
