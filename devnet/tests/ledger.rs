//! The ledger's checks, codes and effects, through signed transactions in blocks, as the chain states them.
#![allow(missing_docs, clippy::expect_used)]

use prost::Message;
use prost_types::{Any, Duration as Span, Timestamp};
use svc_devnet::ledger::{Block, Chain, State, TxOutcome, deliver, end_block, genesis_account, query, simulate};
use svc_wire::{
    key::AccountKey,
    proto::{
        cosmos::{
            bank::v1beta1::{MsgSend, QueryBalanceRequest, QueryBalanceResponse},
            base::v1beta1::Coin,
            group::v1::{DecisionPolicyWindows, Exec, MsgSubmitProposal, MsgVote, ThresholdDecisionPolicy, VoteOption},
        },
        svc::{
            co::v1::{Member, MsgCreateCorporation, MsgUpdateCorporation},
            de::v1::{MsgGrantOperatorAuthorization, MsgRevokeOperatorAuthorization},
            ec::v1::{
                MsgArchiveEcosystem, MsgCreateEcosystem, MsgUpdateEcosystem, QueryGetEcosystemRequest,
                QueryGetEcosystemResponse,
            },
            gf::v1::{MsgAddGovernanceFrameworkDocument, MsgIncreaseActiveGovernanceFrameworkVersion},
        },
    },
    schema::{Namespace, Registry},
    tx::{SignContext, Unsigned},
};

const DENOM: &str = "usvc";
const SRI: &str = "sha256-AAEC";

/// A chain with two funded members, driven block by block.
struct World {
    chain: Chain,
    state: State,
    height: u64,
    keys: Vec<AccountKey>,
    sequences: Vec<u64>,
    policy: String,
}

fn coin(amount: u128) -> Coin {
    Coin { denom: DENOM.into(), amount: amount.to_string() }
}

fn any(url: &str, message: &impl Message) -> Any {
    Any { type_url: url.into(), value: message.encode_to_vec() }
}

impl World {
    /// Member 0 and operator 1; corporation 1 grants the operator everything listed.
    fn new(granted: &[&str]) -> Self {
        let keys: Vec<_> =
            [[1; 32], [2; 32], [3; 32]].iter().map(|bytes| AccountKey::from_bytes(bytes).expect("a key")).collect();
        let registry = Registry::compiled(&Namespace::compiled()).expect("loads");
        let chain = Chain {
            chain_id: "test-1".into(),
            prefix: "svc".into(),
            denom: DENOM.into(),
            min_gas_price_micros: 0,
            registry,
        };
        let mut state = State::default();
        for key in &keys {
            genesis_account(&mut state, address(key).as_str(), DENOM, 1_000_000_000);
        }
        let sequences = vec![0; keys.len()];
        let mut world = Self { chain, state, height: 0, keys, sequences, policy: String::new() };
        let created = world.send(0, vec![any("/svc.co.v1.MsgCreateCorporation", &world.corporation("did:web:a"))]);
        assert_eq!(created.code, 0, "{}", created.log);
        world.policy = attribute(&created, "create_corporation", "policy_address");
        let grant = MsgGrantOperatorAuthorization {
            corporation: world.policy.clone(),
            operator: world.policy.clone(),
            grantee: world.account(1),
            msg_types: granted.iter().map(|url| (*url).to_owned()).collect(),
            ..Default::default()
        };
        let outcome = world.propose(vec![any("/svc.de.v1.MsgGrantOperatorAuthorization", &grant)]);
        assert_eq!(attribute(&outcome, "cosmos.group.v1.EventExec", "result"), "\"PROPOSAL_EXECUTOR_RESULT_SUCCESS\"");
        world
    }

    fn account(&self, index: usize) -> String {
        address(&self.keys[index])
    }

    fn corporation(&self, did: &str) -> MsgCreateCorporation {
        let span = |seconds| Some(Span { seconds, nanos: 0 });
        let windows = Some(DecisionPolicyWindows { voting_period: span(60), min_execution_period: span(0) });
        MsgCreateCorporation {
            signer: self.account(0),
            members: vec![Member { address: self.account(0), weight: "1".into(), metadata: String::new() }],
            decision_policy: Some(any(
                "/cosmos.group.v1.ThresholdDecisionPolicy",
                &ThresholdDecisionPolicy { threshold: "1".into(), windows },
            )),
            did: did.into(),
            language: "en".into(),
            doc_url: "https://a.example/1".into(),
            doc_digest_sri: SRI.into(),
            ..Default::default()
        }
    }

