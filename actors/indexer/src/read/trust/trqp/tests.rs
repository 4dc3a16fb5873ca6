use serde_json::json;
use svc_wire::indexer_reads::find_endpoint;

use super::*;
use crate::{
    read::{
        ReadAnswer, ReadArguments,
        test_reader::{block, reader, time},
    },
    store::{BlockWrite, EntityChange},
};

const SESSION: &str = "6ba7b810-9dad-41d1-80b4-00c04fd430c8";

fn named(kind: EntityKind, id: u64, did: &str, body: Value) -> EntityChange {
    EntityChange { did: Some(did.to_owned()), ..EntityChange::new(kind, Some(id), Some(body)) }
}

fn participant(times: Value) -> EntityChange {
    let mut body = json!({"id": 5, "role": "ISSUER", "created": time(2), "deposit": 10, "op_state": "PENDING"});
    for (key, value) in times.as_object().expect("times") {
        body[key] = value.clone();
    }
    EntityChange {
        corporation_id: Some(7),
        parent_id: Some(3),
        ..EntityChange::new(EntityKind::Participant, Some(5), Some(body))
    }
}

fn session(modified: u64) -> EntityChange {
    let body = json!({"id": SESSION, "created": time(3), "modified": time(modified)});
    EntityChange { name: Some(SESSION.to_owned()), ..EntityChange::new(EntityKind::Session, None, Some(body)) }
}

/// The participant applies, a session opens, the participant is validated and acts in the session, and is revoked.
fn session_history() -> Vec<BlockWrite> {
    let begun = vec![
        named(EntityKind::Corporation, 7, "did:corporation", json!({"id": 7})),
        named(EntityKind::Ecosystem, 1, "did:ecosystem", json!({"id": 1, "did": "did:ecosystem"})),
        EntityChange::new(EntityKind::Schema, Some(3), Some(json!({"id": 3, "ecosystem_id": 1}))),
        participant(json!({})),
    ];
    let validated = json!({"op_state": "VALIDATED", "effective_from": time(5)});
    let revoked = json!({"op_state": "VALIDATED", "effective_from": time(5), "revoked": time(7)});
    let blocks = vec![
        block(2, begun, &[]),
        block(3, vec![session(3)], &[]),
        block(4, vec![], &[]),
        block(5, vec![participant(validated), session(5)], &[]),
        block(6, vec![], &[]),
        block(7, vec![participant(revoked)], &[]),
    ];
    // The time of a block is finer than the milliseconds of answers.
    let finer = |block: BlockWrite| BlockWrite { time: block.time + 123_456, ..block };
    blocks.into_iter().map(finer).collect()
}

async fn authorization_answer(reader: &IndexReader, context: Value, height: Option<u64>) -> Value {
    request_decision(reader, context, height).await.expect("an answer").body
}

async fn request_decision(reader: &IndexReader, context: Value, height: Option<u64>) -> Result<ReadAnswer, ReadError> {
    let body = json!({
        "authority_id": "did:ecosystem", "entity_id": "did:corporation", "action": "issue",
        "resource": "vpr:svc:c:cs:3", "context": context,
    });
    let endpoint = find_endpoint("trqp.authorize").expect("an endpoint");
    let params = ReadArguments::from_body(endpoint, body.to_string().as_bytes()).expect("parameters");
    reader.answer_read(endpoint, &params, height).await
}

#[tokio::test]
async fn changes_within_a_session_count_and_changes_after_its_last_record_do_not() {
    let reader = reader(&session_history()).await;
    for (context, height, evaluated, state) in [
        // At the newest block the participant is revoked.
        (json!({}), None, 7, "REVOKED"),
        // The participant was validated by the last record of the session, and not by the first.
        (json!({"session_id": SESSION}), None, 5, "ACTIVE"),
        (json!({"session_id": SESSION}), Some(5), 5, "ACTIVE"),
        (json!({"session_id": SESSION}), Some(4), 3, "INACTIVE"),
        (json!({"session_id": SESSION, "time": time(7)}), None, 5, "ACTIVE"),
        // The time of a block stands for the state after it; a millisecond earlier stands for the block before.
        (json!({"time": time(5)}), None, 5, "ACTIVE"),
        (json!({"time": "1970-01-01T00:00:04.999Z"}), None, 4, "INACTIVE"),
        (json!({"time": "1970-01-01T00:00:06.999Z"}), None, 6, "ACTIVE"),
        (json!({"time": time(7)}), None, 7, "REVOKED"),
        (json!({"time": time(7)}), Some(6), 7, "ACTIVE"),
        (json!({"time": time(30)}), None, 30, "REVOKED"),
    ] {
        let answer = authorization_answer(&reader, context.clone(), height).await;
        let shown = &answer["svc"]["participant_state"];
        assert_eq!((shown, &answer["authorized"]), (&json!(state), &json!(state == "ACTIVE")), "{context} {height:?}");
        let second = answer["time_evaluated"].as_str().expect("a time")[..19].to_owned();
        assert_eq!(second, time(evaluated)[..19], "{context} {height:?}: {answer}");
        let is_remarked = answer["message"].as_str().is_some_and(|text| text.contains("context.time is after block"));
        assert_eq!(is_remarked, evaluated > height.unwrap_or(7), "{answer}");
    }
}

#[tokio::test]
async fn a_store_that_began_late_does_not_decide_about_earlier_blocks() {
    let late: Vec<BlockWrite> =
        vec![block(6, session_history().into_iter().flat_map(|block| block.changes).collect(), &[])];
    let reader = reader(&late).await;
    assert_eq!(
        authorization_answer(&reader, json!({}), None).await["svc"]["participant_state"],
        "ACTIVE",
        "revoked later"
    );
    for (context, name) in [
        (json!({"time": time(5)}), "context.time"),
        (json!({"session_id": SESSION, "time": time(6)}), "session out of window"),
    ] {
        let error = request_decision(&reader, context, None).await.expect_err("not known");
        let expected = format!("{name}: the state of {} is not indexed, the oldest indexed height is 6", time(5));
        assert_eq!(error.to_string(), expected);
    }
}
