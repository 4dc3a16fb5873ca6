//! AUTHZ-CHECK-3 in a table. No transaction shows all of it: each message tests the state of its participants first, or answers with the
//! error of the operator's authorization.

use svc_wire::{
    proto::svc::pp::v1::{OnboardingState, Participant},
    proto_registry::{Namespace, NodeGeneration, ProtoRegistry},
};

use super::*;
use crate::{BLOCKS_PER_YEAR, BlockContext, ChainConfig, GenesisState, LedgerState, gas::GasMeter};

const NOW: i64 = 1_800_000_000;
const OPERATOR: &str = "svc1service";
const URL: &str = "/svc.pp.v1.MsgTriggerResolver";

fn at(offset: i64) -> Option<Timestamp> {
    Some(Timestamp { seconds: NOW + offset, nanos: 0 })
}

fn coins(amount: &str) -> Vec<Coin> {
    vec![Coin { denom: "usvc".to_owned(), amount: amount.to_owned() }]
}

fn chain(generation: NodeGeneration) -> ChainConfig {
    let compiled = ProtoRegistry::compiled(&Namespace::compiled()).expect("loads");
    ChainConfig {
        chain_id: "test-1".to_owned(),
        prefix: "svc".to_owned(),
        denom: "usvc".to_owned(),
        min_gas_price_micros: 0,
        blocks_per_year: BLOCKS_PER_YEAR,
        generation,
        upgrades: Default::default(),
        registry: ChainConfig::executed(compiled, generation).expect("descriptors"),
    }
}

fn participant() -> Participant {
    let op_state = OnboardingState::Validated.into();
    Participant { id: 7, corporation_id: 1, op_state, effective_from: at(-10), ..Participant::default() }
}

fn record(expiration: Option<Timestamp>, period: Option<Duration>) -> ParticipantAuthorizationRecord {
    ParticipantAuthorizationRecord {
        participant_id: 7,
        msg_types: vec![URL.to_owned()],
        spend_limit: coins("9"),
        remaining_spend: coins("4"),
        expiration,
        period,
        ..ParticipantAuthorizationRecord::default()
    }
}

/// A chain of each generation. The newest one begins with a council, which has no part in the check: the state is that of the first.
fn worlds() -> (Vec<ChainConfig>, LedgerState) {
    let chains: Vec<ChainConfig> = NodeGeneration::ALL.into_iter().map(chain).collect();
    let state = GenesisState::default().build_state(&chains[0]).expect("a state");
    (chains, state)
}

/// The code of the check, and the record that it leaves.
fn check(
    (chain, mut state): (&ChainConfig, LedgerState),
    participant: Option<Participant>,
    record: ParticipantAuthorizationRecord,
    (operator, url): (&str, &str),
) -> (Option<u32>, ParticipantAuthorizationRecord) {
    let gas = GasMeter::unlimited();
    if let Some(participant) = participant {
        state.participants.put(7, participant, &gas);
    }
    let authorization =
        VsOperatorAuthorization { id: 1, corporation_id: 1, vs_operator: OPERATOR.to_owned(), records: vec![record] };
    state.vs_authorizations.put(1, authorization, &gas);
    state.vs_participant_index.put(7, PlainValue(1), &gas);
    let block = BlockContext { height: 2, time: Timestamp { seconds: NOW, nanos: 0 } };
    let mut exec = ExecContext::without_fee(&mut state, chain, block, &gas);
    let checked = authorize(&mut exec, 1, operator, 7, url);
    let code = checked.err().map(|error| {
        assert_eq!(error.codespace, "de", "{error}");
        error.code
    });
    let records = state.vs_authorizations.peek(&1).map(|found| found.records.clone()).unwrap_or_default();
    (code, records.into_iter().next().expect("a record"))
}

#[test]
fn from_the_rework_of_the_delegation_on_the_participant_is_tested_first() {
    let (known, other_type) = ((OPERATOR, URL), (OPERATOR, "/svc.pp.v1.MsgRenewParticipantOP"));
    let good = || Some(participant());
    let (chains, state) = worlds();
    for (participant, call, before, after) in [
        (good(), known, None, None),
        (None, known, None, Some(1116)),
        (Some(Participant { effective_from: None, ..participant() }), known, None, Some(1116)),
        (Some(Participant { effective_from: at(1), ..participant() }), known, None, Some(1116)),
        (Some(Participant { effective_until: at(0), ..participant() }), known, None, Some(1116)),
        (Some(Participant { revoked: at(-1), ..participant() }), known, None, Some(1116)),
        (Some(Participant { slashed: at(-1), ..participant() }), known, None, Some(1116)),
        (Some(Participant { slashed: at(-2), repaid: at(-1), ..participant() }), known, None, Some(1116)),
        (good(), ("svc1other", URL), Some(1114), Some(1114)),
        (good(), other_type, Some(1107), Some(1107)),
        // Before the other tests.
        (None, ("svc1other", URL), Some(1114), Some(1116)),
        (None, other_type, Some(1107), Some(1116)),
    ] {
        for chain in &chains {
            let generation = chain.generation;
            let expected = if generation < NodeGeneration::N3 { before } else { after };
            let found = check((chain, state.clone()), participant.clone(), record(at(100), None), call);
            assert_eq!(found.0, expected, "{generation} {call:?} {participant:?}");
        }
    }
}

#[test]
fn an_expiration_ends_a_right_or_a_cycle() {
    use NodeGeneration::{N0, N1, N2, N3, N4};
    let minute = Some(Duration { seconds: 60, nanos: 0 });
    let (kept, refilled) = (coins("4"), coins("9"));
    let (chains, state) = worlds();
    for (generations, expiration, period, code, rest, end) in [
        (&[N0, N1, N2, N3, N4][..], at(1), None, None, &kept, at(1)),
        (&[N0, N1, N2], at(0), None, Some(1106), &kept, at(0)),
        (&[N3, N4], at(0), None, None, &kept, at(0)),
        (&[N0], None, None, Some(1106), &kept, None),
        (&[N1, N2, N3, N4], None, None, None, &kept, None),
        // With a period the next use begins a cycle. Older nodes begin none without an end.
        (&[N0, N1, N2, N3, N4], at(1), minute, None, &kept, at(1)),
        (&[N0, N1, N2, N3, N4], at(0), minute, None, &refilled, at(60)),
        (&[N0], None, minute, Some(1106), &kept, None),
        (&[N1, N2], None, minute, None, &kept, None),
        (&[N3, N4], None, minute, None, &refilled, at(60)),
    ] {
        for chain in chains.iter().filter(|chain| generations.contains(&chain.generation)) {
            let generation = chain.generation;
            let (found, left) =
                check((chain, state.clone()), Some(participant()), record(expiration, period), (OPERATOR, URL));
            assert_eq!(found, code, "{generation} {expiration:?} {period:?}");
            assert_eq!((&left.remaining_spend, left.expiration), (rest, end), "{generation} {expiration:?} {period:?}");
        }
    }
}