    fn propose(&mut self, messages: Vec<Any>) -> TxOutcome {
        let proposal = MsgSubmitProposal {
            group_policy_address: self.policy.clone(),
            proposers: vec![self.account(0)],
            messages,
            exec: Exec::Try.into(),
            ..Default::default()
        };
        self.send(0, vec![any("/cosmos.group.v1.MsgSubmitProposal", &proposal)])
    }

    fn block(&self) -> Block {
        Block {
            height: self.height,
            time: Timestamp { seconds: 1_000 + i64::try_from(self.height).expect("small"), nanos: 0 },
        }
    }

    fn unsigned(&self, signer: usize, messages: Vec<Any>) -> Unsigned {
        Unsigned {
            messages,
            sequence: self.sequences[signer],
            fee: vec![coin(5_000)],
            gas_limit: 2_000_000,
            granter: None,
            timeout_height: 0,
        }
    }

    fn deliver(&mut self, bytes: &[u8]) -> TxOutcome {
        self.height += 1;
        let block = self.block();
        let outcome = deliver(&mut self.state, &self.chain, block, bytes);
        end_block(&mut self.state, &self.chain, block);
        outcome
    }

    fn sign(&self, signer: usize, unsigned: &Unsigned) -> Vec<u8> {
        let context = SignContext { chain_id: "test-1".into(), account_number: signer as u64 };
        unsigned.sign(&self.keys[signer], &context).expect("signs").bytes
    }

    fn send(&mut self, signer: usize, messages: Vec<Any>) -> TxOutcome {
        let bytes = self.sign(signer, &self.unsigned(signer, messages));
        let outcome = self.deliver(&bytes);
        // Stateless failures come before the ante handler and spend nothing.
        if outcome.code == 0 || outcome.log.starts_with("failed to execute message") {
            self.sequences[signer] += 1;
        }
        outcome
    }

    fn one(&mut self, url: &str, message: &impl Message) -> (String, u32) {
        let outcome = self.send(1, vec![any(url, message)]);
        (outcome.codespace, outcome.code)
    }

    fn balance(&self, account: &str) -> u128 {
        let request = QueryBalanceRequest { address: account.into(), denom: DENOM.into() };
        let bytes = query(&self.state, &self.chain, "/cosmos.bank.v1beta1.Query/Balance", &request.encode_to_vec())
            .expect("queried");
        let reply = QueryBalanceResponse::decode(bytes.as_slice()).expect("decodes");
        reply.balance.expect("a coin").amount.parse().expect("a number")
    }
}

fn address(key: &AccountKey) -> String {
    key.public_key().address("svc").expect("an address").to_string()
}

fn attribute(outcome: &TxOutcome, kind: &str, key: &str) -> String {
    let event = outcome
        .events
        .iter()
        .find(|event| event.kind == kind)
        .unwrap_or_else(|| panic!("{kind} in {:?}", outcome.events));
    event.attributes.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone()).expect("the attribute")
}

fn code(codespace: &str, code: u32) -> (String, u32) {
    (codespace.into(), code)
}

const CREATE: &str = "/svc.ec.v1.MsgCreateEcosystem";
const ARCHIVE: &str = "/svc.ec.v1.MsgArchiveEcosystem";
const UPDATE: &str = "/svc.ec.v1.MsgUpdateEcosystem";
const ADD: &str = "/svc.gf.v1.MsgAddGovernanceFrameworkDocument";
const INCREASE: &str = "/svc.gf.v1.MsgIncreaseActiveGovernanceFrameworkVersion";
const UPDATE_CO: &str = "/svc.co.v1.MsgUpdateCorporation";
const GRANT: &str = "/svc.de.v1.MsgGrantOperatorAuthorization";
const REVOKE: &str = "/svc.de.v1.MsgRevokeOperatorAuthorization";
const ALL: [&str; 8] = [CREATE, ARCHIVE, UPDATE, ADD, INCREASE, UPDATE_CO, GRANT, REVOKE];

