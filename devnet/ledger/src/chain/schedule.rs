//! The upgrades of a chain by height: which release makes a block, and when a node needs another program.

use svc_wire::proto_registry::NodeGeneration;

/// An upgrade: the generation whose rules hold from the block of a height on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpgradePlan {
    /// Generation of the release.
    pub generation: NodeGeneration,
    /// Height of its first block.
    pub height: u64,
}

impl UpgradePlan {
    /// Name of the plan on the chain.
    pub fn name(&self) -> String {
        self.generation.as_str().to_lowercase()
    }
}

/// An upgrade cannot be planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UpgradePlanError {
    /// The chain has the block already.
    #[error("an upgrade at height {planned} comes too late: the chain is at height {newest}; choose a later height")]
    HeightPassed {
        /// Height of the plan.
        planned: u64,
        /// Newest height of the chain.
        newest: u64,
    },
    /// The chain does not run an earlier generation.
    #[error("an upgrade to {wanted} needs a chain of an earlier generation: this one is of {running}")]
    NotLater {
        /// Generation of the plan.
        wanted: NodeGeneration,
        /// Generation before the planned height.
        running: NodeGeneration,
    },
    /// A council is made by a genesis only.
    #[error("no upgrade makes a chain with governance one with a council: begin a chain of N4")]
    Council,
}

/// The upgrades of a chain in the order of their heights, one for each height.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpgradeSchedule(Vec<UpgradePlan>);

impl UpgradeSchedule {
    /// Restores upgrades that were planned or applied before.
    pub fn restore(plans: impl IntoIterator<Item = UpgradePlan>) -> Self {
        let mut schedule = Self::default();
        plans.into_iter().for_each(|plan| schedule.set(plan));
        schedule
    }

    /// All upgrades.
    pub fn plans(&self) -> &[UpgradePlan] {
        &self.0
    }

    /// Plans an upgrade of a chain that began as `first` and has the block `newest`. As on a chain there is one plan at a time: an
    /// earlier plan that is still to come is replaced. An upgrade that was applied at its height may be planned again, without effect.
    ///
    /// # Errors
    /// When no release goes on at that height as that generation.
    pub fn plan(&mut self, plan: UpgradePlan, first: NodeGeneration, newest: u64) -> Result<(), UpgradePlanError> {
        if self.0.contains(&plan) {
            return Ok(());
        }
        if plan.height <= newest {
            return Err(UpgradePlanError::HeightPassed { planned: plan.height, newest });
        }
        let running = self.generation_at(first, newest);
        if plan.generation <= running {
            return Err(UpgradePlanError::NotLater { wanted: plan.generation, running });
        }
        if plan.generation == NodeGeneration::N4 {
            return Err(UpgradePlanError::Council);
        }
        self.0.retain(|known| known.height <= newest);
        self.0.push(plan);
        Ok(())
    }

    /// Records an upgrade without a plan. Later plans are dropped.
    pub fn set(&mut self, plan: UpgradePlan) {
        self.0.retain(|known| known.height < plan.height);
        self.0.push(plan);
    }

    /// The upgrade whose first block has this height.
    pub fn at(&self, height: u64) -> Option<UpgradePlan> {
        self.0.iter().find(|plan| plan.height == height).copied()
    }

    /// The generation that makes the block of a height, on a chain that began as `first`.
    pub fn generation_at(&self, first: NodeGeneration, height: u64) -> NodeGeneration {
        self.last_until(height).map_or(first, |plan| plan.generation)
    }

    /// The upgrade without which a node of `running` cannot make the block of a height.
    pub fn needed(&self, running: NodeGeneration, height: u64) -> Option<UpgradePlan> {
        self.last_until(height).filter(|plan| plan.generation > running)
    }

    /// The plan that is to come after the block of a height.
    pub fn current(&self, height: u64) -> Option<UpgradePlan> {
        self.0.iter().find(|plan| plan.height > height).copied()
    }

    /// Height at which the upgrade of a name was applied, in the state after the block of a height.
    pub fn applied(&self, name: &str, height: u64) -> Option<u64> {
        self.0.iter().find(|plan| plan.height <= height && plan.name() == name).map(|plan| plan.height)
    }

