use serde_json::{Value, json};
use svc_wire::indexer_reads::find_endpoint;

use crate::{
    read::{
        IndexReader, ReadArguments, ReadError,
        test_reader::{block, reader, time},
    },
    store::{BlockWrite, EntityActivity, EntityChange, EntityKind},
};

const POLICY: &str = "svc1policy";
const OTHER_POLICY: &str = "svc1council";
const VOTER: &str = "svc1voter";

/// Proposals 1 and 3 are of corporation 7, and 2 and 4 of a group without a corporation.
fn proposal(id: u64) -> EntityChange {
    let (corporation_id, policy) = if id % 2 == 1 { (Some(7), POLICY) } else { (None, OTHER_POLICY) };
    let body = json!({
        "id": id, "corporation_id": corporation_id.unwrap_or(0), "group_policy_address": policy, "status": "SUBMITTED",
        "proposers": [VOTER], "voting_period_end": time(50),
    });
    EntityChange {
        corporation_id,
        name: Some(policy.to_owned()),
        ..EntityChange::new(EntityKind::Proposal, Some(id), Some(body))
    }
}

fn vote(proposal: u64) -> EntityChange {
    let body = json!({"proposal_id": proposal, "voter": VOTER, "option": "YES"});
    EntityChange {
        parent_id: Some(proposal),
        name: Some(VOTER.to_owned()),
        ..EntityChange::new(EntityKind::Vote, None, Some(body))
    }
}

fn activity(proposal: u64) -> EntityActivity {
    EntityActivity {
        entity_type: EntityKind::Proposal.entity_type(),
        entity_key: proposal.to_string(),
        message: "SubmitProposal".to_owned(),
        account: Some(VOTER.to_owned()),
        changes: None,
    }
}

/// A store of an earlier release: proposals and votes of both groups are in it.
fn blocks() -> Vec<BlockWrite> {
    let corporation = json!({"id": 7, "policy_address": POLICY, "did": "did:web:corporation"});
    let group = json!({"corporation_id": 7, "group_id": 2, "members": [{"address": VOTER, "weight": "1"}]});
    let begun = vec![
        EntityChange {
            corporation_id: Some(7),
            name: Some(POLICY.to_owned()),
            ..EntityChange::new(EntityKind::Corporation, Some(7), Some(corporation))
        },
        EntityChange {
            corporation_id: Some(7),
            parent_id: Some(2),
            name: Some(POLICY.to_owned()),
            ..EntityChange::new(EntityKind::Group, Some(7), Some(group))
        },
    ];
    let submitted = (1..=4).map(proposal).collect();
    let logged = BlockWrite { activity: (1..=4).map(activity).collect(), ..block(2, submitted, &[]) };
    vec![block(1, begun, &[]), logged, block(3, [2, 1, 4].map(vote).into(), &[]), block(4, vec![vote(3)], &[])]
}

/// The answer of a read with these path parameters and this query.
async fn ask(
    reader: &IndexReader,
    operation: &str,
    (path, query): (&[(&str, &str)], &str),
    at: Option<u64>,
) -> Result<Value, ReadError> {
    let endpoint = find_endpoint(operation).expect("an endpoint");
    let params = ReadArguments::from_query(endpoint, path.iter().copied(), query).expect("parameters");
    reader.answer_read(endpoint, &params, at).await.map(|answer| answer.body)
}