fn ecosystem(world: &World) -> MsgCreateEcosystem {
    MsgCreateEcosystem {
        corporation: world.policy.clone(),
        operator: world.account(1),
        did: "did:web:eco".into(),
        language: "en".into(),
        doc_url: "https://a.example/1".into(),
        doc_digest_sri: SRI.into(),
    }
}

#[test]
fn corporations_are_checked_in_the_stated_order() {
    let mut world = World::new(&ALL);
    let good = world.corporation("did:web:b");
    let url = "/svc.co.v1.MsgCreateCorporation";
    for (expected, change) in [
        (
            code("co", 1108),
            Box::new(|m: &mut MsgCreateCorporation| m.members.clear()) as Box<dyn Fn(&mut MsgCreateCorporation)>,
        ),
        (code("co", 1108), Box::new(|m| m.members[0].weight = "0".into())),
        (code("sdk", 7), Box::new(|m| m.members[0].address = "svc1x".into())),
        (code("co", 1107), Box::new(|m| m.decision_policy = None)),
        (code("co", 1109), Box::new(|m| m.did = "web:b".into())),
        (code("co", 1104), Box::new(|m| m.language = "e n".into())),
        (code("co", 1105), Box::new(|m| m.doc_url = "ftp://x".into())),
        (code("co", 1106), Box::new(|m| m.doc_digest_sri = "md5-x".into())),
        (code("co", 1102), Box::new(|m| m.did = "did:web:a".into())),
        (code("", 0), Box::new(|_| {})),
    ] {
        let mut message = good.clone();
        change(&mut message);
        let outcome = world.send(0, vec![any(url, &message)]);
        assert_eq!((outcome.codespace.clone(), outcome.code), expected, "{}", outcome.log);
    }
    let update = |did: &str, world: &World| MsgUpdateCorporation {
        corporation: world.policy.clone(),
        operator: world.account(1),
        did: did.into(),
    };
    let same = update("did:web:a", &world);
    let outcome = world.send(1, vec![any(UPDATE_CO, &same)]);
    assert!(
        outcome.code == 0 && !outcome.events.iter().any(|event| event.kind == "update_corporation"),
        "a silent success"
    );
    let taken = update("did:web:b", &world);
    assert_eq!(world.one(UPDATE_CO, &taken), code("co", 1102));
    let fresh = update("did:web:c", &world);
    assert_eq!(world.one(UPDATE_CO, &fresh), code("", 0));
}

#[test]
fn ecosystems_are_created_changed_archived_and_guarded() {
    let mut world = World::new(&ALL);
    let good = ecosystem(&world);
    for (expected, change) in [
        (
            code("ec", 1106),
            Box::new(|m: &mut MsgCreateEcosystem| m.did = "x".into()) as Box<dyn Fn(&mut MsgCreateEcosystem)>,
        ),
        (code("ec", 1107), Box::new(|m| m.language = "a-language-tag-too-long".into())),
        (code("ec", 1108), Box::new(|m| m.doc_url = "x".into())),
        (code("ec", 1109), Box::new(|m| m.doc_digest_sri = String::new())),
        (code("sdk", 7), Box::new(|m| m.corporation = "cosmos1x".into())),
    ] {
        let mut message = good.clone();
        change(&mut message);
        assert_eq!(world.one(CREATE, &message), expected);
    }
    let stranger = MsgCreateEcosystem { corporation: world.account(2), ..good.clone() };
    assert_eq!(world.one(CREATE, &stranger), code("ec", 1102), "check 5 comes first in this module");
    let outcome = world.send(1, vec![any(CREATE, &good)]);
    assert_eq!(outcome.code, 0, "{}", outcome.log);
    assert_eq!(attribute(&outcome, "create_ecosystem", "ecosystem_id"), "1");
    let names: Vec<_> = outcome
        .events
        .iter()
        .filter(|event| event.attributes.iter().any(|(key, _)| key == "msg_index"))
        .map(|event| event.kind.as_str())
        .collect();
    assert_eq!(names, ["message", "add_gf_document", "create_ecosystem"]);

    let archive = |id, archive, world: &World| MsgArchiveEcosystem {
        corporation: world.policy.clone(),
        operator: world.account(1),
        id,
        archive,
    };
    for (id, flag, expected) in [
        (0, true, code("ec", 1110)),
        (9, true, code("ec", 1101)),
        (1, false, code("ec", 1105)),
        (1, true, code("", 0)),
        (1, true, code("ec", 1105)),
    ] {
        let message = archive(id, flag, &world);
        assert_eq!(world.one(ARCHIVE, &message), expected, "{id} {flag}");
    }
    let update = MsgUpdateEcosystem {
        corporation: world.policy.clone(),
        operator: world.account(1),
        id: 1,
        did: "did:web:new".into(),
    };
    assert_eq!(world.one(UPDATE, &update), code("", 0), "archiving blocks nothing");
    let request = QueryGetEcosystemRequest { id: 1, ..Default::default() };
    let bytes =
        query(&world.state, &world.chain, "/svc.ec.v1.Query/GetEcosystem", &request.encode_to_vec()).expect("queried");
    let found = QueryGetEcosystemResponse::decode(bytes.as_slice()).expect("decodes").ecosystem.expect("there");
    assert_eq!((found.did.as_str(), found.archived, found.versions.len()), ("did:web:new", true, 1));
    let missing = QueryGetEcosystemRequest { id: 9, ..Default::default() };
    let error = query(&world.state, &world.chain, "/svc.ec.v1.Query/GetEcosystem", &missing.encode_to_vec())
        .expect_err("missing");
    assert_eq!((error.codespace, error.code), ("sdk", 22));
}

