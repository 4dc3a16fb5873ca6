//! A ledger with corporations, driven block by block. Messages are JSON, so that a test case lists only the fields it changes.

use std::collections::BTreeMap;

use super::outcomes::attribute;
use prost_types::{Any, Timestamp};
use serde_json::{Value, json};
use svc_ledger::{
    AppStateError, BlockContext, ChainConfig, GenesisAccount, GenesisState, LedgerEvent, LedgerState, TxOutcome,
    authority_address, begin_block, broken_invariant, deliver, end_block, query,
};
use svc_wire::{
    account_key::AccountKey,
    proto::cosmos::base::v1beta1::Coin,
    proto_registry::{Namespace, NodeGeneration, ProtoRegistry},
    tx::{self, SigningContext, UnsignedTx},
};

pub const DENOM: &str = "usvc";
pub const OTHER_DENOM: &str = "uother";
pub const DIGEST_SRI: &str = "sha256-AAEC";
pub const CHAIN_ID: &str = "test-1";
/// Amount of each denom that every account has at genesis.
pub const FUNDS: u128 = 1_000_000_000_000;
/// Fee of every transaction of these tests.
pub const FEE: u128 = 5_000;
const ACCOUNTS: [&str; 9] = ["member", "alice", "bob", "carol", "dave", "service", "service2", "oracle", "stranger"];

/// A refusal: codespace, code, and a part of the text.
pub type ExpectedRefusal = (&'static str, u32, &'static str);

/// A refusal with an unregistered error.
pub fn unregistered(text: &'static str) -> ExpectedRefusal {
    ("undefined", 1, text)
}

#[derive(Clone)]
pub struct TestLedger {
    pub chain: ChainConfig,
    pub state: LedgerState,
    pub height: u64,
    pub block_seconds: i64,
    /// Events of the last block's begin and end.
    pub block_events: Vec<LedgerEvent>,
    /// Policy addresses and ids by name.
    pub saved_names: BTreeMap<String, String>,
}

pub fn key(name: &str) -> AccountKey {
    let index = ACCOUNTS.iter().position(|known| *known == name).expect("an account");
    AccountKey::from_bytes(&[u8::try_from(index + 1).expect("few"); 32]).expect("a key")
}

pub fn account(name: &str) -> String {
    key(name).public_key().address("svc").expect("an address").to_string()
}

pub fn coin(amount: u128) -> Value {
    json!({"denom": DENOM, "amount": amount.to_string()})
}

/// Returns `base` with the members of `changes`; null removes a member.
pub fn merge_members(base: &Value, changes: &Value) -> Value {
    let mut merged = base.clone();
    for (name, value) in changes.as_object().expect("an object") {
        let object = merged.as_object_mut().expect("an object");
        if value.is_null() {
            object.remove(name);
        } else {
            object.insert(name.clone(), value.clone());
        }
    }
    merged
}

impl TestLedger {
    /// Creates a ledger with funded accounts alone.
    pub fn empty() -> Self {
        Self::with_yield_pool(0)
    }

    pub fn with_yield_pool(yield_pool: u128) -> Self {
        Self::begin(NodeGeneration::N0, yield_pool, &["member"]).expect("a genesis")
    }

    /// Creates a ledger of a generation with funded accounts alone, of which some have stake.
    pub fn begin(generation: NodeGeneration, yield_pool: u128, staked: &[&str]) -> Result<Self, AppStateError> {
        let compiled = ProtoRegistry::compiled(&Namespace::compiled()).expect("loads");
        let chain = ChainConfig {
            chain_id: CHAIN_ID.into(),
            prefix: "svc".into(),
            denom: DENOM.into(),
            min_gas_price_micros: 0,
            blocks_per_year: 17_280,
            generation,
            upgrades: Default::default(),
            registry: ChainConfig::executed(compiled, generation).expect("descriptors"),
        };
        let accounts = ACCOUNTS.map(|name| GenesisAccount {
            address: account(name),
            coins: vec![(OTHER_DENOM.into(), FUNDS), (DENOM.into(), FUNDS)],
            bonded: if staked.contains(&name) { 1_000_000 } else { 0 },
        });
        let genesis = GenesisState { accounts: accounts.into(), yield_pool, ..GenesisState::default() };
        let state = genesis.build_state(&chain)?;
        let names = BTreeMap::from([("gov".to_owned(), authority_address(&state, &chain))]);
        Ok(Self { chain, state, height: 0, block_seconds: 1_000_000, block_events: Vec::new(), saved_names: names })
    }

