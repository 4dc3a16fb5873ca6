//! The arguments of each actor, a file per subject. A function makes the handles of its subject and describes its actors; it starts none.

pub(super) mod events;
pub(super) mod flows;
pub(super) mod identity;
pub(super) mod peers;
