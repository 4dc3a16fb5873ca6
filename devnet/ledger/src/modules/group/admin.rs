//! Messages on the group itself: members, metadata, decision policy, leave.

use rust_decimal::Decimal;
use svc_wire::proto::cosmos::group::v1::{
    GroupInfo, GroupMember, GroupPolicyInfo, Member, MsgLeaveGroup, MsgLeaveGroupResponse, MsgUpdateGroupMembers,
    MsgUpdateGroupMembersResponse, MsgUpdateGroupMetadata, MsgUpdateGroupMetadataResponse,
    MsgUpdateGroupPolicyDecisionPolicy, MsgUpdateGroupPolicyDecisionPolicyResponse, MsgUpdateGroupPolicyMetadata,
    MsgUpdateGroupPolicyMetadataResponse, Proposal, ProposalStatus,
};

use super::{
    error::{ensure_metadata_fits, group_error, invalid, not_found, unauthorized},
    policy::{DecisionPolicy, parse_positive, parse_weight},
    store::{drop_votes, load_policy, typed_event},
};
use crate::{context::ExecContext, error::LedgerError, values::validate};

/// Loads a group; fails unless `admin` administers it.
fn load_administered_group(exec: &ExecContext<'_>, group_id: u64, admin: &str) -> Result<GroupInfo, LedgerError> {
    let group = exec.state.groups.get(&group_id, exec.gas).cloned().ok_or_else(|| not_found("load group"))?;
    if group.admin != admin {
        return Err(unauthorized("not group admin"));
    }
    Ok(group)
}

fn store_group(exec: &mut ExecContext<'_>, mut group: GroupInfo) {
    group.version += 1;
    exec.events.push(typed_event("EventUpdateGroup", vec![("group_id", group.id.to_string().into())]));
    exec.state.groups.put(group.id, group, exec.gas);
}

/// Adds and changes members; a weight of 0 removes a member.
pub fn update_members(
    exec: &mut ExecContext<'_>,
    message: MsgUpdateGroupMembers,
) -> Result<MsgUpdateGroupMembersResponse, LedgerError> {
    let mut group = load_administered_group(exec, message.group_id, &message.admin)?;
    if message.member_updates.is_empty() {
        return Err(group_error(2, "member updates", "value is empty"));
    }
    let mut total = parse_weight(&group.total_weight);
    for update in message.member_updates {
        validate::address(&exec.chain.prefix, "member", &update.address)?;
        ensure_metadata_fits(&update.metadata)?;
        let key = (group.id, update.address.clone());
        let before = exec.state.group_members.get(&key, exec.gas).and_then(|one| one.member.clone());
        total -= before.as_ref().map_or(Decimal::ZERO, |member| parse_weight(&member.weight));
        let is_removal = update.weight.parse::<Decimal>().is_ok_and(|weight| weight.is_zero());
        if is_removal {
            if before.is_none() {
                return Err(not_found(format!("unknown member {}", update.address)));
            }
            exec.state.group_members.remove(&key, exec.gas);
            continue;
        }
        total += parse_positive("weight", &update.weight)?;
        let member = Member {
            address: update.address,
            weight: update.weight,
            metadata: update.metadata,
            added_at: before.and_then(|member| member.added_at).or(Some(exec.block_time())),
        };
        exec.state.group_members.put(key, GroupMember { group_id: group.id, member: Some(member) }, exec.gas);
    }
    group.total_weight = total.normalize().to_string();
    store_group(exec, group);
    Ok(MsgUpdateGroupMembersResponse {})
}

pub fn update_metadata(
    exec: &mut ExecContext<'_>,
    message: MsgUpdateGroupMetadata,
) -> Result<MsgUpdateGroupMetadataResponse, LedgerError> {
    let mut group = load_administered_group(exec, message.group_id, &message.admin)?;
    ensure_metadata_fits(&message.metadata)?;
    group.metadata = message.metadata;
    store_group(exec, group);
    Ok(MsgUpdateGroupMetadataResponse {})
}

/// Changes a policy that its own account administers, and aborts the open proposals under the old one.
fn update_policy(
    exec: &mut ExecContext<'_>,
    admin: &str,
    address: &str,
    change: impl FnOnce(&mut GroupPolicyInfo),
) -> Result<(), LedgerError> {
    let mut policy = load_policy(exec, address)?.info;
    if policy.admin != admin {
        return Err(unauthorized("not group policy admin"));
    }
    change(&mut policy);
    policy.version += 1;
    exec.state.group_policies.put(address.to_owned(), policy, exec.gas);
    exec.events.push(typed_event("EventUpdateGroupPolicy", vec![("address", address.into())]));
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
    exec: &mut ExecContext<'_>,
    message: MsgUpdateGroupPolicyDecisionPolicy,
) -> Result<MsgUpdateGroupPolicyDecisionPolicyResponse, LedgerError> {
    let packed = message.decision_policy.unwrap_or_default();
    DecisionPolicy::decode(&packed)?.ok_or_else(|| invalid("unknown decision policy"))?;
    update_policy(exec, &message.admin, &message.group_policy_address, |policy| policy.decision_policy = Some(packed))?;
    Ok(MsgUpdateGroupPolicyDecisionPolicyResponse {})
}

pub fn update_policy_metadata(
    exec: &mut ExecContext<'_>,
    message: MsgUpdateGroupPolicyMetadata,
) -> Result<MsgUpdateGroupPolicyMetadataResponse, LedgerError> {
    ensure_metadata_fits(&message.metadata)?;
    update_policy(exec, &message.admin, &message.group_policy_address, |policy| policy.metadata = message.metadata)?;
    Ok(MsgUpdateGroupPolicyMetadataResponse {})
}

pub fn leave(exec: &mut ExecContext<'_>, message: MsgLeaveGroup) -> Result<MsgLeaveGroupResponse, LedgerError> {
    let found = exec.state.groups.get(&message.group_id, exec.gas).cloned();
    let mut group = found.ok_or_else(|| not_found("load group"))?;
    let key = (group.id, message.address.clone());
    let Some(left) = exec.state.group_members.remove(&key, exec.gas).and_then(|one| one.member) else {
        return Err(not_found(format!("{} is not part of group {}", message.address, group.id)));
    };
    group.total_weight = (parse_weight(&group.total_weight) - parse_weight(&left.weight)).normalize().to_string();
    let id = group.id.to_string();
    store_group(exec, group);
    exec.events
        .push(typed_event("EventLeaveGroup", vec![("group_id", id.into()), ("address", message.address.into())]));
    Ok(MsgLeaveGroupResponse {})
}
