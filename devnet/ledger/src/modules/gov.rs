//! x/gov, as far as the registry needs it: proposals with parameter updates, slashes and exchange rates.
//!
//! The weight of a vote is the bonded stake of the voter, which genesis sets. There is no delegation, so no validator votes for
//! its delegators.

use prost_types::{Any, Duration, Timestamp};
use rust_decimal::Decimal;
use svc_wire::{
    proto::cosmos::gov::v1::{
        MsgDeposit, MsgDepositResponse, MsgSubmitProposal, MsgSubmitProposalResponse, MsgVote, MsgVoteResponse,
        Proposal, ProposalStatus, TallyResult, Vote, VoteOption, WeightedVoteOption,
    },
    timestamp,
};

use super::{authority::governance_address, bank};
use crate::{
    chain::ChainConfig,
    context::ExecContext,
    error::LedgerError,
    modules::router::MessageRouter,
    state::{LedgerState, next_id, table::PlainValue},
    values::validate,
};

const MAX_TITLE_BYTES: usize = 255;

fn gov_error(code: u32, text: impl std::fmt::Display, root: &str) -> LedgerError {
    LedgerError::new("gov", code, format!("{text}: {root}"))
}

fn parse_ratio(text: &str) -> Decimal {
    text.parse().unwrap_or_default()
}

pub fn validate_submit(
    chain: &ChainConfig,
    message: &MsgSubmitProposal,
    router: &MessageRouter,
) -> Result<(), LedgerError> {
    validate::address(&chain.prefix, "proposer", &message.proposer)?;
    message.messages.iter().try_for_each(|inner| (router.validate)(chain, inner))
}

pub fn submit(
    exec: &mut ExecContext<'_>,
    message: MsgSubmitProposal,
    router: &MessageRouter,
) -> Result<MsgSubmitProposalResponse, LedgerError> {
    if message.title.is_empty() || message.title.len() > MAX_TITLE_BYTES {
        return Err(LedgerError::sdk(18, "proposal title must have 1 to 255 bytes"));
    }
    if message.summary.is_empty() {
        return Err(LedgerError::sdk(18, "proposal summary cannot be empty"));
    }
    if message.messages.is_empty() && message.metadata.is_empty() {
        return Err(gov_error(11, "either metadata or Msgs length must be non-nil", "no messages proposed"));
    }
    let authority = governance_address(exec.chain);
    for inner in &message.messages {
        let signers =
            exec.chain.registry.signers(&inner.type_url, &inner.value).map_err(|error| LedgerError::sdk(2, error))?;
        if signers != [authority.as_str()] {
            let root = "expected gov account as only signer for proposal message";
            return Err(gov_error(13, signers.join(","), root));
        }
        if !(router.is_routed)(exec.chain, &inner.type_url) {
            return Err(gov_error(10, &inner.type_url, "proposal message not recognized by router"));
        }
    }
    let (id, now) = (next_id(&mut exec.state.next_gov_proposal), exec.block_time());
    let proposal = Proposal {
        id,
        messages: message.messages,
        status: ProposalStatus::DepositPeriod.into(),
        final_tally_result: Some(empty_tally()),
        submit_time: Some(now),
        deposit_end_time: add_period(&now, exec.state.params.gov.max_deposit_period),
        metadata: message.metadata,
        title: message.title,
        summary: message.summary,
        proposer: message.proposer.clone(),
        expedited: message.expedited,
        ..Proposal::default()
    };
    let urls: Vec<_> = proposal.messages.iter().map(|inner| inner.type_url.clone()).collect();
    exec.state.gov_proposals.put(id, proposal, exec.gas);
    exec.emit(
        "submit_proposal",
        [
            ("proposal_id", id.to_string()),
            ("proposal_proposer", message.proposer.clone()),
            ("proposal_messages", urls.iter().map(|url| format!(",{url}")).collect()),
        ],
    );
    add_deposit(exec, id, &message.proposer, &message.initial_deposit)?;
    Ok(MsgSubmitProposalResponse { proposal_id: id })
}

fn add_period(now: &Timestamp, span: Option<Duration>) -> Option<Timestamp> {
    span.as_ref().map(|span| timestamp::add_duration(now, span))
}

