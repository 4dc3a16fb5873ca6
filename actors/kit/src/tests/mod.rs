//! Tests of the kit on one small actor that fails on request.

mod ask;
mod ask_through_restarts;
mod embedding;
mod fixture;
mod mailbox;
mod message_names;
mod sessions;
mod supervision;
