//! The ante decorator of a node with a council, which runs before all others: it refuses the messages of staking that would make stake
//! decide again, and the changes by which the council would lose itself.

use prost::Message;
use prost_types::Any;
use rust_decimal::Decimal;
use svc_wire::proto::cosmos::{
    authz::v1beta1::MsgExec,
    group::v1::{
        MsgLeaveGroup, MsgSubmitProposal, MsgUpdateGroupMembers, MsgUpdateGroupPolicyDecisionPolicy,
        PercentageDecisionPolicy,
    },
};

use super::{COUNCIL_GROUP, NEEDED_SHARE, policy, seats};
use crate::{context::ExecContext, error::LedgerError, modules::group::PERCENTAGE, state::LedgerState};

/// Depth at which the SDK stops to unpack messages inside of messages.
const MAX_DEPTH: usize = 10;
const STAKING: &str = "/cosmos.staking.v1beta1.";
const STAKING_REFUSED: [&str; 5] =
    ["MsgDelegate", "MsgUndelegate", "MsgBeginRedelegate", "MsgCancelUnbondingDelegation", "MsgCreateValidator"];
const AUTHZ_EXEC: &str = "/cosmos.authz.v1beta1.MsgExec";
const GROUP: &str = "/cosmos.group.v1.";

/// The members of `MsgUpdateGroupAdmin`.
#[derive(Clone, PartialEq, Message)]
struct UpdateGroupAdmin {
    #[prost(string, tag = "1")]
    admin: String,
    #[prost(uint64, tag = "2")]
    group_id: u64,
    #[prost(string, tag = "3")]
    new_admin: String,
}

/// The members of `MsgUpdateGroupPolicyAdmin`.
#[derive(Clone, PartialEq, Message)]
struct UpdatePolicyAdmin {
    #[prost(string, tag = "1")]
    admin: String,
    #[prost(string, tag = "2")]
    group_policy_address: String,
    #[prost(string, tag = "3")]
    new_admin: String,
}

/// Refuses the messages that a node with a council never runs, at the top and inside of others.
pub fn guard(exec: &ExecContext<'_>, messages: &[Any]) -> Result<(), LedgerError> {
    if !exec.chain.has_council() {
        return Ok(());
    }
    let council = policy(exec.state, exec.chain).map(|policy| policy.address.as_str());
    refuse(exec.state, council, messages, 0)
}

fn refuse(state: &LedgerState, council: Option<&str>, messages: &[Any], depth: usize) -> Result<(), LedgerError> {
    if depth > MAX_DEPTH {
        return Err(LedgerError::sdk(2, "max depth exceeded"));
    }
    for message in messages {
        let url = message.type_url.as_str();
        if url.strip_prefix(STAKING).is_some_and(|name| STAKING_REFUSED.contains(&name)) {
            return Err(LedgerError::new("poa", 9, url));
        }
        if let Some(council) = council
            && let Some(reason) = breach_of(state, council, message)?
        {
            return Err(LedgerError::new("poa", 12, reason));
        }
        let inner = match url.strip_prefix(GROUP) {
            Some("MsgSubmitProposal") => unpack::<MsgSubmitProposal>(message)?.messages,
            None if url == AUTHZ_EXEC => unpack::<MsgExec>(message)?.msgs,
            _ => continue,
        };
        refuse(state, council, &inner, depth + 1)?;
    }
    Ok(())
}

/// In which way a message would take the council out of its own hands, or would leave it without a seat.
fn breach_of(state: &LedgerState, council: &str, message: &Any) -> Result<Option<&'static str>, LedgerError> {
    let Some(name) = message.type_url.strip_prefix(GROUP) else { return Ok(None) };
    Ok(match name {
        "MsgUpdateGroupAdmin" => {
            let change = unpack::<UpdateGroupAdmin>(message)?;
            (change.group_id == COUNCIL_GROUP && change.new_admin != council)
                .then_some("council group admin must be the council policy")
        }
        "MsgUpdateGroupPolicyAdmin" => {
            let change = unpack::<UpdatePolicyAdmin>(message)?;
            (change.group_policy_address == council && change.new_admin != council)
                .then_some("council policy admin must be the council policy")
        }
        "MsgUpdateGroupPolicyDecisionPolicy" => {
            let change = unpack::<MsgUpdateGroupPolicyDecisionPolicy>(message)?;
            (change.group_policy_address == council && !is_two_thirds(change.decision_policy.as_ref()))
                .then_some("council decision policy must be a percentage of at least 0.6666")
        }
        "MsgUpdateGroupMembers" => {
            let change = unpack::<MsgUpdateGroupMembers>(message)?;
            if change.group_id == COUNCIL_GROUP { breach_of_members(state, &change) } else { None }
        }
        "MsgLeaveGroup" => {
            let leave = unpack::<MsgLeaveGroup>(message)?;
            let is_last = leave.group_id == COUNCIL_GROUP && seats(state) == [leave.address];
            is_last.then_some("the last council member cannot leave")
        }
        _ => None,
    })
}

fn breach_of_members(state: &LedgerState, change: &MsgUpdateGroupMembers) -> Option<&'static str> {
    let mut left = seats(state);
    for update in &change.member_updates {
        left.retain(|seat| *seat != update.address);
        match update.weight.parse::<Decimal>() {
            Ok(weight) if weight.is_zero() => {}
            Ok(weight) if weight == Decimal::ONE => left.push(update.address.clone()),
            _ => return Some("council member weight must be 0 or 1"),
        }
    }
    left.is_empty().then_some("council must have a member")
}

fn is_two_thirds(packed: Option<&Any>) -> bool {
    let policy = packed.filter(|packed| packed.type_url == PERCENTAGE);
    let policy = policy.and_then(|packed| PercentageDecisionPolicy::decode(packed.value.as_slice()).ok());
    let (share, needed) = (policy.and_then(|policy| policy.percentage.parse::<Decimal>().ok()), NEEDED_SHARE.parse());
    share.is_some_and(|share| needed.is_ok_and(|needed: Decimal| share >= needed))
}

fn unpack<M: Message + Default>(message: &Any) -> Result<M, LedgerError> {
    M::decode(message.value.as_slice()).map_err(|error| LedgerError::sdk(2, error))
}
