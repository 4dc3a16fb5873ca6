//! The ante checks, and bytes that are no transaction.

use prost::Message;
use serde_json::json;
use svc_ledger::simulate;
use svc_wire::{
    proto::cosmos::{
        base::v1beta1::Coin,
        tx::{
            signing::v1beta1::SignMode,
            v1beta1::{AuthInfo, ModeInfo, TxBody, TxRaw, mode_info},
        },
    },
    tx::{SigningContext, UnsignedTx},
};

use super::test_ledger::{CHAIN_ID, DENOM, FEE, TestLedger, account, ecosystem, key};

fn fee(amount: &str) -> Vec<Coin> {
    vec![Coin { denom: DENOM.into(), amount: amount.into() }]
}

/// Signs the parts of a transaction without a change.
fn sign_raw(world: &TestLedger, signer: &str, body_bytes: Vec<u8>, auth_info_bytes: Vec<u8>) -> TxRaw {
    let info = world.query("/cosmos.auth.v1beta1.Query/AccountInfo", json!({"address": account(signer)}));
    let account_number = info["info"]["account_number"].as_str().expect("a number").parse().expect("a number");
    let context = SigningContext { chain_id: CHAIN_ID.into(), account_number };
    let document = svc_wire::tx::direct_sign_bytes(&body_bytes, &auth_info_bytes, &context).expect("encodes");
    let signature = key(signer).sign(&document).expect("signs").to_vec();
    TxRaw { body_bytes, auth_info_bytes, signatures: vec![signature] }
}

fn appended(mut bytes: Vec<u8>, tag: u32) -> Vec<u8> {
    prost::encoding::string::encode(tag, &"x".to_owned(), &mut bytes);
    bytes
}

