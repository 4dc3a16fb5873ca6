//! Stored proposals, policies and votes, and the typed events of their changes.

use svc_wire::proto::cosmos::group::v1::{GroupInfo, GroupPolicyInfo, Proposal};

use super::{
    error::{invalid, not_found},
    policy::DecisionPolicy,
};
use crate::{
    context::{ExecContext, LedgerEvent},
    error::LedgerError,
};

/// Returns a typed event: values are JSON, attributes are sorted by key.
pub fn typed_event(name: &str, mut attributes: Vec<(&str, serde_json::Value)>) -> LedgerEvent {
    attributes.sort_by_key(|(key, _)| *key);
    LedgerEvent {
        kind: format!("cosmos.group.v1.{name}"),
        attributes: attributes.into_iter().map(|(key, value)| (key.to_owned(), value.to_string())).collect(),
    }
}

pub fn load_proposal(exec: &ExecContext<'_>, id: u64) -> Result<Proposal, LedgerError> {
    exec.state.proposals.get(&id, exec.gas).cloned().ok_or_else(|| not_found(format!("load proposal: proposal {id}")))
}

/// A stored group policy with its decoded decision policy and its group.
pub struct LoadedPolicy {
    pub info: GroupPolicyInfo,
    pub policy: DecisionPolicy,
    pub group: GroupInfo,
}

pub fn load_policy(exec: &ExecContext<'_>, address: &str) -> Result<LoadedPolicy, LedgerError> {
    let info = exec.state.group_policies.get(&address.to_owned(), exec.gas).cloned();
    let info = info.ok_or_else(|| not_found("load group policy"))?;
    let packed = info.decision_policy.clone().unwrap_or_default();
    let policy = DecisionPolicy::decode(&packed)?.ok_or_else(|| invalid("unknown decision policy"))?;
    let group = exec.state.groups.get(&info.group_id, exec.gas).cloned().ok_or_else(|| not_found("load group"))?;
    Ok(LoadedPolicy { info, policy, group })
}

pub fn drop_votes(exec: &mut ExecContext<'_>, id: u64) {
    let voters = (id, String::new())..(id + 1, String::new());
    let keys: Vec<_> = exec.state.votes.range(voters).map(|(key, _)| key.clone()).collect();
    for key in keys {
        exec.state.votes.remove(&key, exec.gas);
    }
}
