//! Reads of the registry: entities, activity, events and statistics.

mod activity_log;
mod anchoring;
mod authorizations;
mod deposits_and_rates;
mod entity_scan;
mod governance;
mod groups;
mod participants;
mod stats;
#[cfg(test)]
mod tests;

pub(in crate::read) use stats::measure_number;
