//! Records and decisions of the agent, without I/O and clock.
//!
//! This crate is no API: it is a part of `svc-agent`, which names all that a program may use.

pub mod access;
pub mod decision;
pub mod error;
pub mod flows;
pub mod grant;
pub mod journal_key;
pub mod lost_blocks;
pub mod notification;
pub mod participant;
pub mod peer_tag;
pub mod peers;
pub mod time_text;