fn load_proposal(exec: &ExecContext<'_>, id: u64) -> Result<Proposal, LedgerError> {
    let found = exec.state.gov_proposals.get(&id, exec.gas).cloned();
    found.ok_or_else(|| LedgerError::sdk(38, format!("proposal {id} doesn't exist")))
}

/// Takes a deposit; the voting period begins as soon as the deposits reach the minimum.
fn add_deposit(
    exec: &mut ExecContext<'_>,
    id: u64,
    depositor: &str,
    coins: &[svc_wire::proto::cosmos::base::v1beta1::Coin],
) -> Result<(), LedgerError> {
    let amounts = bank::parse_coins(coins).map_err(|text| LedgerError::sdk(10, text))?;
    if let Some((denom, _)) = amounts.iter().find(|(denom, _)| *denom != exec.chain.denom) {
        return Err(gov_error(23, format!("deposited {denom}, accepts {}", exec.chain.denom), "invalid deposit denom"));
    }
    let mut proposal = load_proposal(exec, id)?;
    let open = [ProposalStatus::DepositPeriod, ProposalStatus::VotingPeriod];
    if !open.contains(&proposal.status()) {
        return Err(gov_error(3, id, "inactive proposal"));
    }
    if amounts.is_empty() {
        return Ok(());
    }
    bank::transfer(exec, depositor, &governance_address(exec.chain), &amounts)?;
    for (denom, amount) in &amounts {
        let key = (id, (depositor.to_owned(), denom.clone()));
        let before = exec.state.gov_deposits.get(&key, exec.gas).map_or(0, |held| held.0);
        exec.state.gov_deposits.put(key, PlainValue(before.saturating_add(*amount)), exec.gas);
    }
    let range = (id, (String::new(), String::new()))..(id + 1, (String::new(), String::new()));
    let total: u128 = exec.state.gov_deposits.range(range).map(|(_, held)| held.0).sum();
    proposal.total_deposit = bank::to_coins(&[(exec.chain.denom.clone(), total)]);
    let params = &exec.state.params.gov;
    let minimum = if proposal.expedited { &params.expedited_min_deposit } else { &params.min_deposit };
    let minimum = bank::parse_coins(minimum).map_err(LedgerError::unregistered)?;
    let is_enough = minimum.iter().all(|(_, needed)| total >= *needed);
    let mut attributes =
        vec![("depositor", depositor.to_owned()), ("amount", bank::coins_text(coins)), ("proposal_id", id.to_string())];
    if proposal.status() == ProposalStatus::DepositPeriod && is_enough {
        let now = exec.block_time();
        let period = if proposal.expedited { params.expedited_voting_period } else { params.voting_period };
        proposal.set_status(ProposalStatus::VotingPeriod);
        proposal.voting_start_time = Some(now);
        proposal.voting_end_time = add_period(&now, period);
        attributes.push(("voting_period_start", id.to_string()));
    }
    exec.state.gov_proposals.put(id, proposal, exec.gas);
    exec.emit_attributes("proposal_deposit", attributes);
    Ok(())
}

pub fn deposit(exec: &mut ExecContext<'_>, message: MsgDeposit) -> Result<MsgDepositResponse, LedgerError> {
    add_deposit(exec, message.proposal_id, &message.depositor, &message.amount)?;
    Ok(MsgDepositResponse {})
}

/// Records a vote. Every account can vote, and replace its vote; bonded stake alone has weight.
pub fn vote(exec: &mut ExecContext<'_>, message: MsgVote) -> Result<MsgVoteResponse, LedgerError> {
    if message.option() == VoteOption::Unspecified {
        return Err(gov_error(7, message.option, "invalid vote option"));
    }
    let proposal = load_proposal(exec, message.proposal_id)?;
    if proposal.status() != ProposalStatus::VotingPeriod {
        return Err(gov_error(3, message.proposal_id, "inactive proposal"));
    }
    let option = WeightedVoteOption { option: message.option, weight: "1.000000000000000000".to_owned() };
    let vote = Vote {
        proposal_id: message.proposal_id,
        voter: message.voter.clone(),
        options: vec![option],
        metadata: message.metadata,
    };
    exec.state.gov_votes.put((message.proposal_id, message.voter.clone()), vote, exec.gas);
    exec.emit(
        "proposal_vote",
        [
            ("voter", message.voter),
            ("option", format!("[{{\"option\":{},\"weight\":\"1.000000000000000000\"}}]", message.option)),
            ("proposal_id", message.proposal_id.to_string()),
        ],
    );
    Ok(MsgVoteResponse {})
}

