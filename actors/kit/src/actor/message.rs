//! The trait of actor messages, and the macro that names them.

/// A message enum: each variant is one intent. [`impl_actor_message`](crate::impl_actor_message) implements it.
pub trait ActorMessage: Send + 'static {
    /// Returns the name of the variant in snake case: a span attribute and a metric label, never data.
    fn name(&self) -> &'static str;
}

/// Implements [`ActorMessage`] for an enum whose variants it lists. A name follows from its variant, so that the label in metrics
/// and spans never differs from the code; a variant that is missing in the list does not compile.
///
/// ```
/// use svc_kit::{ActorMessage, impl_actor_message};
///
/// enum Msg {
///     Flush,
///     TxSeen { height: u64 },
/// }
///
/// impl_actor_message!(Msg { Flush, TxSeen });
///
/// assert_eq!(Msg::TxSeen { height: 1 }.name(), "tx_seen");
/// ```
///
/// Another type than an enum with all these variants is refused:
/// ```compile_fail,E0004
/// enum Msg {
///     Flush,
///     Retry,
/// }
///
/// svc_kit::impl_actor_message!(Msg { Flush });
/// ```
#[macro_export]
macro_rules! impl_actor_message {
    ($message:ident $(<$parameter:ident: $bound:path>)? { $($variant:ident),+ $(,)? }) => {
        impl$(<$parameter: $bound>)? $crate::ActorMessage for $message$(<$parameter>)? {
            fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => {
                        const VARIANT: &str = stringify!($variant);
                        const NAME: [u8; $crate::actor::message::snake_length(VARIANT)] =
                            $crate::actor::message::snake_case(VARIANT);
                        const { $crate::actor::message::text(&NAME) }
                    })+
                }
            }
        }
    };
}

/// Length of a variant's name in snake case.
#[doc(hidden)]
pub const fn snake_length(variant: &str) -> usize {
    let (bytes, mut length, mut at) = (variant.as_bytes(), variant.len(), 1);
    while at < bytes.len() {
        length += bytes[at].is_ascii_uppercase() as usize;
        at += 1;
    }
    length
}

/// The name of a variant in snake case. `LENGTH` is its [`snake_length`].
#[doc(hidden)]
pub const fn snake_case<const LENGTH: usize>(variant: &str) -> [u8; LENGTH] {
    let (bytes, mut name, mut from, mut to) = (variant.as_bytes(), [b'_'; LENGTH], 0, 0);
    while from < bytes.len() {
        to += (from > 0 && bytes[from].is_ascii_uppercase()) as usize;
        name[to] = bytes[from].to_ascii_lowercase();
        from += 1;
        to += 1;
    }
    name
}

/// The text of a name. An identifier is UTF-8, and its ASCII letters alone were changed.
#[doc(hidden)]
pub const fn text(name: &[u8]) -> &str {
    match std::str::from_utf8(name) {
        Ok(text) => text,
        Err(_) => panic!("the name of a message is not UTF-8"),
    }
}
