//! Messages on proposals: submit, vote, execute, withdraw.

use svc_wire::{
    proto::cosmos::group::v1::{
        Exec as TryExec, MsgExec, MsgExecResponse, MsgSubmitProposal, MsgSubmitProposalResponse, MsgVote,
        MsgVoteResponse, MsgWithdrawProposal, MsgWithdrawProposalResponse, Proposal, ProposalExecutorResult,
        ProposalStatus, Vote, VoteOption,
    },
    timestamp,
};

use super::{
    error::{group_error, invalid, not_found, unauthorized},
    policy::parse_weight,
    store::{LoadedPolicy, drop_votes, load_policy, load_proposal, typed_event},
    tally::{empty_tally, tally},
};
use crate::{
    chain::ChainConfig, context::ExecContext, error::LedgerError, modules::router::MessageRouter, state::next_id,
    values::validate,
};

pub fn validate_submit(
    chain: &ChainConfig,
    message: &MsgSubmitProposal,
    router: &MessageRouter,
) -> Result<(), LedgerError> {
    validate::address(&chain.prefix, "group policy", &message.group_policy_address)?;
    if message.proposers.is_empty() {
        return Err(group_error(2, "proposers", "value is empty"));
    }
    for proposer in &message.proposers {
        validate::address(&chain.prefix, "proposer", proposer)?;
    }
    message.messages.iter().try_for_each(|inner| (router.validate)(chain, inner))
}

pub fn submit(
    exec: &mut ExecContext<'_>,
    message: MsgSubmitProposal,
    router: &MessageRouter,
) -> Result<MsgSubmitProposalResponse, LedgerError> {
    let LoadedPolicy { info: policy_info, policy, group } = load_policy(exec, &message.group_policy_address)?;
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
    let (id, now) = (next_id(&mut exec.state.next_proposal), exec.block_time());
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
        voting_period_end: Some(timestamp::from_unix_nanos(timestamp::unix_nanos(&now) + policy.voting_nanos)),
        executor_result: ProposalExecutorResult::NotRun.into(),
        messages: message.messages.clone(),
        title: message.title.clone(),
        summary: message.summary.clone(),
    };
    exec.state.proposals.put(id, proposal, exec.gas);
    exec.events.push(typed_event("EventSubmitProposal", vec![("proposal_id", id.to_string().into())]));
    if message.exec() == TryExec::Try {
        for proposer in &message.proposers {
            cast_vote(exec, id, proposer, VoteOption::Yes, "")?;
        }
        execute_proposal(exec, id, router)?;
    }
    Ok(MsgSubmitProposalResponse { proposal_id: id })
}

pub fn vote(
    exec: &mut ExecContext<'_>,
    message: MsgVote,
    router: &MessageRouter,
) -> Result<MsgVoteResponse, LedgerError> {
    cast_vote(exec, message.proposal_id, &message.voter, message.option(), &message.metadata)?;
    if message.exec() == TryExec::Try {
        execute_proposal(exec, message.proposal_id, router)?;
    }
    Ok(MsgVoteResponse {})
}

pub fn exec(
    exec: &mut ExecContext<'_>,
    message: MsgExec,
    router: &MessageRouter,
) -> Result<MsgExecResponse, LedgerError> {
    let result = execute_proposal(exec, message.proposal_id, router)?;
    Ok(MsgExecResponse { result: result.into() })
}

pub fn withdraw(
    exec: &mut ExecContext<'_>,
    message: MsgWithdrawProposal,
) -> Result<MsgWithdrawProposalResponse, LedgerError> {
    let mut proposal = load_proposal(exec, message.proposal_id)?;
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
    exec.events.push(typed_event("EventWithdrawProposal", vec![("proposal_id", id.into())]));
    Ok(MsgWithdrawProposalResponse {})
}

fn cast_vote(
    exec: &mut ExecContext<'_>,
    id: u64,
    voter: &str,
    option: VoteOption,
    metadata: &str,
) -> Result<(), LedgerError> {
    let proposal = load_proposal(exec, id)?;
    if proposal.status() != ProposalStatus::Submitted {
        return Err(invalid("proposal not open for voting"));
    }
    if option == VoteOption::Unspecified {
        return Err(group_error(2, "vote option", "value is empty"));
    }
    let is_over = proposal
        .voting_period_end
        .as_ref()
        .is_some_and(|end| timestamp::unix_nanos(&exec.block_time()) > timestamp::unix_nanos(end));
    if is_over {
        return Err(group_error(9, "voting period has ended already", "expired"));
    }
    let group = load_policy(exec, &proposal.group_policy_address)?.group;
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
        submit_time: Some(exec.block_time()),
    };
    exec.state.votes.put(key, vote, exec.gas);
    exec.events.push(typed_event("EventVote", vec![("proposal_id", id.to_string().into())]));
    Ok(())
}

