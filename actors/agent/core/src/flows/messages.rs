//! The messages of the steps of a flow. Pure, but for the ids.

use svc_didcomm::{
    Message,
    flow::{FlowRecord, MessageParts, Outgoing, Progress, message_of},
};
use uuid::Uuid;

/// Makes the messages of steps under fresh ids, as `make_messages` does.
pub fn messages_of(
    before: Option<&FlowRecord>,
    progress: &Progress,
    parts: impl Fn(Outgoing, &str) -> MessageParts,
) -> Vec<Message> {
    make_messages(before, progress, || Uuid::new_v4().to_string(), parts)
}

/// Makes the messages of steps, in order. An opening message has the id of its thread; one that is repeated in the thread of `before` has
/// an id of its own, as every other message. `parts` adds the parts that no record has, by the message and its id.
pub(super) fn make_messages(
    before: Option<&FlowRecord>,
    progress: &Progress,
    new_id: impl Fn() -> String,
    parts: impl Fn(Outgoing, &str) -> MessageParts,
) -> Vec<Message> {
    let record = &progress.record;
    let is_new_thread = before.is_none_or(|before| before.thread_id != record.thread_id);
    let make = |outgoing: &Outgoing| {
        let is_opening = matches!(outgoing, Outgoing::OnboardingRequest | Outgoing::IssuanceRequest);
        let id = match &record.thread_id {
            Some(thread) if is_opening && is_new_thread => thread.clone(),
            _ => new_id(),
        };
        message_of(record, *outgoing, &id, parts(*outgoing, &id))
    };
    progress.sends.iter().filter_map(make).collect()
}
