//! The devnet's ledger: transactions a second on one core, the cost of many participants, queries a second.

use std::collections::BTreeMap;

use prost::Message;
use prost_types::{Any, Timestamp};
use serde_json::{Value, json};
use svc_devnet::{Devnet, DevnetConfig};
use svc_ledger::{
    BLOCKS_PER_YEAR, BlockContext, ChainConfig, GenesisAccount, GenesisState, LedgerState, begin_block, deliver,
    end_block, query,
};
use svc_wire::{
    account_key::AccountKey,
    proto::{cosmos::base::v1beta1::Coin, svc::pp::v1::Participant},
    proto_registry::{Namespace, NodeGeneration, ProtoRegistry},
    tx::{SigningContext, UnsignedTx},
};
use tokio::time::Instant;

use crate::{BenchRow, median, resident_bytes};

/// A chain whose only account sends everything.
struct BenchLedger {
    chain: ChainConfig,
    state: LedgerState,
    key: AccountKey,
    address: String,
    sequence: u64,
    height: u64,
    policies: Vec<String>,
}

const GAS: u64 = 2_000_000_000;

impl BenchLedger {
    fn new() -> Self {
        let key = AccountKey::from_bytes(&[1; 32]).expect("a key");
        let address = key.public_key().address("svc").expect("an address").to_string();
        let chain = ChainConfig {
            chain_id: "bench-1".into(),
            prefix: "svc".into(),
            denom: "usvc".into(),
            min_gas_price_micros: 0,
            blocks_per_year: BLOCKS_PER_YEAR,
            generation: NodeGeneration::N0,
            upgrades: Default::default(),
            registry: ProtoRegistry::compiled(&Namespace::compiled()).expect("loads"),
        };
        let account = GenesisAccount { address: address.clone(), coins: vec![("usvc".into(), 1 << 60)], bonded: 0 };
        let state =
            GenesisState { accounts: vec![account], ..GenesisState::default() }.build_state(&chain).expect("a genesis");
        Self { chain, state, key, address, sequence: 0, height: 0, policies: Vec::new() }
    }

    fn pack(&self, name: &str, value: &Value) -> Any {
        let url = match name.split_once('.') {
            Some((module, message)) if !name.starts_with('/') => format!("/svc.{module}.v1.{message}"),
            _ => name.to_owned(),
        };
        let value = self.chain.registry.encode(&url, value).unwrap_or_else(|error| panic!("{error}"));
        Any { type_url: url, value }
    }

    fn sign(&mut self, messages: Vec<Any>) -> Vec<u8> {
        let unsigned = UnsignedTx {
            messages,
            sequence: self.sequence,
            fee: vec![Coin { denom: "usvc".into(), amount: "1".into() }],
            gas_limit: GAS,
            fee_granter: None,
            timeout_height: 0,
        };
        self.sequence += 1;
        let context = SigningContext { chain_id: "bench-1".into(), account_number: 0 };
        unsigned.sign(&self.key, &context).expect("signs").bytes
    }

    fn block(&self) -> BlockContext {
        BlockContext {
            height: self.height,
            time: Timestamp { seconds: 1_000_000 + self.height.cast_signed(), nanos: 0 },
        }
    }

    fn execute_block(&mut self, txs: &[Vec<u8>]) {
        self.height += 1;
        let block = self.block();
        begin_block(&mut self.state, &self.chain, block);
        for tx in txs {
            let outcome = deliver(&mut self.state, &self.chain, block, tx);
            assert_eq!(outcome.code, 0, "{}", outcome.log);
        }
        end_block(&mut self.state, &self.chain, block);
    }

    fn send(&mut self, messages: Vec<Any>) {
        let tx = self.sign(messages);
        self.execute_block(&[tx]);
    }