#[test]
fn refusals_have_their_codes_and_change_nothing() {
    let mut world = TestLedger::new();
    let message = || {
        world.pack(
            "ec.MsgCreateEcosystem",
            &world.operator_message("a", "ec.MsgCreateEcosystem", &ecosystem("did:web:x")),
        )
    };
    let good = world.unsigned("alice", vec![message()]);
    let sign = |unsigned: &UnsignedTx| world.sign("alice", unsigned);
    let raw = TxRaw::decode(sign(&good).as_slice()).expect("decodes");
    let (body, auth) = (raw.body_bytes.clone(), raw.auth_info_bytes.clone());
    let with_body = |change: &dyn Fn(&mut TxBody)| {
        let mut changed = TxBody::decode(body.as_slice()).expect("decodes");
        change(&mut changed);
        sign_raw(&world, "alice", changed.encode_to_vec(), auth.clone()).encode_to_vec()
    };
    let with_auth = |change: &dyn Fn(&mut AuthInfo)| {
        let mut changed = AuthInfo::decode(auth.as_slice()).expect("decodes");
        change(&mut changed);
        sign_raw(&world, "alice", body.clone(), changed.encode_to_vec()).encode_to_vec()
    };
    let other_chain = SigningContext { chain_id: "other".into(), account_number: 1 };
    let past = prost_types::Timestamp { seconds: 1, nanos: 0 };
    let own = &world;
    let inner_unknown = {
        let mut packed = message();
        packed.value = appended(packed.value, 99);
        packed
    };
    let inner_harmless = {
        let mut packed = message();
        packed.value = appended(packed.value, 1_024 + 99);
        packed
    };
    let cases: Vec<(&str, Vec<u8>, u32)> = vec![
        ("no transaction", vec![1, 2, 3], 2),
        ("nothing", Vec::new(), 18),
        ("a stray field in the transaction", appended(raw.encode_to_vec(), 9), 2),
        (
            "fields out of order",
            {
                let mut bytes = TxRaw { body_bytes: Vec::new(), ..raw.clone() }.encode_to_vec();
                bytes.extend(TxRaw { body_bytes: body.clone(), ..TxRaw::default() }.encode_to_vec());
                bytes
            },
            2,
        ),
        (
            "an unknown field in the fee part",
            sign_raw(own, "alice", body.clone(), appended(auth.clone(), 1_024 + 9)).encode_to_vec(),
            2,
        ),
        (
            "an unknown critical field in the body",
            sign_raw(own, "alice", appended(body.clone(), 99), auth.clone()).encode_to_vec(),
            2,
        ),
        (
            "an unknown critical field in a message",
            sign(&UnsignedTx { messages: vec![inner_unknown], ..good.clone() }),
            2,
        ),
        ("a message nobody knows", with_body(&|body| body.messages[0].type_url = "/svc.co.v1.MsgNothing".into()), 2),
        ("a message that is none", with_body(&|body| body.messages[0].value = vec![0xff; 9]), 2),
        ("no message", sign(&UnsignedTx { messages: vec![], ..good.clone() }), 18),
        ("an extension option", with_body(&|body| body.extension_options.push(prost_types::Any::default())), 31),
        ("unordered", with_body(&|body| body.unordered = true), 37),
        ("past its height", sign(&UnsignedTx { timeout_height: 1, ..good.clone() }), 30),
        ("past its time", with_body(&|body| body.timeout_timestamp = Some(past)), 42),
        ("a long memo", with_body(&|body| body.memo = "m".repeat(257)), 12),
        ("more gas than there can be", sign(&UnsignedTx { gas_limit: u64::MAX, ..good.clone() }), 18),
        ("no gas", sign(&UnsignedTx { gas_limit: 0, ..good.clone() }), 11),
        ("too little gas", sign(&UnsignedTx { gas_limit: 2_000, ..good.clone() }), 11),
        ("a fee of nothing", sign(&UnsignedTx { fee: fee("0"), ..good.clone() }), 10),
        ("a negative fee", sign(&UnsignedTx { fee: fee("-1"), ..good.clone() }), 10),
        ("a fee beyond all numbers", sign(&UnsignedTx { fee: fee(&"9".repeat(80)), ..good.clone() }), 10),
        ("more than there is", sign(&UnsignedTx { fee: fee(&"9".repeat(70)), ..good.clone() }), 5),
        (
            "a fee in nothing",
            sign(&UnsignedTx { fee: vec![Coin { denom: "1".into(), amount: "1".into() }], ..good.clone() }),
            10,
        ),
        ("no signature", TxRaw { signatures: Vec::new(), ..raw.clone() }.encode_to_vec(), 15),
        ("two signatures", TxRaw { signatures: vec![vec![0; 64]; 2], ..raw.clone() }.encode_to_vec(), 4),
        ("another's money for the fee", with_auth(&|auth| auth.fee.as_mut().expect("a fee").payer = account("bob")), 4),
        ("a wrong sequence", sign(&UnsignedTx { sequence: 7, ..good.clone() }), 32),
        ("a foreign signature", world.sign("bob", &UnsignedTx { sequence: good.sequence, ..good.clone() }), 8),
        ("another chain", good.sign(&key("alice"), &other_chain).expect("signs").bytes, 4),
        (
            "a changed body",
            TxRaw {
                body_bytes: {
                    let mut changed = TxBody::decode(body.as_slice()).expect("decodes");
                    changed.memo = "changed".into();
                    changed.encode_to_vec()
                },
                ..raw.clone()
            }
            .encode_to_vec(),
            4,
        ),
        ("unsigned", good.simulation_bytes(&key("alice").public_key()), 4),
        (
            "an account that does not exist",
            {
                let nobody = svc_wire::account_key::AccountKey::from_bytes(&[77; 32]).expect("a key");
                let address = nobody.public_key().address("svc").expect("an address").to_string();
                let value = super::test_ledger::merge_members(
                    &world.operator_message("a", "ec.MsgCreateEcosystem", &ecosystem("did:web:x")),
                    &json!({"operator": address}),
                );
                let packed = world.pack("ec.MsgCreateEcosystem", &value);
                let context = SigningContext { chain_id: CHAIN_ID.into(), account_number: 0 };
                UnsignedTx { messages: vec![packed], ..good.clone() }.sign(&nobody, &context).expect("signs").bytes
            },
            9,
        ),
    ];
    let before = world.state.hash();
    for (what, bytes, expected) in cases {
        let mut copy = world.clone();
        let outcome = copy.run_block(&[bytes]).remove(0);
        assert_eq!((outcome.codespace.as_str(), outcome.code), ("sdk", expected), "{what}: {}", outcome.log);
        assert!(outcome.events.is_empty() && outcome.data.is_empty(), "{what}");
        assert_eq!(copy.state.hash(), before, "{what}");
    }
    // An unknown field that is not critical is accepted.
    let bytes = world.sign("alice", &UnsignedTx { messages: vec![inner_harmless], ..good });
    assert_eq!(world.clone().run_block(&[bytes]).remove(0).code, 0);
    // Fee and sequence stay spent if a message fails.
    let held = world.balance(&account("alice"), DENOM);
    let message = world.operator_message("a", "ec.MsgArchiveEcosystem", &json!({"id": 9, "archive": true}));
    assert_eq!(world.send_message("alice", "ec.MsgArchiveEcosystem", &message).code, 1101);
    assert_eq!(world.balance(&account("alice"), DENOM), held - FEE);
}