    /// Creates a ledger with the funded corporations `a`, `b` and `c`, whose operators alice, bob and carol may send all messages.
    pub fn new() -> Self {
        Self::of_generation(NodeGeneration::N0)
    }

    /// Creates the same ledger as a node of a generation has it.
    pub fn of_generation(generation: NodeGeneration) -> Self {
        let mut world = Self::begin(generation, 0, &["member"]).expect("a genesis");
        for name in ["a", "b", "c"] {
            world.create_corporation(name);
        }
        world
    }

    pub fn create_corporation(&mut self, name: &str) {
        let outcome = self.send_ok("member", "co.MsgCreateCorporation", corporation(&format!("did:web:{name}")));
        self.saved_names.insert(name.into(), attribute(&outcome, "create_corporation", "policy_address"));
        self.saved_names.insert(format!("{name}_id"), attribute(&outcome, "create_corporation", "corporation_id"));
        let funds = json!({"from_address": account("member"), "to_address": self.saved_names[name],
            "amount": [{"denom": OTHER_DENOM, "amount": "1000000000"}, coin(1_000_000_000)]});
        self.send_ok("member", "/cosmos.bank.v1beta1.MsgSend", funds);
        let types = self.chain.grantable_types();
        self.grant(name, operator(name), json!({"msg_types": types}));
    }

    /// Passes a group proposal with an operator authorization.
    pub fn grant(&mut self, name: &str, grantee: &str, terms: Value) {
        let policy = self.saved_names[name].clone();
        let base = json!({"corporation": policy, "operator": policy, "grantee": account(grantee)});
        self.pass_proposal(name, &[("de.MsgGrantOperatorAuthorization", merge_members(&base, &terms))]);
    }

    pub fn now(&self) -> Timestamp {
        Timestamp { seconds: self.block_seconds, nanos: 0 }
    }

    /// Returns the time `offset` seconds after the last block, in RFC 3339.
    pub fn time_at(&self, offset: i64) -> String {
        let time = Timestamp { seconds: self.block_seconds + offset, nanos: 0 };
        svc_wire::timestamp::rfc3339_nanos(&time)
    }

    /// Returns the same time in the format of events.
    pub fn go_text_at(&self, offset: i64) -> String {
        svc_wire::timestamp::go_time_text(&Timestamp { seconds: self.block_seconds + offset, nanos: 0 })
    }

    pub fn block(&self) -> BlockContext {
        BlockContext { height: self.height, time: self.now() }
    }

    pub fn url(&self, name: &str) -> String {
        match name.split_once('.') {
            Some((module, message)) if !name.starts_with('/') => format!("/svc.{module}.v1.{message}"),
            _ => name.to_owned(),
        }
    }

    pub fn pack(&self, name: &str, value: &Value) -> Any {
        let url = self.url(name);
        let bytes = self.chain.registry.encode(&url, value).unwrap_or_else(|error| panic!("{url}: {error}"));
        Any { type_url: url, value: bytes }
    }

    pub fn unsigned(&self, signer: &str, messages: Vec<Any>) -> UnsignedTx {
        let info = self.query("/cosmos.auth.v1beta1.Query/AccountInfo", json!({"address": account(signer)}));
        UnsignedTx {
            messages,
            sequence: info["info"]["sequence"].as_str().expect("a sequence").parse().expect("a number"),
            fee: vec![Coin { denom: DENOM.into(), amount: FEE.to_string() }],
            gas_limit: 5_000_000,
            fee_granter: None,
            timeout_height: 0,
        }
    }

    pub fn sign(&self, signer: &str, unsigned: &UnsignedTx) -> Vec<u8> {
        let info = self.query("/cosmos.auth.v1beta1.Query/AccountInfo", json!({"address": account(signer)}));
        let account_number = info["info"]["account_number"].as_str().expect("a number").parse().expect("a number");
        let context = SigningContext { chain_id: CHAIN_ID.into(), account_number };
        unsigned.sign(&key(signer), &context).expect("signs").bytes
    }

    /// Runs a block one second later with these transactions, and asserts the invariants.
    pub fn run_block(&mut self, txs: &[Vec<u8>]) -> Vec<TxOutcome> {
        self.height += 1;
        self.block_seconds += 1;
        let block = self.block();
        self.block_events = begin_block(&mut self.state, &self.chain, block);
        let outcomes = txs.iter().map(|bytes| deliver(&mut self.state, &self.chain, block, bytes)).collect();
        self.block_events.extend(end_block(&mut self.state, &self.chain, block));
        assert_eq!(broken_invariant(&self.state, &self.chain), None);
        outcomes
    }

