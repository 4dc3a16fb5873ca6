//! A peer that does not answer: the time from which on it is named, and the end of its silence.

use serde_json::{Value, json};

use super::{NOW, PEER, record};
use crate::{
    flow::{
        Arrived, Exchange, FlowArrival, FlowRecord, FlowState, PATIENCE_MILLIS, PEER_SILENT, Progress, Side, Variant,
        take,
    },
    message::Message,
    protocol::{
        Content,
        credential_format::CredentialFormat,
        issue_credential::{FormatAttachment, IssueCredential},
    },
};

/// A validator's flow that waits for an answer since NOW.
fn waiting(is_requested: bool, is_delivered: bool) -> FlowRecord {
    FlowRecord {
        exchange: Some(Exchange { thread: "exchange".into(), is_requested, is_delivered }),
        updated_at: NOW,
        ..record(Side::Validator, Variant::Onboarding, FlowState::CredOffered)
    }
}

/// The flow after a message of the exchange.
fn answered(before: &FlowRecord, message: &Message, now: i64) -> Arrived {
    let content = Content::read(message).expect("content");
    let arrival = FlowArrival {
        message,
        content: &content,
        peer_did: PEER,
        now,
        new_id: "other",
        facts: Default::default(),
        read: None,
    };
    take(before, &arrival)
}

fn request(thread: &str) -> Message {
    let attachments: Vec<FormatAttachment> = vec![CredentialFormat::DataIntegrity.request("a", &Value::Null)];
    IssueCredential::Request(attachments).to_message("request", thread, Some("thread"))
}

fn acknowledgement() -> Message {
    IssueCredential::Ack { status: "OK".into() }.to_message("ack", "exchange", Some("thread"))
}

/// A record as the store of a process that starts has it.
fn read_again(record: &FlowRecord) -> FlowRecord {
    serde_json::from_value(json!(record)).expect("a record")
}

#[test]
fn a_silent_peer_is_named_at_the_bound_and_not_before_it_also_after_a_restart() {
    let bound = NOW + PATIENCE_MILLIS;
    for (is_requested, is_delivered, is_awaited) in [(false, false, true), (true, true, true), (true, false, false)] {
        for (now, is_over) in [(NOW, false), (bound - 1, false), (bound, true), (bound + 1, true)] {
            // The bound counts from the last change, whichever process was there then.
            let mut progress = Progress::of(read_again(&waiting(is_requested, is_delivered)));
            let is_named = is_awaited && is_over;
            assert_eq!(progress.note_silence("no answer", now), is_named, "{is_requested} {is_delivered} {now}");
            assert_eq!(progress.record.is_blocked_by_silence(), is_named);
            let notice = progress.record.blocked.as_ref();
            assert_eq!(
                notice.map(|notice| (notice.code.as_str(), notice.text.as_str(), notice.at)),
                is_named.then_some((PEER_SILENT, "no answer", now))
            );
            assert!(progress.changes.is_empty() && progress.sends.is_empty(), "the state stays, and nothing is sent");
            // It is named once, and a restart keeps it.
            let mut kept = Progress::of(read_again(&progress.record));
            assert_eq!(kept.record, progress.record);
            if is_named {
                assert!(!kept.note_silence("other words", bound * 2) && kept.record == progress.record);
            }
        }
    }
    // A flow that waits for people says so, and not that its peer is silent. The applicant awaits no answer in this state.
    let mut held = Progress::of(waiting(false, false));
    held.block("NO_GRANT", "no grant", NOW);
    assert!(!held.note_silence("no answer", bound));
    let mut applicant = Progress::of(FlowRecord { side: Side::Applicant, ..waiting(false, false) });
    assert!(!applicant.note_silence("no answer", bound));
}

#[test]
fn the_answer_that_is_awaited_ends_the_silence_and_no_other_does() {
    let bound = NOW + PATIENCE_MILLIS;
    for (message, before, expected) in [
        (request("exchange"), waiting(false, false), Some(FlowState::CredOffered)),
        (acknowledgement(), waiting(true, true), Some(FlowState::Completed)),
        (request("exchange"), waiting(true, true), None),
    ] {
        let mut silent = Progress::of(before);
        assert!(silent.note_silence("no answer", bound));
        let silent = read_again(&silent.record);
        match (answered(&silent, &message, bound + 9), expected) {
            (Arrived::Changed(progress), Some(state)) => {
                assert_eq!((progress.record.state, &progress.record.blocked), (state, &None));
            }
            (Arrived::Ignored, None) => {}
            (arrived, expected) => panic!("{arrived:?} where {expected:?} was expected"),
        }
    }
    // Another exchange is no answer to this one.
    let mut silent = Progress::of(waiting(false, false));
    assert!(silent.note_silence("no answer", bound));
    let other = request("another exchange");
    assert!(matches!(answered(&silent.record, &other, bound), Arrived::Ignored));
}
