//! Feeds random bytes to the ledger: as transactions, as the content of signed messages, and as queries. The ledger must not
//! panic, a refused transaction changes only fee and sequence, and the invariants hold.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use prost_types::{Any, Timestamp};
use svc_ledger::{
    BLOCKS_PER_YEAR, BlockContext, ChainConfig, GenesisAccount, GenesisState, LedgerState, UpgradeSchedule,
    begin_block, broken_invariant, deliver, end_block, query, simulate,
};
use svc_wire::{
    account_key::AccountKey,
    proto::cosmos::base::v1beta1::Coin,
    proto_registry::{Namespace, NodeGeneration, ProtoRegistry},
    tx::{SigningContext, UnsignedTx},
};

struct Fixture {
    chain: ChainConfig,
    state: LedgerState,
    key: AccountKey,
    messages: Vec<String>,
    queries: Vec<String>,
}

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let key = AccountKey::from_bytes(&[1; 32]).expect("a key");
    let chain = ChainConfig {
        chain_id: "fuzz-1".into(),
        prefix: "svc".into(),
        denom: "usvc".into(),
        min_gas_price_micros: 0,
        blocks_per_year: BLOCKS_PER_YEAR,
        generation: NodeGeneration::N0,
        upgrades: UpgradeSchedule::default(),
        registry: ProtoRegistry::compiled(&Namespace::compiled()).expect("loads"),
    };
    let account = GenesisAccount {
        address: key.public_key().address("svc").expect("an address").to_string(),
        coins: vec![("usvc".into(), 1_000_000_000_000)],
        bonded: 1_000,
    };
    let state = GenesisState { accounts: vec![account], ..GenesisState::default() }.build_state(&chain).expect("a genesis");
    let messages = chain.registry.msg_type_urls();
    let queries =
        chain.registry.rpc_methods().map(|rpc| rpc.path).filter(|path| path.contains("Query/")).collect();
    Fixture { chain, state, key, messages, queries }
});

fuzz_target!(|data: &[u8]| {
    let [kind, choice, rest @ ..] = data else { return };
    let fixture = &*FIXTURE;
    let block = BlockContext { height: 1, time: Timestamp { seconds: 1_000, nanos: 0 } };
    let choose = |from: &[String]| from[usize::from(*choice) % from.len()].clone();
    if kind % 3 == 0 {
        let _ = query(&fixture.state, &fixture.chain, block, &choose(&fixture.queries), rest);
        return;
    }
    let bytes = if kind % 3 == 1 {
        rest.to_vec()
    } else {
        let unsigned = UnsignedTx {
            messages: vec![Any { type_url: choose(&fixture.messages), value: rest.to_vec() }],
            sequence: 0,
            fee: vec![Coin { denom: "usvc".into(), amount: "100".into() }],
            gas_limit: 10_000_000,
            fee_granter: None,
            timeout_height: 0,
        };
        let context = SigningContext { chain_id: "fuzz-1".into(), account_number: 0 };
        unsigned.sign(&fixture.key, &context).expect("signs").bytes
    };
    let _ = simulate(&fixture.state, &fixture.chain, block, &bytes);
    let mut state = fixture.state.clone();
    begin_block(&mut state, &fixture.chain, block);
    let outcome = deliver(&mut state, &fixture.chain, block, &bytes);
    if outcome.code != 0 && outcome.gas_used == 0 {
        assert_eq!(state.hash(), fixture.state.hash(), "a refused transaction changed the state");
    }
    end_block(&mut state, &fixture.chain, block);
    assert_eq!(broken_invariant(&state, &fixture.chain), None);
});