#[tokio::test]
async fn groups_without_a_corporation_are_in_no_list() {
    let reader = reader(&blocks()).await;
    let by_voter = format!("voter={VOTER}");
    let [by_both, page] = ["&proposal_id=2", "&limit=1&sort=id"].map(|rest| format!("{by_voter}{rest}"));
    let [by_proposer, pending] = ["proposer", "pending_voter"].map(|name| format!("{name}={VOTER}"));
    let by_member = format!("account={VOTER}");
    for (operation, query, height, pointer, expected) in [
        ("gr.listVotes", by_voter.as_str(), None, "proposal_id", vec![3, 1]),
        ("gr.listVotes", &by_voter, Some(3), "proposal_id", vec![1]),
        // The first vote is hidden, so the page has the second one.
        ("gr.listVotes", &page, None, "proposal_id", vec![1]),
        ("gr.listVotes", "proposal_id=1", None, "proposal_id", vec![1]),
        ("gr.listVotes", "proposal_id=2", None, "proposal_id", vec![]),
        ("gr.listVotes", &by_both, None, "proposal_id", vec![]),
        ("gr.listProposals", "", None, "id", vec![3, 1]),
        ("gr.listProposals", &by_proposer, None, "id", vec![3, 1]),
        ("gr.listProposals", "status=SUBMITTED&limit=1&sort=id&min_id=2", None, "id", vec![3]),
        ("gr.listProposals", &pending, Some(2), "id", vec![3, 1]),
        ("gr.listProposals", &pending, Some(3), "id", vec![3]),
        ("gr.listProposals", "corporation_id=7", None, "id", vec![3, 1]),
        ("gr.listCorporationsByMember", &by_member, None, "corporation_id", vec![7]),
        ("indexer.listChanges", "", Some(2), "entity_id", vec![1, 3]),
    ] {
        let answer = ask(&reader, operation, (&[], query), height).await.expect("an answer");
        let rows = answer.as_object().and_then(|members| members.values().find_map(Value::as_array)).expect("a list");
        let number = |row: &Value| row[pointer].as_u64().or_else(|| row[pointer].as_str()?.parse().ok());
        let found: Vec<u64> = rows.iter().filter_map(number).collect();
        assert_eq!(found, expected, "{operation} {query} {height:?}: {answer}");
    }
}

#[tokio::test]
async fn a_group_or_proposal_without_a_corporation_is_not_found() {
    let reader = reader(&blocks()).await;
    for (operation, name, id, is_found) in [
        ("gr.getProposal", "id", "1", true),
        ("gr.getProposal", "id", "2", false),
        ("gr.getProposal", "id", "9", false),
        // Group 2 is that of corporation 7.
        ("gr.getCorporationGroup", "corporation_id", "7", true),
        ("gr.getCorporationGroup", "corporation_id", "1", false),
        ("gr.getCorporationGroup", "corporation_id", "2", false),
    ] {
        let answer = ask(&reader, operation, (&[(name, id)], ""), None).await;
        assert_eq!(answer.is_ok(), is_found, "{operation} {id}: {answer:?}");
        assert!(is_found || matches!(answer, Err(ReadError::NotFound(_))), "{operation} {id}: {answer:?}");
    }
}

#[tokio::test]
async fn the_history_of_a_deposit_has_the_chain_s_names_also_of_rows_of_earlier_releases() {
    let stored = [
        ("CREATE_TRUST_DEPOSIT", "AdjustTrustDeposit"),
        ("ADJUST_TRUST_DEPOSIT", "AdjustTrustDeposit"),
        ("SLASH_TRUST_DEPOSIT", "SlashTrustDeposit"),
        ("BURN_ECOSYSTEM_SLASHED_TRUST_DEPOSIT", "BurnEcosystemSlashedTrustDeposit"),
        ("RECLAIM_YIELD", "ReclaimTrustDepositYield"),
        ("REPAY_SLASHED", "RepaySlashedTrustDeposit"),
        ("AdjustTrustDeposit", "AdjustTrustDeposit"),
        ("SlashTrustDeposit", "SlashTrustDeposit"),
        ("BurnEcosystemSlashedTrustDeposit", "BurnEcosystemSlashedTrustDeposit"),
        ("ReclaimTrustDepositYield", "ReclaimTrustDepositYield"),
        ("RepaySlashedTrustDeposit", "RepaySlashedTrustDeposit"),
    ];
    let row = |(message, _): &(&str, &str)| EntityActivity {
        entity_type: EntityKind::TrustDeposit.entity_type(),
        entity_key: "7".to_owned(),
        message: (*message).to_owned(),
        account: Some(VOTER.to_owned()),
        changes: None,
    };
    let reader =
        reader(&[BlockWrite { activity: stored.iter().map(row).collect(), ..block(1, Vec::new(), &[]) }]).await;
    let expected: Vec<&str> = stored.iter().map(|(_, shown)| *shown).collect();
    let history = ask(&reader, "td.getTrustDepositHistory", (&[("corporation_id", "7")], "sort=id"), None).await;
    let changes = ask(&reader, "indexer.listChanges", (&[], ""), Some(1)).await;
    for answer in [history.expect("an answer"), changes.expect("an answer")] {
        let rows = answer["activity"].as_array().expect("a list");
        let shown: Vec<&str> = rows.iter().filter_map(|row| row["msg"].as_str()).collect();
        assert_eq!(shown, expected, "{answer}");
    }
}