#[test]
fn frameworks_grow_version_by_version() {
    let mut world = World::new(&ALL);
    let add = |version, language: &str, world: &World| MsgAddGovernanceFrameworkDocument {
        corporation: world.policy.clone(),
        operator: world.account(1),
        ecosystem_id: 0,
        doc_language: language.into(),
        doc_url: "https://a.example/2".into(),
        doc_digest_sri: SRI.into(),
        version,
    };
    let increase = MsgIncreaseActiveGovernanceFrameworkVersion {
        corporation: world.policy.clone(),
        operator: world.account(1),
        ecosystem_id: 0,
    };
    assert_eq!(world.one(INCREASE, &increase), code("gf", 1108));
    for (version, language, expected) in [
        (0, "en", code("gf", 1104)),
        (1, "en", code("gf", 1104)),
        (3, "en", code("gf", 1104)),
        (2, "!", code("gf", 1105)),
        (2, "fr", code("", 0)),
    ] {
        let message = add(version, language, &world);
        assert_eq!(world.one(ADD, &message), expected, "{version} {language}");
    }
    assert_eq!(world.one(INCREASE, &increase), code("gf", 1109), "no document in the owner's language");
    let message = add(2, "en", &world);
    assert_eq!(world.one(ADD, &message), code("", 0));
    assert_eq!(world.one(INCREASE, &increase), code("", 0));
    let foreign = MsgAddGovernanceFrameworkDocument { ecosystem_id: 7, ..add(3, "en", &world) };
    assert_eq!(world.one(ADD, &foreign), code("gf", 1102));
    let stranger = MsgAddGovernanceFrameworkDocument { corporation: world.account(2), ..add(3, "en", &world) };
    assert_eq!(world.one(ADD, &stranger), code("de", 1105), "check 1 comes first in this module");
}

