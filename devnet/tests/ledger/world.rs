//! A chain with corporations, driven block by block; messages are JSON, so that a case reads as what it changes.

use std::collections::BTreeMap;

use prost_types::{Any, Timestamp};
use serde_json::{Value, json};
use svc_devnet::ledger::{
    Block, Chain, Event, Genesis, GenesisAccount, State, TxOutcome, authority_address, begin_block, broken_invariant,
    deliver, end_block, query,
};
use svc_wire::{
    key::AccountKey,
    proto::cosmos::base::v1beta1::Coin,
    schema::{Namespace, Registry},
    syntax::{DELEGABLE, SESSION_MESSAGE},
    tx::{self, SignContext, Unsigned},
};

pub const DENOM: &str = "usvc";
pub const OTHER: &str = "uother";
pub const SRI: &str = "sha256-AAEC";
pub const CHAIN_ID: &str = "test-1";
/// Every account begins with as much of both denoms.
pub const FUNDS: u128 = 1_000_000_000_000;
/// What every transaction of these tests pays.
pub const FEE: u128 = 5_000;
const ACCOUNTS: [&str; 9] = ["member", "alice", "bob", "carol", "dave", "service", "service2", "oracle", "stranger"];

/// A refusal: codespace, code, and a part of the text.
pub type Refusal = (&'static str, u32, &'static str);

/// A plain error, which the chain does not register.
pub fn plain(text: &'static str) -> Refusal {
    ("undefined", 1, text)
}

