//! Upgrades of a chain: at a height a later release takes over the state and makes the blocks.

mod migration;
mod schedule;

pub use migration::apply;
pub use schedule::{UpgradePlan, UpgradePlanError, UpgradeSchedule};
