//! What a group changes about itself, and members that leave.

use rust_decimal::Decimal;
use svc_wire::proto::cosmos::group::v1::{
    GroupInfo, GroupMember, GroupPolicyInfo, Member, MsgLeaveGroup, MsgLeaveGroupResponse, MsgUpdateGroupMembers,
    MsgUpdateGroupMembersResponse, MsgUpdateGroupMetadata, MsgUpdateGroupMetadataResponse,
    MsgUpdateGroupPolicyDecisionPolicy, MsgUpdateGroupPolicyDecisionPolicyResponse, MsgUpdateGroupPolicyMetadata,
    MsgUpdateGroupPolicyMetadataResponse, Proposal, ProposalStatus,
};

use super::{
    drop_votes, group_error, invalid, load_policy, metadata_fits, not_found,
    policy::{Policy, positive, weight},
    typed, unauthorized,
};
use crate::ledger::{error::LedgerError, exec::Exec, validate};

/// The group of a policy account that administers itself.
fn administered(exec: &Exec<'_>, group_id: u64, admin: &str) -> Result<GroupInfo, LedgerError> {
    let group = exec.state.groups.get(&group_id, exec.gas).cloned().ok_or_else(|| not_found("load group"))?;
    if group.admin != admin {
        return Err(unauthorized("not group admin"));
    }
    Ok(group)
}

fn store_group(exec: &mut Exec<'_>, mut group: GroupInfo) {
    group.version += 1;
    exec.events.push(typed("EventUpdateGroup", vec![("group_id", group.id.to_string().into())]));
    exec.state.groups.put(group.id, group, exec.gas);
}

/// Adds, changes and, with weight 0, removes members.
pub fn update_members(
    exec: &mut Exec<'_>,
    message: MsgUpdateGroupMembers,
) -> Result<MsgUpdateGroupMembersResponse, LedgerError> {
    let mut group = administered(exec, message.group_id, &message.admin)?;
    if message.member_updates.is_empty() {
        return Err(group_error(2, "member updates", "value is empty"));
    }
    let mut total = weight(&group.total_weight);
    for update in message.member_updates {
        validate::address(&exec.chain.prefix, "member", &update.address)?;
        metadata_fits(&update.metadata)?;
        let key = (group.id, update.address.clone());
        let before = exec.state.group_members.get(&key, exec.gas).and_then(|one| one.member.clone());
        total -= before.as_ref().map_or(Decimal::ZERO, |member| weight(&member.weight));
        let is_removal = update.weight.parse::<Decimal>().is_ok_and(|weight| weight.is_zero());
        if is_removal {
            if before.is_none() {
                return Err(not_found(format!("unknown member {}", update.address)));
            }
            exec.state.group_members.remove(&key, exec.gas);
            continue;
        }
        total += positive("weight", &update.weight)?;
        let member = Member {
            address: update.address,
            weight: update.weight,
            metadata: update.metadata,
            added_at: before.and_then(|member| member.added_at).or(Some(exec.now())),
        };
        exec.state.group_members.put(key, GroupMember { group_id: group.id, member: Some(member) }, exec.gas);
    }
    group.total_weight = total.normalize().to_string();
    store_group(exec, group);
    Ok(MsgUpdateGroupMembersResponse {})
}

pub fn update_metadata(
    exec: &mut Exec<'_>,
    message: MsgUpdateGroupMetadata,
) -> Result<MsgUpdateGroupMetadataResponse, LedgerError> {
    let mut group = administered(exec, message.group_id, &message.admin)?;
    metadata_fits(&message.metadata)?;
    group.metadata = message.metadata;
    store_group(exec, group);
    Ok(MsgUpdateGroupMetadataResponse {})
}

/// Changes a policy that its own account administers, and voids open proposals made under the old one.
fn update_policy(
    exec: &mut Exec<'_>,
    admin: &str,
    address: &str,
    change: impl FnOnce(&mut GroupPolicyInfo),
) -> Result<(), LedgerError> {
    let (mut policy, _, _) = load_policy(exec, address)?;
    if policy.admin != admin {
        return Err(unauthorized("not group policy admin"));
    }
    change(&mut policy);
    policy.version += 1;
    exec.state.group_policies.put(address.to_owned(), policy, exec.gas);
    exec.events.push(typed("EventUpdateGroupPolicy", vec![("address", address.into())]));
    let is_open = |one: &&Proposal| one.group_policy_address == address && one.status() == ProposalStatus::Submitted;
    let open: Vec<Proposal> = exec.state.proposals.values().filter(is_open).cloned().collect();
    for mut proposal in open {
        proposal.set_status(ProposalStatus::Aborted);
        drop_votes(exec, proposal.id);
        exec.state.proposals.put(proposal.id, proposal, exec.gas);
    }
    Ok(())
}

pub fn update_decision_policy(
    exec: &mut Exec<'_>,
    message: MsgUpdateGroupPolicyDecisionPolicy,
) -> Result<MsgUpdateGroupPolicyDecisionPolicyResponse, LedgerError> {
    let packed = message.decision_policy.unwrap_or_default();
    Policy::read(&packed)?.ok_or_else(|| invalid("unknown decision policy"))?;
    update_policy(exec, &message.admin, &message.group_policy_address, |policy| policy.decision_policy = Some(packed))?;
    Ok(MsgUpdateGroupPolicyDecisionPolicyResponse {})
}

pub fn update_policy_metadata(
    exec: &mut Exec<'_>,
    message: MsgUpdateGroupPolicyMetadata,
) -> Result<MsgUpdateGroupPolicyMetadataResponse, LedgerError> {
    metadata_fits(&message.metadata)?;
    update_policy(exec, &message.admin, &message.group_policy_address, |policy| policy.metadata = message.metadata)?;
    Ok(MsgUpdateGroupPolicyMetadataResponse {})
}

pub fn leave(exec: &mut Exec<'_>, message: MsgLeaveGroup) -> Result<MsgLeaveGroupResponse, LedgerError> {
    let found = exec.state.groups.get(&message.group_id, exec.gas).cloned();
    let mut group = found.ok_or_else(|| not_found("load group"))?;
    let key = (group.id, message.address.clone());
    let Some(left) = exec.state.group_members.remove(&key, exec.gas).and_then(|one| one.member) else {
        return Err(not_found(format!("{} is not part of group {}", message.address, group.id)));
    };
    group.total_weight = (weight(&group.total_weight) - weight(&left.weight)).normalize().to_string();
    let id = group.id.to_string();
    store_group(exec, group);
    exec.events.push(typed("EventLeaveGroup", vec![("group_id", id.into()), ("address", message.address.into())]));
    Ok(MsgLeaveGroupResponse {})
}