    pub fn advance(&mut self, seconds: i64) {
        self.block_seconds += seconds - 1;
        self.run_block(&[]);
    }

    pub fn send_message(&mut self, signer: &str, name: &str, value: &Value) -> TxOutcome {
        let bytes = self.sign(signer, &self.unsigned(signer, vec![self.pack(name, value)]));
        self.run_block(&[bytes]).remove(0)
    }

    pub fn send_ok(&mut self, signer: &str, name: &str, value: Value) -> TxOutcome {
        let outcome = self.send_message(signer, name, &value);
        assert_eq!(outcome.code, 0, "{name} {value}: {}", outcome.log);
        outcome
    }

    /// Returns a message of a corporation, signed by its operator.
    pub fn operator_message(&self, corporation: &str, name: &str, value: &Value) -> Value {
        self.signer_message(corporation, operator(corporation), name, value)
    }

    /// Returns a message of a corporation, signed by an account. In digests the field of the corporation is `authority`.
    pub fn signer_message(&self, corporation: &str, signer: &str, name: &str, value: &Value) -> Value {
        let field = if name == "di.MsgStoreDigest" { "authority" } else { "corporation" };
        merge_members(&json!({field: self.saved_names[corporation], "operator": account(signer)}), value)
    }

    /// Sends a message as the operator and expects success.
    pub fn send_as_operator(&mut self, corporation: &str, name: &str, value: Value) -> TxOutcome {
        let message = self.operator_message(corporation, name, &value);
        self.send_ok(operator(corporation), name, message)
    }

    /// Sends a message and returns the id in its response.
    pub fn create_entity(&mut self, corporation: &str, name: &str, value: Value) -> u64 {
        let outcome = self.send_as_operator(corporation, name, value);
        let response = self.response(&outcome);
        ["id", "participant_id", "ecosystem_id", "corporation_id"]
            .iter()
            .find_map(|field| response[*field].as_str())
            .expect("an id")
            .parse()
            .expect("a number")
    }

    pub fn response(&self, outcome: &TxOutcome) -> Value {
        let packed = tx::decode_message_responses(&outcome.data).pop().expect("a response");
        self.chain.registry.decode(&packed.type_url, &packed.value).expect("decodes")
    }

    /// Asserts that each change of a valid message is refused with its code and text, without effect except the fee.
    pub fn assert_refusals(&self, corporation: &str, name: &str, good: &Value, cases: &[(Value, ExpectedRefusal)]) {
        self.assert_refusals_by(corporation, operator(corporation), name, good, cases);
    }

    pub fn assert_refusals_by(
        &self,
        corporation: &str,
        signer: &str,
        name: &str,
        good: &Value,
        cases: &[(Value, ExpectedRefusal)],
    ) {
        let good = self.signer_message(corporation, signer, name, good);
        for (changes, refusal) in cases {
            self.assert_refused(signer, name, &merge_members(&good, changes), *refusal);
        }
    }

    /// Asserts a refusal on a copy of this ledger.
    pub fn assert_refused(&self, signer: &str, name: &str, value: &Value, (codespace, code, text): ExpectedRefusal) {
        let mut world = self.clone();
        let outcome = world.send_message(signer, name, value);
        assert_eq!((outcome.codespace.as_str(), outcome.code), (codespace, code), "{value}: {}", outcome.log);
        assert!(outcome.log.contains(text), "{value}: {:?} is not in {:?}", text, outcome.log);
        assert!(outcome.data.is_empty(), "{value}");
        let of_messages =
            outcome.events.iter().filter(|event| event.attributes.iter().any(|(key, _)| key == "msg_index"));
        assert_eq!(of_messages.count(), 0, "{value}");
    }

    pub fn submit_proposal(&mut self, corporation: &str, messages: &[(&str, Value)]) -> TxOutcome {
        let packed: Vec<Value> =
            messages.iter().map(|(name, value)| merge_members(&json!({"@type": self.url(name)}), value)).collect();
        let proposal = json!({
            "group_policy_address": self.saved_names[corporation], "proposers": [account("member")], "exec": "EXEC_TRY",
            "title": "t", "summary": "s", "messages": packed,
        });
        self.send_ok("member", "/cosmos.group.v1.MsgSubmitProposal", proposal)
    }

    pub fn pass_proposal(&mut self, corporation: &str, messages: &[(&str, Value)]) -> TxOutcome {
        let outcome = self.submit_proposal(corporation, messages);
        let logs = attribute(&outcome, "cosmos.group.v1.EventExec", "logs");
        let result = attribute(&outcome, "cosmos.group.v1.EventExec", "result");
        assert_eq!(result, "\"PROPOSAL_EXECUTOR_RESULT_SUCCESS\"", "{logs}");
        outcome
    }

