//! Tables that blocks fill.

pub mod activity;
pub mod block;
pub mod block_transaction;
pub mod bootstrap;
pub mod entity;
pub mod entity_kind;
pub mod entity_write;
pub mod event;
pub mod stats;