fn empty_tally() -> TallyResult {
    let zero = || "0".to_owned();
    TallyResult { yes_count: zero(), abstain_count: zero(), no_count: zero(), no_with_veto_count: zero() }
}

/// Stake behind each option of a vote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct VoteCounts {
    yes: u128,
    abstain: u128,
    no: u128,
    veto: u128,
}

fn count_votes(state: &LedgerState, id: u64) -> VoteCounts {
    let mut counts = VoteCounts::default();
    for (_, vote) in state.gov_votes.range((id, String::new())..(id + 1, String::new())) {
        let weight = state.bonded.peek(&vote.voter).map_or(0, |stake| stake.0);
        match vote.options.first().map_or(VoteOption::Unspecified, WeightedVoteOption::option) {
            VoteOption::Yes => counts.yes += weight,
            VoteOption::Abstain => counts.abstain += weight,
            VoteOption::No => counts.no += weight,
            VoteOption::NoWithVeto => counts.veto += weight,
            VoteOption::Unspecified => {}
        }
    }
    counts
}

pub fn tally(state: &LedgerState, id: u64) -> TallyResult {
    let counts = count_votes(state, id);
    TallyResult {
        yes_count: counts.yes.to_string(),
        abstain_count: counts.abstain.to_string(),
        no_count: counts.no.to_string(),
        no_with_veto_count: counts.veto.to_string(),
    }
}

/// Shares of stake that decide a vote.
#[derive(Debug, Clone, Copy)]
struct TallyThresholds {
    quorum: Decimal,
    veto: Decimal,
    pass: Decimal,
}

/// Result of a closed vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TallyDecision {
    is_passed: bool,
    is_deposit_burned: bool,
}

/// Decides by the SDK's rules: quorum, then veto, then the share of yes among the votes other than abstain.
fn decide_tally(counts: VoteCounts, bonded: u128, thresholds: TallyThresholds) -> TallyDecision {
    let VoteCounts { yes, abstain, no, veto } = counts;
    let number = |count: u128| Decimal::from(u64::try_from(count).unwrap_or(u64::MAX));
    let voted = yes + abstain + no + veto;
    let rejected = |burns_deposit| TallyDecision { is_passed: false, is_deposit_burned: burns_deposit };
    if bonded == 0 || number(voted) / number(bonded) < thresholds.quorum || voted == abstain {
        return rejected(false);
    }
    if number(veto) / number(voted) > thresholds.veto {
        return rejected(true);
    }
    TallyDecision { is_passed: number(yes) / number(voted - abstain) > thresholds.pass, is_deposit_burned: false }
}

/// Closes the proposals with an ended deposit or voting period.
pub fn end_block(exec: &mut ExecContext<'_>, router: &MessageRouter) {
    let now = exec.block_time();
    let is_over = |end: &Option<Timestamp>| end.as_ref().is_some_and(|end| timestamp::is_at_or_before(end, &now));
    let due: Vec<Proposal> = exec
        .state
        .gov_proposals
        .values()
        .filter(|one| match one.status() {
            ProposalStatus::DepositPeriod => is_over(&one.deposit_end_time),
            ProposalStatus::VotingPeriod => is_over(&one.voting_end_time),
            _ => false,
        })
        .cloned()
        .collect();
    for proposal in due {
        if proposal.status() == ProposalStatus::DepositPeriod {
            settle_deposits(exec, proposal.id, false);
            exec.state.gov_proposals.remove(&proposal.id, exec.gas);
            let id = proposal.id.to_string();
            exec.emit("inactive_proposal", [("proposal_id", id.as_str()), ("proposal_result", "proposal_dropped")]);
        } else {
            close_proposal(exec, proposal, router);
        }
    }
}

