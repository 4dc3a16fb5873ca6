//! Feeds random bytes to the reader of messages and of every protocol. A message that was read is the same after it was written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use svc_didcomm::{Message, delivery::Repetition, protocol::Content};

fuzz_target!(|data: &[u8]| {
    let Ok(message) = Message::parse(data) else { return };
    let _ = Repetition::of(&message);
    let content = Content::read(&message);
    let again = Message::parse(message.to_json().to_string().as_bytes()).expect("it was read before");
    assert_eq!(again.thread(), message.thread());
    assert_eq!(Content::read(&again), content);
});