    /// A corporation whose operator is the one account. Its policy address follows from its number.
    fn create_corporation(&mut self) {
        let number = self.policies.len() as u64 + 1;
        let bytes = svc_wire::address::group_policy_address(number);
        let policy = svc_wire::address::Address::from_bytes("svc", &bytes).expect("an address").to_string();
        let span = "60s";
        let create = json!({
            "signer": self.address, "members": [{"address": self.address, "weight": "1"}], "did": format!("did:web:c{number}"),
            "language": "en", "doc_url": "https://a.example/1", "doc_digest_sri": "sha256-AA",
            "decision_policy": {"@type": "/cosmos.group.v1.ThresholdDecisionPolicy", "threshold": "1",
                "windows": {"voting_period": span, "min_execution_period": "0s"}},
        });
        let types = [
            "ec.v1.MsgCreateEcosystem",
            "cs.v1.MsgCreateCredentialSchema",
            "pp.v1.MsgCreateRootParticipant",
            "pp.v1.MsgStartParticipantOP",
        ];
        let grant = json!({
            "@type": "/svc.de.v1.MsgGrantOperatorAuthorization", "corporation": policy, "operator": policy,
            "grantee": self.address, "msg_types": types.map(|name| format!("/svc.{name}")),
        });
        let propose = json!({"group_policy_address": policy, "proposers": [self.address], "exec": "EXEC_TRY", "messages": [grant]});
        let messages = vec![
            self.pack("co.MsgCreateCorporation", &create),
            self.pack("/cosmos.group.v1.MsgSubmitProposal", &propose),
        ];
        self.send(messages);
        self.policies.push(policy);
    }

    fn corporation_message(&self, corporation: usize, name: &str, mut value: Value) -> Any {
        value["corporation"] = self.policies[corporation].clone().into();
        value["operator"] = self.address.clone().into();
        self.pack(name, &value)
    }
}

/// Transactions a second through CheckTx and a block, against verifying their two signatures alone. The check runs the messages
/// too, so it is a little more than a node does.
fn transactions(rows: &mut Vec<BenchRow>) {
    const COUNT: usize = 2_000;
    let mut ledger = BenchLedger::new();
    let send = json!({"from_address": ledger.address, "to_address": ledger.address, "amount": [{"denom": "usvc", "amount": "1"}]});
    let message = ledger.pack("/cosmos.bank.v1beta1.MsgSend", &send);
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let txs: Vec<_> = (0..COUNT).map(|_| ledger.sign(vec![message.clone()])).collect();
        let began = Instant::now();
        let mut check = ledger.state.clone();
        for tx in &txs {
            let outcome = deliver(&mut check, &ledger.chain, ledger.block(), tx);
            assert_eq!(outcome.code, 0, "{}", outcome.log);
        }
        ledger.execute_block(&txs);
        ours.push(COUNT as f64 / began.elapsed().as_secs_f64());
        let document = vec![7; 200];
        let signature = ledger.key.sign(&document).expect("signs");
        let key = ledger.key.public_key();
        let began = Instant::now();
        for _ in 0..2 * COUNT {
            assert!(key.verify(&document, &signature));
        }
        floor.push(COUNT as f64 / began.elapsed().as_secs_f64());
    }
    let (ours, floor) = (median(ours), median(floor));
    rows.push(BenchRow {
        measure: "transactions through CheckTx and a block, one core".into(),
        value: format!("{ours:.0} a second"),
        baseline: format!("{floor:.0} a second, verifying their two signatures alone"),
        ratio: ours / floor,
    });
}

