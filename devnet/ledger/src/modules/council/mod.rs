//! The council of validators, which has the place of governance on the newest nodes: a group that exists before the first block, anchors
//! no corporation, and administers itself.

mod guard;
mod validators;

use prost_types::Duration;
use svc_wire::{
    address::{Address, group_policy_address},
    proto::cosmos::group::v1::{DecisionPolicyWindows, GroupPolicyInfo, PercentageDecisionPolicy},
};

pub use guard::guard;
pub use validators::{add_validator, remove_validator, self_remove_validator};

use super::group::{self, NewMember, PERCENTAGE};
use crate::{chain::ChainConfig, context::ExecContext, error::LedgerError, state::LedgerState, values::any::pack_any};

/// Id of the group, and the sequence from which the address of its policy is derived.
pub const COUNCIL_GROUP: u64 = 1;
/// Share of the seats that accepts a proposal: two thirds, rounded up to whole seats.
const NEEDED_SHARE: &str = "0.6666";
/// Shortest time between a proposal and its execution.
const MIN_EXECUTION_SECONDS: i64 = 10;

/// Makes the council, with a seat for each of these addresses. The state must have no group yet.
pub fn found(exec: &mut ExecContext<'_>, members: Vec<String>, voting_seconds: i64) -> Result<(), LedgerError> {
    let span = |seconds| Some(Duration { seconds, nanos: 0 });
    let policy = PercentageDecisionPolicy {
        percentage: NEEDED_SHARE.to_owned(),
        windows: Some(DecisionPolicyWindows {
            voting_period: span(voting_seconds),
            min_execution_period: span(MIN_EXECUTION_SECONDS),
        }),
    };
    let seat = |address| NewMember { address, weight: "1".to_owned(), metadata: String::new() };
    let members = members.into_iter().map(seat).collect();
    group::create_with_policy(exec, members, "council", "council", &pack_any(PERCENTAGE, &policy))?;
    Ok(())
}

/// The policy of the council. A chain that began without a council has none, and its first group is that of a corporation.
pub fn policy<'a>(state: &'a LedgerState, chain: &ChainConfig) -> Option<&'a GroupPolicyInfo> {
    if !chain.has_council() {
        return None;
    }
    let address = Address::from_bytes(&chain.prefix, &group_policy_address(COUNCIL_GROUP)).ok()?.to_string();
    let found = state.group_policies.peek(&address).filter(|policy| policy.group_id == COUNCIL_GROUP)?;
    state.corporation_by_address.peek(&address).is_none().then_some(found)
}

/// The addresses with a seat.
fn seats(state: &LedgerState) -> Vec<String> {
    let of_council = state.group_members.values().filter(|member| member.group_id == COUNCIL_GROUP);
    of_council.filter_map(|member| member.member.as_ref().map(|member| member.address.clone())).collect()
}