    /// Runs a governance proposal with a yes of the whole stake; returns (status, failed reason).
    pub fn run_gov_proposal(&mut self, messages: &[(&str, Value)]) -> (String, String) {
        let packed: Vec<Value> = messages
            .iter()
            .map(|(name, value)| {
                merge_members(&json!({"@type": self.url(name), "authority": self.saved_names["gov"]}), value)
            })
            .collect();
        let proposal = json!({
            "messages": packed, "initial_deposit": [coin(10_000_000)], "proposer": account("member"), "title": "t",
            "summary": "s",
        });
        let outcome = self.send_ok("member", "/cosmos.gov.v1.MsgSubmitProposal", proposal);
        let id = attribute(&outcome, "submit_proposal", "proposal_id");
        let vote = json!({"proposal_id": id, "voter": account("member"), "option": "VOTE_OPTION_YES"});
        self.send_ok("member", "/cosmos.gov.v1.MsgVote", vote);
        self.advance(31);
        let found = self.query("/cosmos.gov.v1.Query/Proposal", json!({"proposal_id": id}));
        let text = |name: &str| found["proposal"][name].as_str().expect("a text").to_owned();
        (text("status"), text("failed_reason"))
    }

    pub fn pass_gov_proposal(&mut self, messages: &[(&str, Value)]) {
        assert_eq!(self.run_gov_proposal(messages), ("PROPOSAL_STATUS_PASSED".to_owned(), String::new()));
    }

    /// Runs a query with request and reply as JSON; the error is (codespace, code, text).
    pub fn try_query(&self, path: &str, request: Value) -> Result<Value, (String, u32, String)> {
        let full = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/svc.{}", path.replacen('.', ".v1.Query/", 1))
        };
        let rpc = self.chain.registry.rpc_methods().find(|rpc| rpc.path == full).unwrap_or_else(|| panic!("{full}"));
        let bytes = self.chain.registry.encode(rpc.request.full_name(), &request).expect("a request");
        query(&self.state, &self.chain, self.block(), &full, &bytes)
            .map(|reply| self.chain.registry.decode(rpc.response.full_name(), &reply).expect("decodes"))
            .map_err(|error| (error.codespace.to_owned(), error.code, error.text))
    }

    pub fn query(&self, path: &str, request: Value) -> Value {
        self.try_query(path, request).unwrap_or_else(|error| panic!("{path}: {error:?}"))
    }

    pub fn balance(&self, address: &str, denom: &str) -> u128 {
        let request = json!({"address": address, "denom": denom});
        let reply = self.query("/cosmos.bank.v1beta1.Query/Balance", request);
        reply["balance"]["amount"].as_str().expect("an amount").parse().expect("a number")
    }

    /// Returns the balance of a corporation in the fee denom.
    pub fn corporation_balance(&self, corporation: &str) -> u128 {
        self.balance(&self.saved_names[corporation], DENOM)
    }

    pub fn module_balance(&self, name: &str) -> u128 {
        let address = svc_wire::address::Address::from_bytes("svc", &svc_wire::address::module_account_address(name));
        self.balance(address.expect("an address").as_str(), DENOM)
    }

    pub fn participant(&self, id: u64) -> Value {
        self.query("pp.GetParticipant", json!({"id": id}))["participant"].clone()
    }

    pub fn trust_deposit(&self, corporation: &str) -> Value {
        let request = json!({"corporation_id": self.saved_names[&format!("{corporation}_id")]});
        self.try_query("td.GetTrustDeposit", request).map_or(Value::Null, |reply| reply["trust_deposit"].clone())
    }
}

/// Returns the account name of the operator of a corporation.
pub fn operator(corporation: &str) -> &'static str {
    match corporation {
        "a" => "alice",
        "b" => "bob",
        "c" => "carol",
        other => panic!("{other} has no operator"),
    }
}

pub fn corporation(did: &str) -> Value {
    json!({
        "signer": account("member"),
        "members": [{"address": account("member"), "weight": "1"}],
        "decision_policy": {
            "@type": "/cosmos.group.v1.ThresholdDecisionPolicy", "threshold": "1",
            "windows": {"voting_period": "60s", "min_execution_period": "0s"},
        },
        "did": did, "language": "en", "doc_url": "https://a.example/1", "doc_digest_sri": DIGEST_SRI,
    })
}

pub fn ecosystem(did: &str) -> Value {
    json!({"did": did, "language": "en", "doc_url": "https://a.example/1", "doc_digest_sri": DIGEST_SRI})
}
