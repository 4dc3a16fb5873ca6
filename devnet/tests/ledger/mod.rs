//! The ledger's checks, codes, effects, money and events, through signed transactions in blocks, as the chain states them.

mod ante;
mod corporation;
mod create;
mod delegation;
mod governance;
mod group;
mod manage;
mod market;
mod onboarding;
mod properties;
mod queries;
mod schema;
mod session;
mod trust_deposit;
mod world;
