//! Tests of the kit on one small actor that fails on request.
#![allow(missing_docs, clippy::expect_used)]

mod ask;
mod ask_through_restarts;
mod embedding;
mod fixture;
mod mailbox;
mod supervision;
