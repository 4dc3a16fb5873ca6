//! x/group: the group behind each corporation, its proposals and votes.

mod admin;
mod policy;

use prost_types::Any;
use rust_decimal::Decimal;
use svc_wire::{
    account::{Address, group_policy},
    instant,
    proto::cosmos::group::v1::{
        Exec as TryExec, GroupInfo, GroupMember, GroupPolicyInfo, Member, MsgExec, MsgExecResponse, MsgSubmitProposal,
        MsgSubmitProposalResponse, MsgVote, MsgVoteResponse, MsgWithdrawProposal, MsgWithdrawProposalResponse,
        Proposal, ProposalExecutorResult, ProposalStatus, TallyResult, Vote, VoteOption,
    },
};

use super::{auth, run};
use crate::ledger::{
    error::LedgerError,
    exec::{Chain, Event, Exec},
    gas::Gas,
    state::{State, next},
    validate,
};
pub use admin::{leave, update_decision_policy, update_members, update_metadata, update_policy_metadata};
use policy::{Policy, positive, weight};

const THRESHOLD: &str = "/cosmos.group.v1.ThresholdDecisionPolicy";
const PERCENTAGE: &str = "/cosmos.group.v1.PercentageDecisionPolicy";
const MAX_METADATA_BYTES: usize = 255;

fn group_error(code: u32, text: impl std::fmt::Display, root: &str) -> LedgerError {
    LedgerError::new("group", code, format!("{text}: {root}"))
}

fn invalid(text: impl std::fmt::Display) -> LedgerError {
    group_error(6, text, "invalid value")
}

fn unauthorized(text: impl std::fmt::Display) -> LedgerError {
    group_error(7, text, "unauthorized")
}

fn not_found(text: impl std::fmt::Display) -> LedgerError {
    LedgerError::sdk(38, text)
}

/// A typed event: values are JSON, attributes sorted by key.
fn typed(name: &str, mut attributes: Vec<(&str, serde_json::Value)>) -> Event {
    attributes.sort_by_key(|(key, _)| *key);
    Event {
        kind: format!("cosmos.group.v1.{name}"),
        attributes: attributes.into_iter().map(|(key, value)| (key.to_owned(), value.to_string())).collect(),
    }
}

/// A member as a request names it.
pub struct NewMember {
    pub address: String,
    pub weight: String,
    pub metadata: String,
}