    fn last_until(&self, height: u64) -> Option<UpgradePlan> {
        self.0.iter().rev().find(|plan| plan.height <= height).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use NodeGeneration::{N0, N1, N2, N3, N4};

    fn plan(generation: NodeGeneration, height: u64) -> UpgradePlan {
        UpgradePlan { generation, height }
    }

    #[test]
    fn a_plan_names_a_later_generation_and_a_height_that_is_still_to_come() {
        let passed = |planned, newest| Err(UpgradePlanError::HeightPassed { planned, newest });
        for (planned, first, newest, expected) in [
            (plan(N3, 20), N0, 19, Ok(())),
            (plan(N1, 1), N0, 0, Ok(())),
            (plan(N3, 20), N0, 20, passed(20, 20)),
            (plan(N3, 0), N0, 0, passed(0, 0)),
            (plan(N2, 20), N2, 5, Err(UpgradePlanError::NotLater { wanted: N2, running: N2 })),
            (plan(N1, 20), N3, 5, Err(UpgradePlanError::NotLater { wanted: N1, running: N3 })),
            (plan(N4, 20), N3, 5, Err(UpgradePlanError::Council)),
        ] {
            let mut schedule = UpgradeSchedule::default();
            assert_eq!(schedule.plan(planned, first, newest), expected, "{planned:?}");
            assert_eq!(schedule.plans().is_empty(), expected.is_err(), "{planned:?}");
        }
    }

    #[test]
    fn there_is_one_plan_at_a_time_and_an_applied_one_stays() {
        let mut schedule = UpgradeSchedule::default();
        assert_eq!(schedule.plan(plan(N1, 10), N0, 5), Ok(()));
        assert_eq!(schedule.plan(plan(N2, 12), N0, 5), Ok(()));
        assert_eq!(schedule.plans(), [plan(N2, 12)]);
        // It was applied; the process is started again with the same option.
        assert_eq!(schedule.plan(plan(N2, 12), N0, 30), Ok(()));
        let again = UpgradePlanError::NotLater { wanted: N1, running: N2 };
        assert_eq!(schedule.plan(plan(N1, 40), N0, 30), Err(again));
        assert_eq!(schedule.plan(plan(N3, 40), N0, 30), Ok(()));
        assert_eq!(schedule.plans(), [plan(N2, 12), plan(N3, 40)]);
        schedule.set(plan(N3, 31));
        assert_eq!(schedule, UpgradeSchedule::restore([plan(N2, 12), plan(N3, 31)]));
    }

    #[test]
    fn the_generation_of_a_block_and_the_need_of_another_program_follow_from_the_height() {
        let schedule = UpgradeSchedule::restore([plan(N1, 10), plan(N3, 20)]);
        for (height, generation, current, applied) in [
            (9, N0, Some(plan(N1, 10)), [None, None]),
            (10, N1, Some(plan(N3, 20)), [Some(10), None]),
            (19, N1, Some(plan(N3, 20)), [Some(10), None]),
            (20, N3, None, [Some(10), Some(20)]),
            (99, N3, None, [Some(10), Some(20)]),
        ] {
            assert_eq!(schedule.generation_at(N0, height), generation, "{height}");
            assert_eq!(schedule.current(height), current, "{height}");
            assert_eq!(["n1", "n3"].map(|name| schedule.applied(name, height)), applied, "{height}");
            assert_eq!(schedule.applied("n2", height), None);
        }
        for (running, height, needed) in [
            (N0, 9, None),
            (N0, 10, Some(plan(N1, 10))),
            (N1, 10, None),
            (N1, 20, Some(plan(N3, 20))),
            (N3, 20, None),
            // A node that was replaced by hand makes the blocks of the plan.
            (N4, 20, None),
        ] {
            assert_eq!(schedule.needed(running, height), needed, "{running} at {height}");
        }
        assert_eq!((schedule.at(20), schedule.at(21)), (Some(plan(N3, 20)), None));
    }
}