#[test]
fn simulation_needs_no_signature_and_changes_nothing() {
    let world = TestLedger::new();
    let message = world
        .pack("ec.MsgCreateEcosystem", &world.operator_message("a", "ec.MsgCreateEcosystem", &ecosystem("did:web:x")));
    let bytes = world.unsigned("alice", vec![message]).simulation_bytes(&key("alice").public_key());
    let before = world.state.hash();
    let outcome = simulate(&world.state, &world.chain, world.block(), &bytes);
    assert!(outcome.code == 0 && outcome.gas_used > 10_000, "{}", outcome.log);
    assert_eq!(world.state.hash(), before);
}

/// The signer infos that clients simulate with, beside the real one: those of the SDK in Go have a key without bytes, and others no key or
/// no mode.
#[test]
fn simulation_takes_the_signers_of_every_client() {
    let world = TestLedger::new();
    let message = world
        .pack("ec.MsgCreateEcosystem", &world.operator_message("a", "ec.MsgCreateEcosystem", &ecosystem("did:web:x")));
    let raw =
        TxRaw::decode(world.unsigned("alice", vec![message]).simulation_bytes(&key("alice").public_key()).as_slice())
            .expect("decodes");
    let with = |change: &dyn Fn(&mut AuthInfo), signatures: Vec<Vec<u8>>| {
        let mut auth = AuthInfo::decode(raw.auth_info_bytes.as_slice()).expect("decodes");
        change(&mut auth);
        TxRaw { auth_info_bytes: auth.encode_to_vec(), signatures, ..raw.clone() }.encode_to_vec()
    };
    let empty_key = |auth: &mut AuthInfo| {
        let packed = prost_types::Any { type_url: "/cosmos.crypto.secp256k1.PubKey".into(), value: Vec::new() };
        auth.signer_infos[0].public_key = Some(packed);
    };
    // A key that the chain knows, and one that it does not know yet.
    let mut unknown = world.clone();
    let gas = svc_ledger::simulate(&unknown.state, &unknown.chain, unknown.block(), &raw.encode_to_vec()).gas_used;
    for (name, world) in [
        ("a new account", world.clone()),
        ("a known account", {
            let message = world.operator_message("a", "ec.MsgCreateEcosystem", &ecosystem("did:web:first"));
            assert_eq!(unknown.send_message("alice", "ec.MsgCreateEcosystem", &message).code, 0);
            unknown
        }),
    ] {
        let sequence = world.unsigned("alice", vec![]).sequence;
        let cases: [(&str, Vec<u8>); 5] = [
            (
                "no bytes",
                with(
                    &|auth| {
                        empty_key(auth);
                        auth.signer_infos[0].sequence = sequence;
                    },
                    vec![vec![]],
                ),
            ),
            (
                "no key",
                with(
                    &|auth| {
                        auth.signer_infos[0].public_key = None;
                        auth.signer_infos[0].sequence = sequence;
                    },
                    vec![vec![]],
                ),
            ),
            (
                "no mode",
                with(
                    &|auth| {
                        auth.signer_infos[0].mode_info = None;
                        auth.signer_infos[0].sequence = sequence;
                    },
                    vec![vec![]],
                ),
            ),
            ("a real signature", with(&|auth| auth.signer_infos[0].sequence = sequence, vec![vec![7; 64]])),
            (
                "no fee",
                with(
                    &|auth| {
                        auth.fee = None;
                        auth.signer_infos[0].sequence = sequence;
                    },
                    vec![vec![]],
                ),
            ),
        ];
        for (case, bytes) in cases {
            let outcome = simulate(&world.state, &world.chain, world.block(), &bytes);
            assert_eq!(outcome.code, 0, "{name}, {case}: {}", outcome.log);
            assert!(
                outcome.gas_used + 7_000 > gas && outcome.gas_used < gas + 5_000,
                "{name}, {case}: {} and {gas}",
                outcome.gas_used
            );
        }
        let wrong = with(
            &|auth| {
                empty_key(auth);
                auth.signer_infos[0].sequence = sequence + 1;
            },
            vec![vec![]],
        );
        assert_eq!(simulate(&world.state, &world.chain, world.block(), &wrong).code, 32, "{name}");
        let other = with(
            &|auth| {
                let packed = prost_types::Any { type_url: "/cosmos.crypto.other.PubKey".into(), value: Vec::new() };
                auth.signer_infos[0].public_key = Some(packed);
            },
            vec![vec![]],
        );
        assert_eq!(simulate(&world.state, &world.chain, world.block(), &other).code, 8, "{name}");
    }
    // Delivered, a key without bytes is none.
    let mut world = world;
    let outcome = world.run_block(&[with(&empty_key, vec![vec![0; 64]])]).remove(0);
    assert_eq!((outcome.code, outcome.log.contains("invalid pubkey")), (8, true), "{}", outcome.log);
}

