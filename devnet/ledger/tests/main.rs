//! Tests of the ledger's public functions, with signed transactions in blocks.
#![allow(missing_docs, clippy::expect_used)]

mod ledger;