#[derive(Clone)]
pub struct World {
    pub chain: Chain,
    pub state: State,
    pub height: u64,
    pub seconds: i64,
    /// Events of the last block's begin and end.
    pub block_events: Vec<Event>,
    /// Policy addresses and ids by name.
    pub names: BTreeMap<String, String>,
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

/// `base` with members replaced; null removes one.
pub fn with(base: &Value, changes: &Value) -> Value {
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

impl World {
    /// A chain with funded accounts and nothing else.
    pub fn empty() -> Self {
        Self::with_yield_pool(0)
    }

    pub fn with_yield_pool(yield_pool: u128) -> Self {
        let chain = Chain {
            chain_id: CHAIN_ID.into(),
            prefix: "svc".into(),
            denom: DENOM.into(),
            min_gas_price_micros: 0,
            blocks_per_year: 17_280,
            registry: Registry::compiled(&Namespace::compiled()).expect("loads"),
        };
        let accounts = ACCOUNTS.map(|name| GenesisAccount {
            address: account(name),
            coins: vec![(OTHER.into(), FUNDS), (DENOM.into(), FUNDS)],
            bonded: if name == "member" { 1_000_000 } else { 0 },
        });
        let genesis = Genesis { accounts: accounts.into(), yield_pool, ..Genesis::default() };
        let state = genesis.state(&chain);
        let names = BTreeMap::from([("gov".to_owned(), authority_address(&chain))]);
        Self { chain, state, height: 0, seconds: 1_000_000, block_events: Vec::new(), names }
    }

    /// Corporations `a`, `b`, `c`, funded, with operators alice, bob and carol that may do everything.
    pub fn new() -> Self {
        let mut world = Self::empty();
        for name in ["a", "b", "c"] {
            world.incorporate(name);
        }
        world
    }

    pub fn incorporate(&mut self, name: &str) {
        let outcome = self.ok("member", "co.MsgCreateCorporation", corporation(&format!("did:web:{name}")));
        self.names.insert(name.into(), attribute(&outcome, "create_corporation", "policy_address"));
        self.names.insert(format!("{name}_id"), attribute(&outcome, "create_corporation", "corporation_id"));
        let funds = json!({"from_address": account("member"), "to_address": self.names[name],
            "amount": [{"denom": OTHER, "amount": "1000000000"}, coin(1_000_000_000)]});
        self.ok("member", "/cosmos.bank.v1beta1.MsgSend", funds);
        let grantable = DELEGABLE.into_iter().filter(|split| *split != SESSION_MESSAGE);
        let types: Vec<String> = grantable.map(|(module, name)| format!("/svc.{module}.v1.{name}")).collect();
        self.grant(name, operator(name), json!({"msg_types": types}));
    }

    /// A grant by the corporation's group.
    pub fn grant(&mut self, name: &str, grantee: &str, terms: Value) {
        let policy = self.names[name].clone();
        let base = json!({"corporation": policy, "operator": policy, "grantee": account(grantee)});
        self.propose(name, &[("de.MsgGrantOperatorAuthorization", with(&base, &terms))]);
    }

    pub fn now(&self) -> Timestamp {
        Timestamp { seconds: self.seconds, nanos: 0 }
    }

    /// RFC 3339 time, seconds from the last block.
    pub fn at(&self, offset: i64) -> String {
        let time = Timestamp { seconds: self.seconds + offset, nanos: 0 };
        svc_wire::instant::rfc3339_nanos(&time)
    }

    /// Go's text of it, as events print it.
    pub fn text_at(&self, offset: i64) -> String {
        svc_wire::instant::go_text(&Timestamp { seconds: self.seconds + offset, nanos: 0 })
    }

    pub fn block(&self) -> Block {
        Block { height: self.height, time: self.now() }
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

    pub fn unsigned(&self, signer: &str, messages: Vec<Any>) -> Unsigned {
        let info = self.ask("/cosmos.auth.v1beta1.Query/AccountInfo", json!({"address": account(signer)}));
        Unsigned {
            messages,
            sequence: info["info"]["sequence"].as_str().expect("a sequence").parse().expect("a number"),
            fee: vec![Coin { denom: DENOM.into(), amount: FEE.to_string() }],
            gas_limit: 5_000_000,
            granter: None,
            timeout_height: 0,
        }
    }

    pub fn sign(&self, signer: &str, unsigned: &Unsigned) -> Vec<u8> {
        let info = self.ask("/cosmos.auth.v1beta1.Query/AccountInfo", json!({"address": account(signer)}));
        let account_number = info["info"]["account_number"].as_str().expect("a number").parse().expect("a number");
        let context = SignContext { chain_id: CHAIN_ID.into(), account_number };
        unsigned.sign(&key(signer), &context).expect("signs").bytes
    }

    /// One block, a second later, with these transactions. Invariants hold after every one.
    pub fn run(&mut self, txs: &[Vec<u8>]) -> Vec<TxOutcome> {
        self.height += 1;
        self.seconds += 1;
        let block = self.block();
        self.block_events = begin_block(&mut self.state, &self.chain, block);
        let outcomes = txs.iter().map(|bytes| deliver(&mut self.state, &self.chain, block, bytes)).collect();
        self.block_events.extend(end_block(&mut self.state, &self.chain, block));
        assert_eq!(broken_invariant(&self.state, &self.chain), None);
        outcomes
    }

    pub fn advance(&mut self, seconds: i64) {
        self.seconds += seconds - 1;
        self.run(&[]);
    }

    pub fn send(&mut self, signer: &str, name: &str, value: &Value) -> TxOutcome {
        let bytes = self.sign(signer, &self.unsigned(signer, vec![self.pack(name, value)]));
        self.run(&[bytes]).remove(0)
    }

    pub fn ok(&mut self, signer: &str, name: &str, value: Value) -> TxOutcome {
        let outcome = self.send(signer, name, &value);
        assert_eq!(outcome.code, 0, "{name} {value}: {}", outcome.log);
        outcome
    }

    /// A message of a corporation, by its operator.
    pub fn of(&self, corporation: &str, name: &str, value: &Value) -> Value {
        self.by(corporation, operator(corporation), name, value)
    }

    /// A message of a corporation, by a certain account. Digests call the corporation their authority.
    pub fn by(&self, corporation: &str, signer: &str, name: &str, value: &Value) -> Value {
        let field = if name == "di.MsgStoreDigest" { "authority" } else { "corporation" };
        with(&json!({field: self.names[corporation], "operator": account(signer)}), value)
    }

    /// Sends one, and expects success.
    pub fn act(&mut self, corporation: &str, name: &str, value: Value) -> TxOutcome {
        let message = self.of(corporation, name, &value);
        self.ok(operator(corporation), name, message)
    }

    /// Id that a successful message answers.
    pub fn create(&mut self, corporation: &str, name: &str, value: Value) -> u64 {
        let outcome = self.act(corporation, name, value);
        let response = self.response(&outcome);
        ["id", "participant_id", "ecosystem_id", "corporation_id"]
            .iter()
            .find_map(|field| response[*field].as_str())
            .expect("an id")
            .parse()
            .expect("a number")
    }

    pub fn response(&self, outcome: &TxOutcome) -> Value {
        let packed = tx::message_responses(&outcome.data).pop().expect("a response");
        self.chain.registry.decode(&packed.type_url, &packed.value).expect("decodes")
    }

    /// Each change of a good message is refused as stated, with text, and leaves nothing behind but its fee.
    pub fn refuses(&self, corporation: &str, name: &str, good: &Value, cases: &[(Value, Refusal)]) {
        self.refuses_by(corporation, operator(corporation), name, good, cases);
    }

    pub fn refuses_by(&self, corporation: &str, signer: &str, name: &str, good: &Value, cases: &[(Value, Refusal)]) {
        let good = self.by(corporation, signer, name, good);
        for (changes, refusal) in cases {
            self.refused(signer, name, &with(&good, changes), *refusal);
        }
    }

    /// A message is refused in a copy of this world.
    pub fn refused(&self, signer: &str, name: &str, value: &Value, (codespace, code, text): Refusal) {
        let mut world = self.clone();
        let outcome = world.send(signer, name, value);
        assert_eq!((outcome.codespace.as_str(), outcome.code), (codespace, code), "{value}: {}", outcome.log);
        assert!(outcome.log.contains(text), "{value}: {:?} is not in {:?}", text, outcome.log);
        assert!(outcome.data.is_empty(), "{value}");
        let of_messages =
            outcome.events.iter().filter(|event| event.attributes.iter().any(|(key, _)| key == "msg_index"));
        assert_eq!(of_messages.count(), 0, "{value}");
    }

    pub fn propose_raw(&mut self, corporation: &str, messages: &[(&str, Value)]) -> TxOutcome {
        let packed: Vec<Value> =
            messages.iter().map(|(name, value)| with(&json!({"@type": self.url(name)}), value)).collect();
        let proposal = json!({
            "group_policy_address": self.names[corporation], "proposers": [account("member")], "exec": "EXEC_TRY",
            "title": "t", "summary": "s", "messages": packed,
        });
        self.ok("member", "/cosmos.group.v1.MsgSubmitProposal", proposal)
    }

    pub fn propose(&mut self, corporation: &str, messages: &[(&str, Value)]) -> TxOutcome {
        let outcome = self.propose_raw(corporation, messages);
        let logs = attribute(&outcome, "cosmos.group.v1.EventExec", "logs");
        let result = attribute(&outcome, "cosmos.group.v1.EventExec", "result");
        assert_eq!(result, "\"PROPOSAL_EXECUTOR_RESULT_SUCCESS\"", "{logs}");
        outcome
    }

    /// A governance proposal that the whole stake accepts; the status it ends in.
    pub fn govern(&mut self, messages: &[(&str, Value)]) -> (String, String) {
        let packed: Vec<Value> = messages
            .iter()
            .map(|(name, value)| with(&json!({"@type": self.url(name), "authority": self.names["gov"]}), value))
            .collect();
        let proposal = json!({
            "messages": packed, "initial_deposit": [coin(10_000_000)], "proposer": account("member"), "title": "t",
            "summary": "s",
        });
        let outcome = self.ok("member", "/cosmos.gov.v1.MsgSubmitProposal", proposal);
        let id = attribute(&outcome, "submit_proposal", "proposal_id");
        let vote = json!({"proposal_id": id, "voter": account("member"), "option": "VOTE_OPTION_YES"});
        self.ok("member", "/cosmos.gov.v1.MsgVote", vote);
        self.advance(31);
        let found = self.ask("/cosmos.gov.v1.Query/Proposal", json!({"proposal_id": id}));
        let text = |name: &str| found["proposal"][name].as_str().expect("a text").to_owned();
        (text("status"), text("failed_reason"))
    }

    pub fn governed(&mut self, messages: &[(&str, Value)]) {
        assert_eq!(self.govern(messages), ("PROPOSAL_STATUS_PASSED".to_owned(), String::new()));
    }

    /// A query, request and reply as JSON.
    pub fn try_ask(&self, path: &str, request: Value) -> Result<Value, (String, u32, String)> {
        let full = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/svc.{}", path.replacen('.', ".v1.Query/", 1))
        };
        let (_, input, output) =
            self.chain.registry.rpcs().find(|(name, _, _)| *name == full).unwrap_or_else(|| panic!("{full}"));
        let bytes = self.chain.registry.encode(input.full_name(), &request).expect("a request");
        query(&self.state, &self.chain, self.block(), &full, &bytes)
            .map(|reply| self.chain.registry.decode(output.full_name(), &reply).expect("decodes"))
            .map_err(|error| (error.codespace.to_owned(), error.code, error.text))
    }

    pub fn ask(&self, path: &str, request: Value) -> Value {
        self.try_ask(path, request).unwrap_or_else(|error| panic!("{path}: {error:?}"))
    }

    pub fn balance(&self, address: &str, denom: &str) -> u128 {
        let request = json!({"address": address, "denom": denom});
        let reply = self.ask("/cosmos.bank.v1beta1.Query/Balance", request);
        reply["balance"]["amount"].as_str().expect("an amount").parse().expect("a number")
    }

    /// What a corporation has of the fee denom.
    pub fn money(&self, corporation: &str) -> u128 {
        self.balance(&self.names[corporation], DENOM)
    }

    pub fn module(&self, name: &str) -> u128 {
        let address = svc_wire::account::Address::from_bytes("svc", &svc_wire::account::module_account(name));
        self.balance(address.expect("an address").as_str(), DENOM)
    }

    pub fn participant(&self, id: u64) -> Value {
        self.ask("pp.GetParticipant", json!({"id": id}))["participant"].clone()
    }

    pub fn trust_deposit(&self, corporation: &str) -> Value {
        let request = json!({"corporation_id": self.names[&format!("{corporation}_id")]});
        self.try_ask("td.GetTrustDeposit", request).map_or(Value::Null, |reply| reply["trust_deposit"].clone())
    }
}

/// Operator of each corporation.
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
        "did": did, "language": "en", "doc_url": "https://a.example/1", "doc_digest_sri": SRI,
    })
}

