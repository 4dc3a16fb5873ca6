//! The form of a module's genesis state in a generation. The ledger reads and writes that of the first one.

use serde_json::{Value, json};
use svc_wire::proto_registry::NodeGeneration;

use crate::modules::de::FEE_PERIOD;

/// Members of the genesis of credential schemas that the first generation alone has.
const POLICIES: [&str; 2] = ["schema_authorization_policies", "schema_authorization_policy_counter"];
/// Parameters of trust deposits that later generations do not have.
const OLD_DEPOSIT_PARAMS: [&str; 2] = ["trust_deposit_reclaim_burn_rate", "yield_intermediate_pool"];
const FEE_PERIOD_PARAM: &str = "vs_operator_fee_period";
/// Ends of fee periods that a node has queued. The ledger looks for ends at each block, and has no queue.
const WINDOW_ENDS: &str = "window_end_queue";

/// Brings the part of a module to the form of a generation.
pub(super) fn of_generation(module: &str, part: &mut Value, generation: NodeGeneration) {
    match module {
        "ec" | "pp" if generation >= NodeGeneration::N2 => part["params"] = json!({}),
        "td" if generation >= NodeGeneration::N2 => remove(&mut part["params"], &OLD_DEPOSIT_PARAMS),
        "de" if !generation.has_own_record_limits() => {
            part["params"] = json!({FEE_PERIOD_PARAM: format!("{}s", FEE_PERIOD.seconds)});
            part[WINDOW_ENDS] = json!([]);
        }
        _ => {}
    }
    remove_old_members(module, part, generation);
}

/// Brings the part of a module from the form of a generation to that of the first one. Members that are gone stay absent.
pub(super) fn to_first(module: &str, part: &mut Value, generation: NodeGeneration) {
    if module == "de" {
        remove(part, &[WINDOW_ENDS]);
        if let Some(params) = part.get_mut("params") {
            remove(params, &[FEE_PERIOD_PARAM]);
        }
    }
    remove_old_members(module, part, generation);
}

fn remove_old_members(module: &str, part: &mut Value, generation: NodeGeneration) {
    match module {
        "cs" if generation >= NodeGeneration::N1 => remove(part, &POLICIES),
        "de" if !generation.has_own_record_limits() => {
            let authorizations = members_of(part, "vs_operator_authorizations").into_iter();
            for record in authorizations.flat_map(|one| members_of(one, "records")) {
                remove(record, &["remaining_fee_spend"]);
            }
        }
        _ => {}
    }
}

fn remove(part: &mut Value, names: &[&str]) {
    if let Some(members) = part.as_object_mut() {
        members.retain(|name, _| !names.contains(&name.as_str()));
    }
}

fn members_of<'a>(part: &'a mut Value, name: &str) -> Vec<&'a mut Value> {
    part.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten().collect()
}