#[test]
fn authorizations_are_granted_expire_renew_and_end() {
    let mut world = World::new(&[CREATE, GRANT, REVOKE]);
    let archive =
        MsgArchiveEcosystem { corporation: world.policy.clone(), operator: world.account(1), id: 1, archive: true };
    assert_eq!(world.one(ARCHIVE, &archive), code("de", 1107));
    let grant = MsgGrantOperatorAuthorization {
        corporation: world.policy.clone(),
        operator: world.account(1),
        grantee: world.account(2),
        msg_types: vec![CREATE.into()],
        ..Default::default()
    };
    for (expected, change) in [
        (
            code("undefined", 1),
            Box::new(|m: &mut MsgGrantOperatorAuthorization| m.msg_types.clear())
                as Box<dyn Fn(&mut MsgGrantOperatorAuthorization)>,
        ),
        (
            code("undefined", 1),
            Box::new(|m| m.msg_types = vec!["/svc.pp.v1.MsgCreateOrUpdateParticipantSession".into()]),
        ),
        (code("undefined", 1), Box::new(|m| m.grantee = m.operator.clone())),
        (code("de", 1102), Box::new(|m| m.expiration = Some(Timestamp { seconds: 1, nanos: 0 }))),
        (code("sdk", 18), Box::new(|m| m.feegrant_spend_limit = vec![coin(0)])),
        (code("undefined", 1), Box::new(|m| m.grantee = "x".into())),
        (code("", 0), Box::new(|_| {})),
    ] {
        let mut message = grant.clone();
        change(&mut message);
        let outcome = world.send(1, vec![any(GRANT, &message)]);
        assert_eq!((outcome.codespace.clone(), outcome.code), expected, "{}", outcome.log);
    }
    let by_other = MsgCreateEcosystem { operator: world.account(2), ..ecosystem(&world) };
    assert_eq!(world.send(2, vec![any(CREATE, &by_other)]).code, 0);
    // Expired: without a period for good, with one renewed by use.
    let until = Some(Timestamp { seconds: world.block().time.seconds + 3, nanos: 0 });
    let expiring = MsgGrantOperatorAuthorization { expiration: until, ..grant.clone() };
    assert_eq!(world.one(GRANT, &expiring), code("", 0));
    world.height += 10;
    let outcome = world.send(2, vec![any(CREATE, &by_other)]);
    assert_eq!((outcome.codespace.as_str(), outcome.code), ("de", 1106), "{}", outcome.log);
    let until = Some(Timestamp { seconds: world.block().time.seconds + 3, nanos: 0 });
    let renewing = MsgGrantOperatorAuthorization {
        expiration: until,
        authz_spend_limit: vec![coin(5)],
        authz_spend_limit_period: Some(Span { seconds: 60, nanos: 0 }),
        ..grant
    };
    assert_eq!(world.one(GRANT, &renewing), code("", 0));
    world.height += 10;
    let outcome = world.send(2, vec![any(CREATE, &by_other)]);
    assert_eq!(attribute(&outcome, "operator_authorization_updated", "authz_id"), "2");

    let revoke = MsgRevokeOperatorAuthorization {
        corporation: world.policy.clone(),
        operator: world.account(1),
        grantee: world.account(2),
    };
    assert_eq!(world.one(REVOKE, &revoke), code("", 0));
    assert_eq!(world.one(REVOKE, &revoke), code("de", 1109));
    let outcome = world.send(2, vec![any(CREATE, &by_other)]);
    assert_eq!((outcome.codespace.as_str(), outcome.code), ("de", 1105));
}

#[test]
fn the_fee_allowance_pays_and_its_refusals_have_their_codes() {
    let mut world = World::new(&ALL);
    let (policy, operator) = (world.policy.clone(), world.account(1));
    let funding = MsgSend { from_address: world.account(0), to_address: policy.clone(), amount: vec![coin(100_000)] };
    assert_eq!(world.send(0, vec![any("/cosmos.bank.v1beta1.MsgSend", &funding)]).code, 0);
    let granted = |world: &mut World, msg_type: &str, limit: Option<u128>| {
        let grant = MsgGrantOperatorAuthorization {
            corporation: world.policy.clone(),
            operator: world.policy.clone(),
            grantee: world.account(1),
            msg_types: vec![msg_type.to_owned()],
            with_feegrant: true,
            feegrant_spend_limit: limit.map(coin).into_iter().collect(),
            ..Default::default()
        };
        world.propose(vec![any(GRANT, &grant)]);
    };
    let paid = |world: &mut World| {
        let message = any(CREATE, &ecosystem(world));
        let unsigned = Unsigned { granter: Some(world.policy.clone()), ..world.unsigned(1, vec![message]) };
        let bytes = world.sign(1, &unsigned);
        let outcome = world.deliver(&bytes);
        if outcome.code == 0 {
            world.sequences[1] += 1;
        }
        (outcome.codespace, outcome.code)
    };
    assert_eq!(paid(&mut world), code("sdk", 38));
    granted(&mut world, ARCHIVE, None);
    assert_eq!(paid(&mut world), code("feegrant", 7));
    granted(&mut world, CREATE, Some(4_999));
    assert_eq!(paid(&mut world), code("feegrant", 2));
    granted(&mut world, CREATE, Some(5_000));
    let before = (world.balance(&policy), world.balance(&operator));
    assert_eq!(paid(&mut world), code("", 0));
    assert_eq!((world.balance(&policy), world.balance(&operator)), (before.0 - 5_000, before.1));
    assert_eq!(paid(&mut world), code("sdk", 38), "used up, and removed");
}

