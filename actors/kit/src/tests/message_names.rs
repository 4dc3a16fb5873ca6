//! The name of a message is its variant in snake case.

use std::marker::PhantomData;

use crate::{ActorMessage, impl_actor_message};

trait Part: Send + 'static {}

impl Part for u8 {}

enum Msg<P: Part> {
    Flush,
    DueAt((), PhantomData<P>),
    LookUpAll,
    TxSeen { part: PhantomData<P> },
    Http2Up,
}

impl_actor_message!(Msg<P: Part> { Flush, DueAt, LookUpAll, TxSeen, Http2Up });

#[test]
fn a_message_is_named_after_its_variant_in_snake_case() {
    let cases: [(Msg<u8>, &str); 5] = [
        (Msg::Flush, "flush"),
        (Msg::DueAt((), PhantomData), "due_at"),
        (Msg::LookUpAll, "look_up_all"),
        (Msg::TxSeen { part: PhantomData }, "tx_seen"),
        (Msg::Http2Up, "http2_up"),
    ];
    for (message, name) in cases {
        assert_eq!(message.name(), name);
    }
}