fn close_proposal(exec: &mut ExecContext<'_>, mut proposal: Proposal, router: &MessageRouter) {
    let id = proposal.id;
    let bonded = exec.state.bonded.values().map(|stake| stake.0).sum();
    let params = exec.state.params.gov.clone();
    let threshold = if proposal.expedited { &params.expedited_threshold } else { &params.threshold };
    let thresholds = TallyThresholds {
        quorum: parse_ratio(&params.quorum),
        veto: parse_ratio(&params.veto_threshold),
        pass: parse_ratio(threshold),
    };
    let verdict = decide_tally(count_votes(exec.state, id), bonded, thresholds);
    if proposal.expedited && !verdict.is_passed {
        // An expedited proposal that fails continues as an ordinary one.
        proposal.expedited = false;
        proposal.voting_end_time =
            proposal.voting_start_time.as_ref().and_then(|start| add_period(start, params.voting_period));
        exec.state.gov_proposals.put(id, proposal, exec.gas);
        return;
    }
    proposal.final_tally_result = Some(tally(exec.state, id));
    settle_deposits(exec, id, verdict.is_deposit_burned);
    let result = if !verdict.is_passed {
        proposal.set_status(ProposalStatus::Rejected);
        "proposal_rejected"
    } else {
        match run_messages(exec, &proposal.messages, router) {
            Ok(()) => {
                proposal.set_status(ProposalStatus::Passed);
                "proposal_passed"
            }
            Err(error) => {
                proposal.set_status(ProposalStatus::Failed);
                proposal.failed_reason = error.text;
                "proposal_failed"
            }
        }
    };
    let voters = (id, String::new())..(id + 1, String::new());
    let voters: Vec<_> = exec.state.gov_votes.range(voters).map(|(key, _)| key.clone()).collect();
    for key in voters {
        exec.state.gov_votes.remove(&key, exec.gas);
    }
    let log = proposal.failed_reason.clone();
    exec.state.gov_proposals.put(id, proposal, exec.gas);
    exec.emit(
        "active_proposal",
        [("proposal_id", id.to_string()), ("proposal_result", result.to_owned()), ("proposal_log", log)],
    );
}

/// Runs the messages of a proposal; on an error none has an effect.
fn run_messages(exec: &mut ExecContext<'_>, messages: &[Any], router: &MessageRouter) -> Result<(), LedgerError> {
    exec.attempt(|exec| {
        for (index, message) in messages.iter().enumerate() {
            (router.run)(exec, message)
                .map_err(|error| error.wrap(format!("message {index} ({}) failed", message.type_url)))?;
        }
        Ok(())
    })
}

fn settle_deposits(exec: &mut ExecContext<'_>, id: u64, burns: bool) {
    let range = (id, (String::new(), String::new()))..(id + 1, (String::new(), String::new()));
    let held: Vec<_> = exec.state.gov_deposits.range(range).map(|(key, held)| (key.clone(), held.0)).collect();
    let account = governance_address(exec.chain);
    for (key, amount) in held {
        let (depositor, denom) = key.1.clone();
        // Fails only if a passed proposal has spent the deposits of the account: there is nothing to refund then.
        let _ = if burns {
            bank::burn_fee_denom(exec, "gov", amount)
        } else {
            bank::transfer(exec, &account, &depositor, &[(denom, amount)])
        };
        exec.state.gov_deposits.remove(&key, exec.gas);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quorum_veto_and_threshold_decide() {
        let thresholds =
            TallyThresholds { quorum: Decimal::new(334, 3), veto: Decimal::new(334, 3), pass: Decimal::new(5, 1) };
        let decided = |[yes, abstain, no, veto]: [u128; 4]| {
            let decision = decide_tally(VoteCounts { yes, abstain, no, veto }, 100, thresholds);
            (decision.is_passed, decision.is_deposit_burned)
        };
        assert_eq!(decided([34, 0, 0, 0]), (true, false));
        assert_eq!(decided([33, 0, 0, 0]), (false, false), "no quorum");
        assert_eq!(decided([50, 0, 50, 0]), (false, false), "half is not more than half");
        assert_eq!(decided([51, 0, 49, 0]), (true, false));
        assert_eq!(decided([60, 0, 0, 40]), (false, true), "vetoed");
        assert_eq!(decided([0, 100, 0, 0]), (false, false), "all abstained");
        assert!(!decide_tally(VoteCounts { yes: 1, ..VoteCounts::default() }, 0, thresholds).is_passed, "no stake");
    }
}
