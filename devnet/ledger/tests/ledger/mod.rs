//! Tests of the checks, codes, effects, balances and events of the ledger, with signed transactions in blocks.

mod ante;
mod corporation;
mod council;
mod council_guard;
mod create;
mod delegation;
mod fee_grants;
mod generations;
mod governance;
mod group;
mod lifecycle;
mod onboarding;
mod outcomes;
mod participants;
mod properties;
mod queries;
mod renewal;
mod schema;
mod session;
mod test_ledger;
mod trust_deposit;
mod upgrades;
