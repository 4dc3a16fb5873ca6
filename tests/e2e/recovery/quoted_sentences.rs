//! Sentences of known failures in arguments and in answers whose frame names no message: each write is classified as without them.

use serde_json::{Value, json};

use super::super::harness::{CREATE_ECOSYSTEM, ecosystem_arguments, start_quick_network};

fn sentences() -> Vec<String> {
    let known: Value =
        serde_json::from_str(include_str!("../../../wire/tests/fixtures/error-sentences.json")).expect("JSON");
    known["sentences"].as_array().expect("a list").iter().map(|one| one.as_str().expect("a text").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sentence_in_any_argument_changes_no_answer() {
    let world = start_quick_network().await;
    const ADD: &str = "svc.ledger.gf.addGovernanceFrameworkDocument";
    let document = |member: &str, text: &str| {
        let mut given = json!({
            "ecosystem_id": 77, "doc_language": "en", "doc_url": "https://a.example/doc.pdf", "version": 2,
            "doc_digest_sri": "sha384-Ly4tLCsqKSgnJiUkIyIhIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA",
        });
        given[member] = text.into();
        given
    };
    let ecosystem = |did: &str| {
        let mut given = ecosystem_arguments("quoting");
        given["did"] = did.into();
        given
    };
    let code = async |member: &str, text: &str| match member {
        "did" => world.call_tool(CREATE_ECOSYSTEM, ecosystem(text)).await.content["code"].clone(),
        _ => world.call_tool(ADD, document(member, text)).await.content["code"].clone(),
    };
    for (member, before) in [
        ("did", ""),
        ("did", "did:web:"),
        ("did", "did:web:a.example:"),
        ("doc_url", ""),
        ("doc_url", "https://a.example/"),
        ("doc_language", ""),
        ("doc_digest_sri", "sha384-"),
    ] {
        let expected = code(member, &format!("{before}no known sentence")).await;
        assert!(expected.is_string(), "the chain has no reason against {member} {before}");
        for sentence in sentences() {
            assert_eq!(code(member, &format!("{before}{sentence}")).await, expected, "{member}: {before}{sentence}");
        }
    }
    let before = world.operator_txs_in_blocks();
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("fine")).await;
    world.assert_included_once("fine", &answer);
    assert_eq!((&answer.content["fee_payer"], world.operator_txs_in_blocks()), (&json!("corporation"), before + 1));
}

/// The whole text of a refusal is a sentence that the account and the allowance contradict.
#[tokio::test(flavor = "multi_thread")]
async fn a_sentence_that_the_node_contradicts_moves_no_sequence_and_changes_no_payer() {
    let world = start_quick_network().await;
    let node = &world.network.devnet.node;
    let first = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("first")).await;
    world.assert_included_once("first", &first);
    let row = world.transactions().await.remove(0);
    let sequence = row["sequence"].as_u64().expect("a sequence") + 1;
    // The sequence is asked for by a simulation, too.
    for (name, simulations, text) in [
        ("sequence", 4, format!("account sequence mismatch, expected 9, got {sequence}: incorrect account sequence")),
        ("allowance", 2, "svc1a does not allow to pay fees for svc1b: fee-grant not found: not found".to_owned()),
    ] {
        let framed = format!("rpc error: code = Unknown desc = {text} [a/b.go:7] with gas used: '0': unknown request");
        node.update_faults(|faults| faults.fail_simulations = Some((simulations, framed)));
        let error = world.call_error(CREATE_ECOSYSTEM, ecosystem_arguments(name), "SIMULATION_FAILED").await;
        assert!(error["message"].as_str().is_some_and(|message| message.contains(&text)), "{error:#}");
        assert_eq!((world.times_on_chain(name), world.operator_txs_in_blocks()), (0, 1));
    }
    let next = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("next")).await;
    world.assert_included_once("next", &next);
    assert_eq!(next.content["fee_payer"], "corporation");
    let row = world.transactions().await.remove(0);
    assert_eq!(row["sequence"], json!(sequence));
}