#[tokio::test]
async fn an_authorization_of_a_vs_operator_counts_until_the_participant_of_a_record_ends() {
    let participant = |id: u64, changes: &Value| {
        let mut body = json!({"id": id, "op_state": "VALIDATED", "effective_from": time(1)});
        for (name, value) in changes.as_object().expect("members") {
            body[name] = value.clone();
        }
        EntityChange::new(EntityKind::Participant, Some(id), Some(body))
    };
    let authorization = |id: u64, records: Value| {
        let body = json!({"id": id, "corporation_id": 7, "vs_operator": "svc1service", "records": records});
        EntityChange::new(EntityKind::VsOperatorAuthorization, Some(id), Some(body))
    };
    let changes = vec![
        participant(1, &json!({"effective_until": time(5)})),
        participant(2, &json!({})),
        participant(3, &json!({"op_state": "PENDING", "effective_from": null})),
        participant(4, &json!({"effective_from": time(4)})),
        participant(5, &json!({"slashed": time(1)})),
        // Validated without a beginning, as the oldest nodes store it: the chain never takes it for active.
        participant(6, &json!({"effective_from": null})),
        // As newer nodes have it: no expiration, or that of a cycle.
        authorization(11, json!([{"participant_id": 1}])),
        authorization(12, json!([{"participant_id": 2, "expiration": time(3), "period": "1s"}])),
        authorization(13, json!([{"participant_id": 1, "expiration": time(3), "period": "1s"}])),
        authorization(14, json!([{"participant_id": 3}])),
        authorization(15, json!([{"participant_id": 4}])),
        authorization(16, json!([{"participant_id": 5}])),
        // As older ones have it: the expiration is the end of the right.
        authorization(21, json!([{"participant_id": 2, "expiration": time(3)}])),
        authorization(22, json!([{"participant_id": 1, "expiration": time(5)}])),
        authorization(23, json!([{"participant_id": 3, "expiration": time(1)}, {"participant_id": 2}])),
        // One without records, and one of a participant that the index lacks.
        authorization(31, json!([])),
        authorization(32, json!([{"participant_id": 9, "expiration": time(3)}])),
        authorization(33, json!([{"participant_id": 6}])),
    ];
    let empty = (2..=6).map(|height| block(height, Vec::new(), &[]));
    let blocks: Vec<BlockWrite> = [block(1, changes, &[])].into_iter().chain(empty).collect();
    let reader = reader(&blocks).await;
    for (height, expected) in [
        (2, &[11, 12, 13, 15, 21, 22, 23, 32][..]),
        (3, &[11, 12, 13, 15, 22, 23]),
        (5, &[12, 15, 23]),
        (6, &[12, 15, 23]),
    ] {
        let query = (&[][..], "only_active=true&sort=id");
        let answer = ask(&reader, "de.listVSOperatorAuthorizations", query, Some(height)).await.expect("an answer");
        let rows = answer["authorizations"].as_array().expect("a list");
        let found: Vec<u64> = rows.iter().filter_map(|row| row["id"].as_u64()).collect();
        assert_eq!(found, expected, "{height}");
        // A page has as many as it may.
        let query = (&[][..], "only_active=true&sort=id&limit=2&min_id=13");
        let answer = ask(&reader, "de.listVSOperatorAuthorizations", query, Some(height)).await.expect("an answer");
        assert_eq!(
            answer["authorizations"].as_array().map(Vec::len),
            Some(2.min(expected.iter().filter(|id| **id >= 13).count()))
        );
    }
    let all = ask(&reader, "de.listVSOperatorAuthorizations", (&[], "sort=id"), None).await.expect("an answer");
    assert_eq!(all["authorizations"].as_array().map(Vec::len), Some(12));
}
