//! Upgrades of a chain: from a height on its blocks are those of a later release, which takes over the state.

mod migration;
mod schedule;

pub use migration::apply;
pub use schedule::{UpgradePlan, UpgradePlanError, UpgradeSchedule};
