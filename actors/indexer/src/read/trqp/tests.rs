use serde_json::json;
use svc_wire::reads::endpoint;

use super::*;
use crate::{
    read::{
        Params,
        fixture::{block, reader, time},
    },
    store::{BlockWrite, Change},
};

const SESSION: &str = "6ba7b810-9dad-41d1-80b4-00c04fd430c8";

fn named(kind: Kind, id: u64, did: &str, body: Value) -> Change {
    Change { did: Some(did.to_owned()), ..Change::new(kind, Some(id), Some(body)) }
}

fn participant(times: Value) -> Change {
    let mut body = json!({"id": 5, "role": "ISSUER", "created": time(2), "deposit": 10, "op_state": "PENDING"});
    for (key, value) in times.as_object().expect("times") {
        body[key] = value.clone();
    }
    Change { corporation_id: Some(7), parent_id: Some(3), ..Change::new(Kind::Participant, Some(5), Some(body)) }
}

fn session(modified: u64) -> Change {
    let body = json!({"id": SESSION, "created": time(3), "modified": time(modified)});
    Change { name: Some(SESSION.to_owned()), ..Change::new(Kind::Session, None, Some(body)) }
}

/// The participant applies, a session opens, the participant is validated and acts in the session, and is revoked.
fn story() -> Vec<BlockWrite> {
    let begun = vec![
        named(Kind::Corporation, 7, "did:corporation", json!({"id": 7})),
        named(Kind::Ecosystem, 1, "did:ecosystem", json!({"id": 1, "did": "did:ecosystem"})),
        Change::new(Kind::Schema, Some(3), Some(json!({"id": 3, "ecosystem_id": 1}))),
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
    // A block's time is finer than what is told of it.
    let finer = |block: BlockWrite| BlockWrite { time: block.time + 123_456, ..block };
    blocks.into_iter().map(finer).collect()
}

async fn asked(reader: &Reader, context: Value, height: Option<u64>) -> Value {
    let body = json!({
        "authority_id": "did:ecosystem", "entity_id": "did:corporation", "action": "issue",
        "resource": "vpr:svc:c:cs:3", "context": context,
    });
    let endpoint = endpoint("trqp.authorize").expect("an endpoint");
    let params = Params::posted(endpoint, body.to_string().as_bytes()).expect("parameters");
    reader.answer(endpoint, &params, height).await.expect("an answer").body
}

#[tokio::test]
async fn nothing_after_the_sessions_last_record_counts_and_what_changed_within_it_does() {
    let reader = reader(&story()).await;
    for (context, height, evaluated, state) in [
        // Now it is revoked, whatever it was.
        (json!({}), None, 7, "REVOKED"),
        // In the session it was validated by the last record, and not by the first.
        (json!({"session_id": SESSION}), None, 5, "ACTIVE"),
        (json!({"session_id": SESSION}), Some(5), 5, "ACTIVE"),
        (json!({"session_id": SESSION}), Some(4), 3, "INACTIVE"),
        (json!({"session_id": SESSION, "time": time(7)}), None, 5, "ACTIVE"),
        // A block's own time, as it is told, is the time after it; a moment before is the block before.
        (json!({"time": time(5)}), None, 5, "ACTIVE"),
        (json!({"time": "1970-01-01T00:00:04.999Z"}), None, 4, "INACTIVE"),
        (json!({"time": "1970-01-01T00:00:06.999Z"}), None, 6, "ACTIVE"),
        (json!({"time": time(7)}), None, 7, "REVOKED"),
        (json!({"time": time(7)}), Some(6), 7, "ACTIVE"),
        (json!({"time": time(30)}), None, 30, "REVOKED"),
    ] {
        let answer = asked(&reader, context.clone(), height).await;
        let shown = &answer["svc"]["participant_state"];
        assert_eq!((shown, &answer["authorized"]), (&json!(state), &json!(state == "ACTIVE")), "{context} {height:?}");
        let second = answer["time_evaluated"].as_str().expect("a time")[..19].to_owned();
        assert_eq!(second, time(evaluated)[..19], "{context} {height:?}: {answer}");
        let is_remarked = answer["message"].as_str().is_some_and(|text| text.contains("context.time is after block"));
        assert_eq!(is_remarked, evaluated > height.unwrap_or(7), "{answer}");
    }
}

#[tokio::test]
async fn an_indexer_that_began_late_says_that_it_does_not_know_what_was_before() {
    let late: Vec<BlockWrite> = vec![block(6, story().into_iter().flat_map(|block| block.changes).collect(), &[])];
    let reader = reader(&late).await;
    assert_eq!(asked(&reader, json!({}), None).await["svc"]["participant_state"], "ACTIVE", "revoked later");
    for (context, name, evaluated) in [
        (json!({"time": time(5)}), "context.time", 5),
        (json!({"session_id": SESSION, "time": time(6)}), "context.session_id", 5),
    ] {
        let answer = asked(&reader, context, None).await;
        let expected = format!("{name}: nothing is known of that time, the first block here is of {}", time(6));
        assert_eq!((&answer["message"], &answer["authorized"]), (&json!(expected), &json!(false)));
        assert_eq!((answer.get("svc"), &answer["time_evaluated"]), (None, &json!(time(evaluated))));
    }
}
