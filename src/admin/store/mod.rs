//! The store: its export, and the events that it holds for delivery.

pub(super) mod events;
pub(super) mod export;
