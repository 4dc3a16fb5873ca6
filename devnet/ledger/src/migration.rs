//! The state at an upgrade: the first block of a release begins with the state of the one before, in the form that it knows.

use svc_wire::proto_registry::NodeGeneration;

use crate::{context::ExecContext, modules::de, params::ModuleParams};

/// Brings the state to a generation. Values that it keeps stay as they are, also those for which a new chain would have another default.
pub fn apply(exec: &mut ExecContext<'_>, generation: NodeGeneration) {
    if generation >= NodeGeneration::N1 {
        exec.state.schema_policies = Default::default();
        exec.state.next_schema_policy = 0;
    }
    if generation >= NodeGeneration::N2 {
        drop_old_params(exec, generation);
    }
    if !generation.has_own_record_limits() {
        de::vs::migrate_to_spend_cycles(exec);
    }
}

/// Parameters that are gone have the value of a new chain, where the rules still name them.
fn drop_old_params(exec: &mut ExecContext<'_>, generation: NodeGeneration) {
    let ModuleParams { ec, pp, td, .. } = ModuleParams::of_generation(generation);
    let params = &mut exec.state.params;
    (params.ec, params.pp) = (ec, pp);
    params.td.trust_deposit_reclaim_burn_rate = td.trust_deposit_reclaim_burn_rate;
}