/// Time and memory of 100,000 participants, sent as signed transactions of a hundred messages.
fn participants(rows: &mut Vec<BenchRow>) {
    const SCHEMAS: usize = 250;
    const CORPORATIONS: usize = 200;
    let mut ledger = BenchLedger::new();
    ledger.create_corporation();
    let eco =
        json!({"did": "did:web:e", "language": "en", "doc_url": "https://a.example/1", "doc_digest_sri": "sha256-AA"});
    let eco = ledger.corporation_message(0, "ec.MsgCreateEcosystem", eco);
    ledger.send(vec![eco]);
    let period = json!({"value": 0});
    let schema = json!({
        "ecosystem_id": 1, "json_schema": r#"{"$schema":"s","type":"object","title":"t","description":"d","properties":{"a":{}}}"#,
        "issuer_grantor_validation_validity_period": period, "verifier_grantor_validation_validity_period": period,
        "issuer_validation_validity_period": period, "verifier_validation_validity_period": period,
        "holder_validation_validity_period": period, "issuer_onboarding_mode": 3, "verifier_onboarding_mode": 3,
        "holder_onboarding_mode": 1, "pricing_asset_type": 2, "pricing_asset": "usvc", "digest_algorithm": "sha384",
    });
    let schemas =
        (0..SCHEMAS).map(|_| ledger.corporation_message(0, "cs.MsgCreateCredentialSchema", schema.clone())).collect();
    ledger.send(schemas);
    let roots = (1..=SCHEMAS)
        .map(|id| {
            let root = json!({"schema_id": id, "did": "did:web:c1", "effective_from": "1970-01-12T14:00:00Z"});
            ledger.corporation_message(0, "pp.MsgCreateRootParticipant", root)
        })
        .collect();
    ledger.send(roots);
    for _ in 0..CORPORATIONS {
        ledger.create_corporation();
    }
    ledger.height = 10_000;
    let mut txs = Vec::new();
    let mut batch = Vec::new();
    for schema in 1..=SCHEMAS {
        for corporation in 1..=CORPORATIONS {
            for role in ["ISSUER_GRANTOR", "VERIFIER_GRANTOR"] {
                let did = format!("did:web:c{}", corporation + 1);
                let value = json!({"role": role, "validator_participant_id": schema, "did": did});
                batch.push(ledger.corporation_message(corporation, "pp.MsgStartParticipantOP", value));
                if batch.len() == 100 {
                    let messages = std::mem::take(&mut batch);
                    txs.push(ledger.sign(messages));
                }
            }
        }
    }
    let (before, began) = (resident_bytes("self"), Instant::now());
    for block in txs.chunks(20) {
        ledger.execute_block(block);
    }
    let (took, memory) = (began.elapsed().as_secs_f64(), resident_bytes("self").saturating_sub(before));
    // The floor: the same participants decoded into a plain map.
    let list = json!({"response_max_size": 1024, "role": "ISSUER_GRANTOR"});
    let request = ledger.chain.registry.encode("svc.pp.v1.QueryListParticipantsRequest", &list).expect("encodes");
    let reply = query(&ledger.state, &ledger.chain, ledger.block(), "/svc.pp.v1.Query/ListParticipants", &request)
        .expect("answered");
    let reply = svc_wire::proto::svc::pp::v1::QueryListParticipantsResponse::decode(reply.as_slice()).expect("decodes");
    let one = reply.participants[0].encode_to_vec();
    let (before, began) = (resident_bytes("self"), Instant::now());
    let plain: BTreeMap<u64, Participant> =
        (0..100_000).map(|id| (id, Participant::decode(one.as_slice()).expect("decodes"))).collect();
    let (floor, floor_memory) = (began.elapsed().as_secs_f64(), resident_bytes("self").saturating_sub(before));
    assert_eq!(plain.len(), 100_000);
    rows.push(BenchRow {
        measure: "100,000 participants by signed messages, time".into(),
        value: format!("{took:.2} s"),
        baseline: format!("{floor:.2} s, decoding as many into a plain map"),
        ratio: took / floor,
    });
    rows.push(BenchRow {
        measure: "100,000 participants, memory".into(),
        value: format!("{} MiB, with every height's state", memory >> 20),
        baseline: format!("{} MiB, the plain map", floor_memory >> 20),
        ratio: memory as f64 / floor_memory.max(1) as f64,
    });
}

/// `abci_query` over HTTP against `health` over the same connection.
async fn queries(rows: &mut Vec<BenchRow>) {
    let devnet = Devnet::launch(DevnetConfig { block_time: None, ..DevnetConfig::default() }).await.expect("starts");
    let client = reqwest::Client::new();
    let request = devnet.node.read_core(|core| {
        core.chain
            .registry
            .encode("svc.co.v1.QueryGetCorporationRequest", &json!({"corporation_id": 1}))
            .expect("encodes")
    });
    let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "abci_query",
        "params": {"path": "/svc.co.v1.Query/GetCorporation", "data": hex::encode(request)}});
    let health = json!({"jsonrpc": "2.0", "id": 1, "method": "health", "params": {}});
    let rate = async |body: &Value| {
        const COUNT: usize = 2_000;
        let began = Instant::now();
        for _ in 0..COUNT {
            let answer = client.post(devnet.node.origin()).body(body.to_string()).send().await.expect("answers");
            assert!(answer.bytes().await.expect("a body").len() > 10);
        }
        COUNT as f64 / began.elapsed().as_secs_f64()
    };
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        ours.push(rate(&ask).await);
        floor.push(rate(&health).await);
    }
    let (ours, floor) = (median(ours), median(floor));
    rows.push(BenchRow {
        measure: "abci_query of an entity, one connection".into(),
        value: format!("{ours:.0} a second"),
        baseline: format!("{floor:.0} a second, health"),
        ratio: ours / floor,
    });
}

pub async fn rows() -> Vec<BenchRow> {
    let mut rows = Vec::new();
    transactions(&mut rows);
    participants(&mut rows);
    queries(&mut rows).await;
    rows
}