/// Sets the final status if the votes so far decide it, or if the voting period is over.
fn settle_status(exec: &mut ExecContext<'_>, proposal: &mut Proposal) -> Result<(), LedgerError> {
    if proposal.status() != ProposalStatus::Submitted {
        return Ok(());
    }
    let LoadedPolicy { policy, group, .. } = load_policy(exec, &proposal.group_policy_address)?;
    let result = tally(exec.state, proposal.id, group.id);
    let yes = parse_weight(&result.yes_count);
    let others = [&result.abstain_count, &result.no_count, &result.no_with_veto_count];
    let others = others.into_iter().map(|count| parse_weight(count)).sum();
    let is_over = proposal
        .voting_period_end
        .as_ref()
        .is_some_and(|end| timestamp::unix_nanos(&exec.block_time()) >= timestamp::unix_nanos(end));
    let decision = policy.decide(yes, others, parse_weight(&group.total_weight));
    if decision.is_some() || is_over {
        let is_accepted = decision == Some(true);
        proposal.set_status(if is_accepted { ProposalStatus::Accepted } else { ProposalStatus::Rejected });
        proposal.final_tally_result = Some(result);
        drop_votes(exec, proposal.id);
    }
    Ok(())
}

fn execute_proposal(
    exec: &mut ExecContext<'_>,
    id: u64,
    router: &MessageRouter,
) -> Result<ProposalExecutorResult, LedgerError> {
    let mut proposal = load_proposal(exec, id)?;
    if !matches!(proposal.status(), ProposalStatus::Submitted | ProposalStatus::Accepted) {
        let text = format!("not possible to exec with proposal status {}", proposal.status().as_str_name());
        return Err(invalid(text));
    }
    settle_status(exec, &mut proposal)?;
    let mut logs = String::new();
    if proposal.status() == ProposalStatus::Accepted && proposal.executor_result() != ProposalExecutorResult::Success {
        match run_proposal_messages(exec, &proposal, router) {
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
        exec.events.push(typed_event(
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
    exec.events.push(typed_event(
        "EventExec",
        vec![("logs", logs.into()), ("proposal_id", id.to_string().into()), ("result", result.as_str_name().into())],
    ));
    Ok(result)
}

/// Runs the messages of an accepted proposal; on an error none has an effect.
fn run_proposal_messages(
    exec: &mut ExecContext<'_>,
    proposal: &Proposal,
    router: &MessageRouter,
) -> Result<(), LedgerError> {
    let policy = load_policy(exec, &proposal.group_policy_address)?.policy;
    let submitted = proposal.submit_time.as_ref().map_or(0, timestamp::unix_nanos);
    if timestamp::unix_nanos(&exec.block_time()) < submitted + policy.min_execution_nanos {
        return Err(invalid("must wait until the min execution period is over"));
    }
    // Events of inner messages appear in the outer transaction, without a `message` event for each.
    exec.attempt(|exec| {
        for (index, message) in proposal.messages.iter().enumerate() {
            (router.run)(exec, message)
                .map_err(|error| error.wrap(format!("message {} at position {index}", message.type_url)))?;
        }
        Ok(())
    })
}

/// Settles the proposals with an ended voting period; runs at the end of a block.
pub fn close_expired_proposals(exec: &mut ExecContext<'_>) {
    let now = timestamp::unix_nanos(&exec.block_time());
    let is_due = |proposal: &Proposal| {
        let end = proposal.voting_period_end.as_ref().map_or(i128::MAX, timestamp::unix_nanos);
        proposal.status() == ProposalStatus::Submitted && end <= now
    };
    let due: Vec<Proposal> = exec.state.proposals.values().filter(|proposal| is_due(proposal)).cloned().collect();
    for mut proposal in due {
        if settle_status(exec, &mut proposal).is_ok() {
            exec.state.proposals.put(proposal.id, proposal, exec.gas);
        }
    }
}
