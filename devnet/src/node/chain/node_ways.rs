//! The ways of a real node that faults bring about: its price of gas, its start, and results that come behind their block.

use std::time::Duration;

use svc_wire::proto_registry::NodeGeneration;

use super::core::NodeCore;

impl NodeCore {
    /// Version of the application, as it is stated: that of this program, and the generation of an emulated later one.
    pub fn application_version(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        match self.chain.generation {
            NodeGeneration::N0 => version.to_owned(),
            generation => format!("{version}-{}", generation.as_str().to_lowercase()),
        }
    }

    /// Sets the minimum price of gas, which a fault may change.
    pub(in crate::node) fn apply_gas_price(&mut self) {
        let usual = self.genesis.chain.min_gas_price_micros;
        self.chain.min_gas_price_micros = self.faults.gas_price_micros.unwrap_or(usual);
    }

    /// The node starts: until its next block a real one verifies signatures otherwise.
    pub(in crate::node) fn note_start(&mut self) {
        self.faults.has_just_started |= self.faults.starts_like_a_node && self.height() > 0;
    }

    /// Whether the results of a block are still to come.
    pub(in crate::node) fn lacks_results(&self, height: u64) -> bool {
        let (late, newest) = (Duration::from_millis(self.faults.late_results_ms), self.height());
        height == newest && self.newest_at.is_some_and(|at| at.elapsed() < late)
    }
}