/// Creates a group whose policy account administers both group and policy; yields the policy address.
pub fn create_with_policy(
    exec: &mut Exec<'_>,
    members: Vec<NewMember>,
    group_metadata: &str,
    policy_metadata: &str,
    decision_policy: &Any,
) -> Result<String, LedgerError> {
    for metadata in members.iter().map(|member| member.metadata.as_str()).chain([group_metadata, policy_metadata]) {
        metadata_fits(metadata)?;
    }
    Policy::read(decision_policy)?.ok_or_else(|| invalid("unknown decision policy"))?;
    let (group_id, now) = (next(&mut exec.state.next_group), exec.now());
    let counter = next(&mut exec.state.next_group_policy);
    let address = Address::from_bytes(&exec.chain.prefix, &group_policy(counter))
        .map_err(|error| LedgerError::sdk(7, error))?
        .to_string();
    auth::ensure_account(exec.state, &address, exec.gas);
    let mut total = Decimal::ZERO;
    for member in members {
        let member_weight = positive("weight", &member.weight)?;
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
    exec.events.push(typed("EventCreateGroup", vec![("group_id", group_id.to_string().into())]));
    exec.events.push(typed("EventCreateGroupPolicy", vec![("address", address.as_str().into())]));
    // Both admins move from the creator to the policy account.
    exec.events.push(typed("EventUpdateGroup", vec![("group_id", group_id.to_string().into())]));
    exec.events.push(typed("EventUpdateGroupPolicy", vec![("address", address.as_str().into())]));
    Ok(address)
}

pub fn validate_submit(chain: &Chain, message: &MsgSubmitProposal) -> Result<(), LedgerError> {
    validate::address(&chain.prefix, "group policy", &message.group_policy_address)?;
    if message.proposers.is_empty() {
        return Err(group_error(2, "proposers", "value is empty"));
    }
    for proposer in &message.proposers {
        validate::address(&chain.prefix, "proposer", proposer)?;
    }
    message.messages.iter().try_for_each(|inner| super::validate(chain, inner))
}

pub fn submit(exec: &mut Exec<'_>, message: MsgSubmitProposal) -> Result<MsgSubmitProposalResponse, LedgerError> {
    let (policy_info, policy, group) = load_policy(exec, &message.group_policy_address)?;
    for proposer in &message.proposers {
        if !exec.state.group_members.contains(&(group.id, proposer.clone()), exec.gas) {
            return Err(unauthorized(format!("not in group: {proposer}")));
        }
    }
    for inner in &message.messages {
        let signers =
            exec.chain.registry.signers(&inner.type_url, &inner.value).map_err(|error| LedgerError::sdk(2, error))?;
        if signers != [message.group_policy_address.as_str()] {
            return Err(unauthorized("msg does not have group policy authorization"));
        }
    }
    let (id, now) = (next(&mut exec.state.next_proposal), exec.now());
    let proposal = Proposal {
        id,
        group_policy_address: message.group_policy_address.clone(),
        metadata: message.metadata.clone(),
        proposers: message.proposers.clone(),
        submit_time: Some(now),
        group_version: group.version,
        group_policy_version: policy_info.version,
        status: ProposalStatus::Submitted.into(),
        final_tally_result: Some(empty_tally()),
        voting_period_end: Some(instant::from_nanos(instant::nanos(&now) + policy.voting_nanos)),
        executor_result: ProposalExecutorResult::NotRun.into(),
        messages: message.messages.clone(),
        title: message.title.clone(),
        summary: message.summary.clone(),
    };
    exec.state.proposals.put(id, proposal, exec.gas);
    exec.events.push(typed("EventSubmitProposal", vec![("proposal_id", id.to_string().into())]));
    if message.exec() == TryExec::Try {
        for proposer in &message.proposers {
            cast(exec, id, proposer, VoteOption::Yes, "")?;
        }
        execute(exec, id)?;
    }
    Ok(MsgSubmitProposalResponse { proposal_id: id })
}

pub fn vote(exec: &mut Exec<'_>, message: MsgVote) -> Result<MsgVoteResponse, LedgerError> {
    cast(exec, message.proposal_id, &message.voter, message.option(), &message.metadata)?;
    if message.exec() == TryExec::Try {
        execute(exec, message.proposal_id)?;
    }
    Ok(MsgVoteResponse {})
}

pub fn exec(exec: &mut Exec<'_>, message: MsgExec) -> Result<MsgExecResponse, LedgerError> {
    let result = execute(exec, message.proposal_id)?;
    Ok(MsgExecResponse { result: result.into() })
}

pub fn withdraw(exec: &mut Exec<'_>, message: MsgWithdrawProposal) -> Result<MsgWithdrawProposalResponse, LedgerError> {
    let mut proposal = load(exec, message.proposal_id)?;
    if proposal.status() != ProposalStatus::Submitted {
        return Err(invalid("cannot withdraw a proposal with the status of ").wrap(proposal.status().as_str_name()));
    }
    if message.address != proposal.group_policy_address && !proposal.proposers.contains(&message.address) {
        return Err(unauthorized(format!(
            "given address is neither group policy admin nor in proposers: {}",
            message.address
        )));
    }
    proposal.set_status(ProposalStatus::Withdrawn);
    exec.state.proposals.put(proposal.id, proposal, exec.gas);
    let id = message.proposal_id.to_string();
    exec.events.push(typed("EventWithdrawProposal", vec![("proposal_id", id.into())]));
    Ok(MsgWithdrawProposalResponse {})
}

fn load(exec: &Exec<'_>, id: u64) -> Result<Proposal, LedgerError> {
    exec.state.proposals.get(&id, exec.gas).cloned().ok_or_else(|| not_found(format!("load proposal: proposal {id}")))
}

fn load_policy(exec: &Exec<'_>, address: &str) -> Result<(GroupPolicyInfo, Policy, GroupInfo), LedgerError> {
    let info = exec.state.group_policies.get(&address.to_owned(), exec.gas).cloned();
    let info = info.ok_or_else(|| not_found("load group policy"))?;
    let packed = info.decision_policy.clone().unwrap_or_default();
    let policy = Policy::read(&packed)?.ok_or_else(|| invalid("unknown decision policy"))?;
    let group = exec.state.groups.get(&info.group_id, exec.gas).cloned().ok_or_else(|| not_found("load group"))?;
    Ok((info, policy, group))
}

fn cast(exec: &mut Exec<'_>, id: u64, voter: &str, option: VoteOption, metadata: &str) -> Result<(), LedgerError> {
    let proposal = load(exec, id)?;
    if proposal.status() != ProposalStatus::Submitted {
        return Err(invalid("proposal not open for voting"));
    }
    if option == VoteOption::Unspecified {
        return Err(group_error(2, "vote option", "value is empty"));
    }
    let is_over =
        proposal.voting_period_end.as_ref().is_some_and(|end| instant::nanos(&exec.now()) > instant::nanos(end));
    if is_over {
        return Err(group_error(9, "voting period has ended already", "expired"));
    }
    let (_, _, group) = load_policy(exec, &proposal.group_policy_address)?;
    if !exec.state.group_members.contains(&(group.id, voter.to_owned()), exec.gas) {
        return Err(not_found(format!("voter address: {voter}")));
    }
    let key = (id, voter.to_owned());
    if exec.state.votes.contains(&key, exec.gas) {
        return Err(group_error(3, "store vote", "duplicate value"));
    }
    let vote = Vote {
        proposal_id: id,
        voter: voter.to_owned(),
        option: option.into(),
        metadata: metadata.to_owned(),
        submit_time: Some(exec.now()),
    };
    exec.state.votes.put(key, vote, exec.gas);
    exec.events.push(typed("EventVote", vec![("proposal_id", id.to_string().into())]));
    Ok(())
}

fn empty_tally() -> TallyResult {
    let zero = || "0".to_owned();
    TallyResult { yes_count: zero(), abstain_count: zero(), no_count: zero(), no_with_veto_count: zero() }
}

/// Weights per option of a proposal's votes.
pub fn tally(state: &State, id: u64, group_id: u64) -> TallyResult {
    let mut counts = [Decimal::ZERO; 4];
    for (_, vote) in state.votes.range((id, String::new())..(id + 1, String::new())) {
        let member = state.group_members.get(&(group_id, vote.voter.clone()), &Gas::unlimited());
        let share =
            member.and_then(|member| member.member.as_ref()).map_or(Decimal::ZERO, |member| weight(&member.weight));
        match vote.option() {
            VoteOption::Yes => counts[0] += share,
            VoteOption::Abstain => counts[1] += share,
            VoteOption::No => counts[2] += share,
            VoteOption::NoWithVeto => counts[3] += share,
            VoteOption::Unspecified => {}
        }
    }
    let [yes_count, abstain_count, no_count, no_with_veto_count] = counts.map(|count| count.normalize().to_string());
    TallyResult { yes_count, abstain_count, no_count, no_with_veto_count }
}

/// Settles the status if the votes so far decide it, or if voting is over.
fn settle(exec: &mut Exec<'_>, proposal: &mut Proposal) -> Result<(), LedgerError> {
    if proposal.status() != ProposalStatus::Submitted {
        return Ok(());
    }
    let (_, policy, group) = load_policy(exec, &proposal.group_policy_address)?;
    let result = tally(exec.state, proposal.id, group.id);
    let yes = weight(&result.yes_count);
    let others = [&result.abstain_count, &result.no_count, &result.no_with_veto_count];
    let others = others.into_iter().map(|count| weight(count)).sum();
    let is_over =
        proposal.voting_period_end.as_ref().is_some_and(|end| instant::nanos(&exec.now()) >= instant::nanos(end));
    let decision = policy.decides(yes, others, weight(&group.total_weight));
    if decision.is_some() || is_over {
        let is_accepted = decision == Some(true);
        proposal.set_status(if is_accepted { ProposalStatus::Accepted } else { ProposalStatus::Rejected });
        proposal.final_tally_result = Some(result);
        drop_votes(exec, proposal.id);
    }
    Ok(())
}

fn drop_votes(exec: &mut Exec<'_>, id: u64) {
    let voters = (id, String::new())..(id + 1, String::new());
    let keys: Vec<_> = exec.state.votes.range(voters).map(|(key, _)| key.clone()).collect();
    for key in keys {
        exec.state.votes.remove(&key, exec.gas);
    }
}

fn execute(exec: &mut Exec<'_>, id: u64) -> Result<ProposalExecutorResult, LedgerError> {
    let mut proposal = load(exec, id)?;
    if !matches!(proposal.status(), ProposalStatus::Submitted | ProposalStatus::Accepted) {
        let text = format!("not possible to exec with proposal status {}", proposal.status().as_str_name());
        return Err(invalid(text));
    }
    settle(exec, &mut proposal)?;
    let mut logs = String::new();
    if proposal.status() == ProposalStatus::Accepted && proposal.executor_result() != ProposalExecutorResult::Success {
        match run_inner(exec, &proposal) {
            Ok(()) => proposal.set_executor_result(ProposalExecutorResult::Success),
            Err(error) => {
                proposal.set_executor_result(ProposalExecutorResult::Failure);
                logs = format!("proposal execution failed on proposal {id}, because of error {error}");
            }
        }
    }
    let result = proposal.executor_result();
    if result == ProposalExecutorResult::Success {
        exec.state.proposals.remove(&id, exec.gas);
        let tally = proposal.final_tally_result.clone().unwrap_or_else(empty_tally);
        let tally = serde_json::json!({
            "yes_count": tally.yes_count, "abstain_count": tally.abstain_count,
            "no_count": tally.no_count, "no_with_veto_count": tally.no_with_veto_count,
        });
        exec.events.push(typed(
            "EventProposalPruned",
            vec![
                ("proposal_id", id.to_string().into()),
                ("status", proposal.status().as_str_name().into()),
                ("tally_result", tally),
            ],
        ));
    } else {
        exec.state.proposals.put(id, proposal, exec.gas);
    }
    exec.events.push(typed(
        "EventExec",
        vec![("logs", logs.into()), ("proposal_id", id.to_string().into()), ("result", result.as_str_name().into())],
    ));
    Ok(result)
}

/// Runs the messages of an accepted proposal: all of them or none.
fn run_inner(exec: &mut Exec<'_>, proposal: &Proposal) -> Result<(), LedgerError> {
    let (_, policy, _) = load_policy(exec, &proposal.group_policy_address)?;
    let submitted = proposal.submit_time.as_ref().map_or(0, instant::nanos);
    if instant::nanos(&exec.now()) < submitted + policy.min_execution_nanos {
        return Err(invalid("must wait until the min execution period is over"));
    }
    // Events of inner messages appear in the outer transaction, without a `message` event of their own.
    exec.attempt(|exec| {
        for (index, message) in proposal.messages.iter().enumerate() {
            run(exec, message)
                .map_err(|error| error.wrap(format!("message {} at position {index}", message.type_url)))?;
        }
        Ok(())
    })
}

/// Settles proposals whose voting period has ended.
pub fn close_expired(exec: &mut Exec<'_>) {
    let now = instant::nanos(&exec.now());
    let is_due = |proposal: &Proposal| {
        let end = proposal.voting_period_end.as_ref().map_or(i128::MAX, instant::nanos);
        proposal.status() == ProposalStatus::Submitted && end <= now
    };
    let due: Vec<Proposal> = exec.state.proposals.values().filter(|proposal| is_due(proposal)).cloned().collect();
    for mut proposal in due {
        if settle(exec, &mut proposal).is_ok() {
            exec.state.proposals.put(proposal.id, proposal, exec.gas);
        }
    }
}

/// Whether a packed message is one of the two decision policies a corporation may have.
pub fn is_decision_policy(packed: &Any) -> bool {
    matches!(packed.type_url.as_str(), THRESHOLD | PERCENTAGE)
}

fn metadata_fits(metadata: &str) -> Result<(), LedgerError> {
    if metadata.len() > MAX_METADATA_BYTES {
        return Err(group_error(4, "metadata too long", "limit exceeded"));
    }
    Ok(())
}