pub fn ecosystem(did: &str) -> Value {
    json!({"did": did, "language": "en", "doc_url": "https://a.example/1", "doc_digest_sri": SRI})
}

/// An event of a transaction by its type, as JSON, without the index of its message.
pub fn event(outcome: &TxOutcome, kind: &str) -> Vec<(String, String)> {
    let found = outcome.events.iter().find(|event| event.kind == kind);
    let found = found.unwrap_or_else(|| panic!("{kind} is not in {:?}", outcome.events));
    found.attributes.iter().filter(|(key, _)| key != "msg_index").cloned().collect()
}

pub fn has_event(outcome: &TxOutcome, kind: &str) -> bool {
    outcome.events.iter().any(|event| event.kind == kind)
}

/// Attributes of an event are exactly these, in this order.
pub fn assert_event(outcome: &TxOutcome, kind: &str, expected: &[(&str, &str)]) {
    let expected: Vec<_> = expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    assert_eq!(event(outcome, kind), expected, "{kind}");
}

/// Types of the events that come from messages, in order.
pub fn kinds(outcome: &TxOutcome) -> Vec<&str> {
    let of_messages = outcome.events.iter().filter(|event| event.attributes.iter().any(|(key, _)| key == "msg_index"));
    of_messages.map(|event| event.kind.as_str()).collect()
}

pub fn attribute(outcome: &TxOutcome, kind: &str, key: &str) -> String {
    let found = event(outcome, kind);
    found.into_iter().find(|(name, _)| name == key).map(|(_, value)| value).expect("the attribute")
}

/// Every member of `expected` is in `found`.
pub fn assert_has(found: &Value, expected: &Value) {
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(&found[name], value, "{name} of {found}");
    }
}
