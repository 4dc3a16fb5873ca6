//! Creation of a group with its policy.

use prost_types::Any;
use rust_decimal::Decimal;
use svc_wire::{
    address::{Address, group_policy_address},
    proto::cosmos::group::v1::{GroupInfo, GroupMember, GroupPolicyInfo, Member},
};

use super::{
    error::{ensure_metadata_fits, group_error, invalid},
    policy::{DecisionPolicy, parse_positive},
    store::typed_event,
};
use crate::{context::ExecContext, error::LedgerError, modules::auth, state::next_id};

/// A member of a new group.
pub struct NewMember {
    pub address: String,
    pub weight: String,
    pub metadata: String,
}

/// Creates a group and a policy, both administered by the policy account; returns the policy address.
pub fn create_with_policy(
    exec: &mut ExecContext<'_>,
    members: Vec<NewMember>,
    group_metadata: &str,
    policy_metadata: &str,
    decision_policy: &Any,
) -> Result<String, LedgerError> {
    for metadata in members.iter().map(|member| member.metadata.as_str()).chain([group_metadata, policy_metadata]) {
        ensure_metadata_fits(metadata)?;
    }
    DecisionPolicy::decode(decision_policy)?.ok_or_else(|| invalid("unknown decision policy"))?;
    let (group_id, now) = (next_id(&mut exec.state.next_group), exec.block_time());
    let counter = next_id(&mut exec.state.next_group_policy);
    let address = Address::from_bytes(&exec.chain.prefix, &group_policy_address(counter))
        .map_err(|error| LedgerError::sdk(7, error))?
        .to_string();
    auth::ensure_account(exec.state, &address, exec.gas);
    let mut total = Decimal::ZERO;
    for member in members {
        let member_weight = parse_positive("weight", &member.weight)?;
        let key = (group_id, member.address.clone());
        if exec.state.group_members.contains(&key, exec.gas) {
            return Err(group_error(3, format!("member {} repeats", member.address), "duplicate value"));
        }
        total += member_weight;
        let member =
            Member { address: member.address, weight: member.weight, metadata: member.metadata, added_at: Some(now) };
        exec.state.group_members.put(key, GroupMember { group_id, member: Some(member) }, exec.gas);
    }
    let info = GroupInfo {
        id: group_id,
        admin: address.clone(),
        metadata: group_metadata.to_owned(),
        version: 1,
        total_weight: total.normalize().to_string(),
        created_at: Some(now),
    };
    exec.state.groups.put(group_id, info, exec.gas);
    let policy = GroupPolicyInfo {
        address: address.clone(),
        group_id,
        admin: address.clone(),
        metadata: policy_metadata.to_owned(),
        version: 1,
        decision_policy: Some(decision_policy.clone()),
        created_at: Some(now),
    };
    exec.state.group_policies.put(address.clone(), policy, exec.gas);
    exec.events.push(typed_event("EventCreateGroup", vec![("group_id", group_id.to_string().into())]));
    exec.events.push(typed_event("EventCreateGroupPolicy", vec![("address", address.as_str().into())]));
    // Both admins move from the creator to the policy account.
    exec.events.push(typed_event("EventUpdateGroup", vec![("group_id", group_id.to_string().into())]));
    exec.events.push(typed_event("EventUpdateGroupPolicy", vec![("address", address.as_str().into())]));
    Ok(address)
}