#[test]
fn the_ante_chain_refuses_with_its_codes_and_spends_nothing() {
    let mut world = World::new(&ALL);
    let message = || any(CREATE, &ecosystem(&World::new(&ALL)));
    let before = world.balance(&world.account(1));
    let good = world.unsigned(1, vec![message()]);
    let wrong_chain = SignContext { chain_id: "other".into(), account_number: 1 };
    let mut cases: Vec<(&str, Vec<u8>, u32)> = vec![
        ("no transaction", vec![1, 2, 3], 2),
        ("wrong sequence", world.sign(1, &Unsigned { sequence: 7, ..good.clone() }), 32),
        ("wrong chain", good.sign(&world.keys[1], &wrong_chain).expect("signs").bytes, 4),
        ("foreign signature", world.sign(2, &Unsigned { sequence: 0, ..good.clone() }), 8),
        ("no message", world.sign(1, &Unsigned { messages: vec![], ..good.clone() }), 18),
        ("no gas", world.sign(1, &Unsigned { gas_limit: 0, ..good.clone() }), 41),
        ("too little gas", world.sign(1, &Unsigned { gas_limit: 2_000, ..good.clone() }), 11),
        ("too high a fee", world.sign(1, &Unsigned { fee: vec![coin(u128::from(u64::MAX))], ..good.clone() }), 5),
        ("passed timeout", world.sign(1, &Unsigned { timeout_height: 1, ..good.clone() }), 30),
    ];
    cases.push(("unsigned", good.for_simulation(&world.keys[1].public_key()), 4));
    for (what, bytes, expected) in cases {
        let outcome = world.deliver(&bytes);
        assert_eq!((outcome.codespace.as_str(), outcome.code), ("sdk", expected), "{what}: {}", outcome.log);
        assert!(outcome.events.is_empty(), "{what}");
    }
    assert_eq!(world.balance(&world.account(1)), before);
    // A failing message keeps fee and sequence spent.
    let failing =
        MsgArchiveEcosystem { corporation: world.policy.clone(), operator: world.account(1), id: 9, archive: true };
    assert_eq!(world.one(ARCHIVE, &failing), code("ec", 1101));
    assert_eq!(world.balance(&world.account(1)), before - 5_000);
    // Simulation needs no signature and changes nothing.
    let bytes = world.unsigned(1, vec![any(CREATE, &ecosystem(&world))]).for_simulation(&world.keys[1].public_key());
    let outcome = simulate(&world.state, &world.chain, world.block(), &bytes);
    assert!(outcome.code == 0 && outcome.gas_used > 10_000, "{}", outcome.log);
    assert_eq!(world.one(CREATE, &ecosystem(&world)), code("", 0));
}

#[test]
fn proposals_that_fail_inside_leave_the_outer_transaction_fine() {
    let mut world = World::new(&ALL);
    let revoke = MsgRevokeOperatorAuthorization {
        corporation: world.policy.clone(),
        operator: world.policy.clone(),
        grantee: world.account(2),
    };
    let outcome = world.propose(vec![any(REVOKE, &revoke)]);
    assert_eq!(outcome.code, 0);
    assert_eq!(attribute(&outcome, "cosmos.group.v1.EventExec", "result"), "\"PROPOSAL_EXECUTOR_RESULT_FAILURE\"");
    assert!(attribute(&outcome, "cosmos.group.v1.EventExec", "logs").contains("operator authorization not found"));
    // Every other delegable message needs an authorization of the policy address itself, also inside a proposal.
    let create = MsgCreateEcosystem { operator: world.policy.clone(), ..ecosystem(&world) };
    let outcome = world.propose(vec![any(CREATE, &create)]);
    assert!(attribute(&outcome, "cosmos.group.v1.EventExec", "logs").contains("authorization check failed"));
    let foreign = any(
        "/cosmos.bank.v1beta1.MsgSend",
        &MsgSend { from_address: world.account(0), to_address: world.account(1), amount: vec![coin(1)] },
    );
    assert_ne!(world.propose(vec![foreign]).code, 0, "only messages signed by the policy may be proposed");
    let vote =
        MsgVote { proposal_id: 2, voter: world.account(0), option: VoteOption::Yes.into(), ..Default::default() };
    assert_ne!(world.send(0, vec![any("/cosmos.group.v1.MsgVote", &vote)]).code, 0, "the proposal is decided");
}
