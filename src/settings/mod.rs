//! Every setting as a row: its name, type, default, secrecy, processes and one sentence. Parsing, `--help` and the tables of the pages
//! follow from the rows, and a variable cannot be read without one.

pub mod access;
pub mod agent;
pub mod chain;
pub mod didcomm;
pub mod events;
pub mod flows;
pub mod former;
pub mod help;
pub mod indexer;
pub mod listener;
pub mod mcp;
#[cfg(test)]
mod pages;
mod setting;
#[cfg(test)]
mod tests;
pub mod tools;

pub use setting::{Process, Setting, SettingDefault, SettingName, SettingType};

/// The rows by subject, in the order in which they are printed.
const SUBJECTS: [&[&Setting]; 11] = [
    chain::ROWS,
    mcp::ROWS,
    tools::ROWS,
    indexer::ROWS,
    agent::ROWS,
    events::ROWS,
    didcomm::ROWS,
    flows::ROWS,
    access::ROWS,
    listener::ROWS,
    former::ROWS,
];

/// All settings.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    SUBJECTS.into_iter().flatten().copied()
}

/// The settings that hold secrets; the URL of a database may contain a password.
pub fn secrets() -> impl Iterator<Item = &'static Setting> {
    all().filter(|setting| setting.is_secret)
}
