//! Accounts: keys, bech32 addresses, off-chain signatures.

pub mod account_key;
pub mod address;
pub mod adr036;
