//! The messages inside a MsgExec of x/authz. Pure.

use prost::Message;
use prost_types::Any;
use svc_wire::{comet_rpc::AbciEvent, proto::cosmos::authz::v1beta1::MsgExec};

use super::EventPosition;

/// Deepest nesting that is read: the SDK refuses a deeper one.
const MAX_DEPTH: usize = 10;

/// A message, and each message inside of it, with their positions.
pub fn flatten(message: Any, at: EventPosition) -> Vec<(Any, EventPosition)> {
    let mut inner = Vec::new();
    if message.type_url == "/cosmos.authz.v1beta1.MsgExec"
        && at.nested_at.len() < MAX_DEPTH
        && let Ok(exec) = MsgExec::decode(message.value.as_slice())
    {
        for (one, place) in exec.msgs.into_iter().zip(0u32..) {
            let nested_at = [at.nested_at.as_slice(), &[place]].concat();
            inner.extend(flatten(one, EventPosition { nested_at, ..at.clone() }));
        }
    }
    let mut all = vec![(message, at)];
    all.append(&mut inner);
    all
}

/// The position of the message that emitted an event, in each MsgExec that holds it, outermost first. Each MsgExec adds its own attribute
/// to the events of its messages, so that the innermost stands first.
pub fn nested_at(event: &AbciEvent) -> Vec<u32> {
    let own = event.attributes.iter().filter(|attribute| attribute.key == "authz_msg_index");
    own.rev().filter_map(|attribute| attribute.value.parse().ok()).collect()
}