#[test]
fn amino_json_is_verified_and_other_modes_are_refused_by_name() {
    let world = TestLedger::new();
    let message = world
        .pack("ec.MsgCreateEcosystem", &world.operator_message("a", "ec.MsgCreateEcosystem", &ecosystem("did:web:x")));
    let unsigned = world.unsigned("alice", vec![message]);
    let raw = TxRaw::decode(world.sign("alice", &unsigned).as_slice()).expect("decodes");
    let body = TxBody::decode(raw.body_bytes.as_slice()).expect("decodes");
    let mut auth = AuthInfo::decode(raw.auth_info_bytes.as_slice()).expect("decodes");
    let info = world.query("/cosmos.auth.v1beta1.Query/AccountInfo", json!({"address": account("alice")}));
    let account_number = info["info"]["account_number"].as_str().expect("a number").parse().expect("a number");
    let context = SigningContext { chain_id: CHAIN_ID.into(), account_number };
    let mut signed_in = |mode: SignMode, context: &SigningContext| {
        let single = mode_info::Single { mode: mode.into() };
        auth.signer_infos[0].mode_info = Some(ModeInfo { sum: Some(mode_info::Sum::Single(single)) });
        let fee = auth.fee.clone().expect("a fee");
        let document = world.chain.registry.amino_sign_bytes(&body, &fee, auth.signer_infos[0].sequence, context);
        let signature = key("alice").sign(&document.expect("a document")).expect("signs").to_vec();
        TxRaw { auth_info_bytes: auth.encode_to_vec(), signatures: vec![signature], ..raw.clone() }.encode_to_vec()
    };
    let amino = signed_in(SignMode::LegacyAminoJson, &context);
    let elsewhere =
        signed_in(SignMode::LegacyAminoJson, &SigningContext { chain_id: "other".into(), ..context.clone() });
    // Field 1024 of the body, which no signature covers.
    let mut changed = TxRaw::decode(amino.as_slice()).expect("decodes");
    changed.body_bytes.extend([0x80, 0x40, 1]);
    let (aux, textual) = (signed_in(SignMode::DirectAux, &context), signed_in(SignMode::Textual, &context));
    for (bytes, code, text) in [
        (amino, 0, ""),
        (elsewhere, 4, "signature verification failed"),
        (changed.encode_to_vec(), 4, "1024"),
        (aux, 37, "SIGN_MODE_DIRECT_AUX is not verified by this node"),
        (textual, 37, "SIGN_MODE_TEXTUAL is not verified by this node"),
    ] {
        let outcome = world.clone().run_block(&[bytes]).remove(0);
        assert!(outcome.code == code && outcome.log.contains(text), "{code}: {}", outcome.log);
    }
}

#[test]
fn all_messages_of_a_transaction_take_effect_or_none() {
    let mut world = TestLedger::new();
    let pack = |world: &TestLedger, did: &str| {
        world.pack("ec.MsgCreateEcosystem", &world.operator_message("a", "ec.MsgCreateEcosystem", &ecosystem(did)))
    };
    let archive = world.pack(
        "ec.MsgArchiveEcosystem",
        &world.operator_message("a", "ec.MsgArchiveEcosystem", &json!({"id": 9, "archive": true})),
    );
    let bytes = world.sign("alice", &world.unsigned("alice", vec![pack(&world, "did:web:x"), archive]));
    let outcome = world.run_block(&[bytes]).remove(0);
    assert!(outcome.log.starts_with("failed to execute message; message index: 1: "), "{}", outcome.log);
    assert_eq!(world.query("ec.ListEcosystems", json!({}))["ecosystems"], json!([]));
    let bytes =
        world.sign("alice", &world.unsigned("alice", vec![pack(&world, "did:web:x"), pack(&world, "did:web:y")]));
    let outcome = world.run_block(&[bytes]).remove(0);
    let indexes: Vec<_> = outcome
        .events
        .iter()
        .filter_map(|event| event.attributes.iter().find(|(key, _)| key == "msg_index"))
        .map(|(_, value)| value.as_str())
        .collect();
    assert_eq!(indexes, ["0", "0", "0", "1", "1", "1"]);
}
