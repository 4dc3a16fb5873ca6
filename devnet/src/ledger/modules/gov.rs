//! x/gov, as far as the registry needs it: proposals of parameter updates, slashes and exchange rates.
//!
//! Votes weigh by bonded stake, which the devnet gives at genesis; there is no delegation, so nobody inherits a vote.

use prost_types::{Any, Duration, Timestamp};
use rust_decimal::Decimal;
use svc_wire::{
    instant,
    proto::cosmos::gov::v1::{
        MsgDeposit, MsgDepositResponse, MsgSubmitProposal, MsgSubmitProposalResponse, MsgVote, MsgVoteResponse,
        Proposal, ProposalStatus, TallyResult, Vote, VoteOption, WeightedVoteOption,
    },
};

use super::{authority_address, bank, run};
use crate::ledger::{
    error::LedgerError,
    exec::{Chain, Exec},
    state::{State, next},
    table::Plain,
    validate,
};

const MAX_TITLE_BYTES: usize = 255;

fn gov_error(code: u32, text: impl std::fmt::Display, root: &str) -> LedgerError {
    LedgerError::new("gov", code, format!("{text}: {root}"))
}

fn ratio(text: &str) -> Decimal {
    text.parse().unwrap_or_default()
}

pub fn validate_submit(chain: &Chain, message: &MsgSubmitProposal) -> Result<(), LedgerError> {
    validate::address(&chain.prefix, "proposer", &message.proposer)?;
    message.messages.iter().try_for_each(|inner| super::validate(chain, inner))
}

pub fn submit(exec: &mut Exec<'_>, message: MsgSubmitProposal) -> Result<MsgSubmitProposalResponse, LedgerError> {
    if message.title.is_empty() || message.title.len() > MAX_TITLE_BYTES {
        return Err(LedgerError::sdk(18, "proposal title must have 1 to 255 bytes"));
    }
    if message.summary.is_empty() {
        return Err(LedgerError::sdk(18, "proposal summary cannot be empty"));
    }
    if message.messages.is_empty() && message.metadata.is_empty() {
        return Err(gov_error(11, "either metadata or Msgs length must be non-nil", "no messages proposed"));
    }
    let authority = authority_address(exec.chain);
    for inner in &message.messages {
        let signers =
            exec.chain.registry.signers(&inner.type_url, &inner.value).map_err(|error| LedgerError::sdk(2, error))?;
        if signers != [authority.as_str()] {
            let root = "expected gov account as only signer for proposal message";
            return Err(gov_error(13, signers.join(","), root));
        }
        if !super::is_routed(exec.chain, &inner.type_url) {
            return Err(gov_error(10, &inner.type_url, "proposal message not recognized by router"));
        }
    }
    let (id, now) = (next(&mut exec.state.next_gov_proposal), exec.now());
    let proposal = Proposal {
        id,
        messages: message.messages,
        status: ProposalStatus::DepositPeriod.into(),
        final_tally_result: Some(empty_tally()),
        submit_time: Some(now),
        deposit_end_time: later(&now, exec.state.params.gov.max_deposit_period),
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

fn later(now: &Timestamp, span: Option<Duration>) -> Option<Timestamp> {
    span.as_ref().map(|span| instant::later(now, span))
}

fn load(exec: &Exec<'_>, id: u64) -> Result<Proposal, LedgerError> {
    let found = exec.state.gov_proposals.get(&id, exec.gas).cloned();
    found.ok_or_else(|| LedgerError::sdk(38, format!("proposal {id} doesn't exist")))
}

/// Takes a deposit; enough of it opens the vote.
fn add_deposit(
    exec: &mut Exec<'_>,
    id: u64,
    depositor: &str,
    coins: &[svc_wire::proto::cosmos::base::v1beta1::Coin],
) -> Result<(), LedgerError> {
    let amounts = bank::parse_coins(coins).map_err(|text| LedgerError::sdk(10, text))?;
    if let Some((denom, _)) = amounts.iter().find(|(denom, _)| *denom != exec.chain.denom) {
        return Err(gov_error(23, format!("deposited {denom}, accepts {}", exec.chain.denom), "invalid deposit denom"));
    }
    let mut proposal = load(exec, id)?;
    let open = [ProposalStatus::DepositPeriod, ProposalStatus::VotingPeriod];
    if !open.contains(&proposal.status()) {
        return Err(gov_error(3, id, "inactive proposal"));
    }
    if amounts.is_empty() {
        return Ok(());
    }
    bank::transfer(exec, depositor, &authority_address(exec.chain), &amounts)?;
    for (denom, amount) in &amounts {
        let key = (id, (depositor.to_owned(), denom.clone()));
        let before = exec.state.gov_deposits.get(&key, exec.gas).map_or(0, |held| held.0);
        exec.state.gov_deposits.put(key, Plain(before.saturating_add(*amount)), exec.gas);
    }
    let range = (id, (String::new(), String::new()))..(id + 1, (String::new(), String::new()));
    let total: u128 = exec.state.gov_deposits.range(range).map(|(_, held)| held.0).sum();
    proposal.total_deposit = bank::to_coins(&[(exec.chain.denom.clone(), total)]);
    let params = &exec.state.params.gov;
    let minimum = if proposal.expedited { &params.expedited_min_deposit } else { &params.min_deposit };
    let minimum = bank::parse_coins(minimum).map_err(LedgerError::plain)?;
    let is_enough = minimum.iter().all(|(_, needed)| total >= *needed);
    let mut attributes =
        vec![("depositor", depositor.to_owned()), ("amount", bank::coins_text(coins)), ("proposal_id", id.to_string())];
    if proposal.status() == ProposalStatus::DepositPeriod && is_enough {
        let now = exec.now();
        let period = if proposal.expedited { params.expedited_voting_period } else { params.voting_period };
        proposal.set_status(ProposalStatus::VotingPeriod);
        proposal.voting_start_time = Some(now);
        proposal.voting_end_time = later(&now, period);
        attributes.push(("voting_period_start", id.to_string()));
    }
    exec.state.gov_proposals.put(id, proposal, exec.gas);
    exec.emit_all("proposal_deposit", attributes);
    Ok(())
}

pub fn deposit(exec: &mut Exec<'_>, message: MsgDeposit) -> Result<MsgDepositResponse, LedgerError> {
    add_deposit(exec, message.proposal_id, &message.depositor, &message.amount)?;
    Ok(MsgDepositResponse {})
}

/// Anybody may vote, again too; only bonded stake counts.
pub fn vote(exec: &mut Exec<'_>, message: MsgVote) -> Result<MsgVoteResponse, LedgerError> {
    if message.option() == VoteOption::Unspecified {
        return Err(gov_error(7, message.option, "invalid vote option"));
    }
    let proposal = load(exec, message.proposal_id)?;
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

/// Stake behind each answer: yes, abstain, no, no with veto.
fn counts(state: &State, id: u64) -> [u128; 4] {
    let mut counts = [0; 4];
    for (_, vote) in state.gov_votes.range((id, String::new())..(id + 1, String::new())) {
        let weight = state.bonded.peek(&vote.voter).map_or(0, |stake| stake.0);
        let option = vote.options.first().map_or(0, |option| option.option);
        if let Some(count) = usize::try_from(option - 1).ok().and_then(|at| counts.get_mut(at)) {
            *count += weight;
        }
    }
    counts
}

pub fn tally(state: &State, id: u64) -> TallyResult {
    let [yes, abstain, no, veto] = counts(state, id).map(|count| count.to_string());
    TallyResult { yes_count: yes, abstain_count: abstain, no_count: no, no_with_veto_count: veto }
}

/// What a finished vote says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Verdict {
    passes: bool,
    burns_deposit: bool,
}

/// Decides by the SDK's rules: quorum, then veto, then the share of yes among those that did not abstain.
fn decide([yes, abstain, no, veto]: [u128; 4], bonded: u128, shares: [Decimal; 3]) -> Verdict {
    let [quorum, veto_threshold, threshold] = shares;
    let number = |count: u128| Decimal::from(u64::try_from(count).unwrap_or(u64::MAX));
    let voted = yes + abstain + no + veto;
    let rejected = |burns_deposit| Verdict { passes: false, burns_deposit };
    if bonded == 0 || number(voted) / number(bonded) < quorum || voted == abstain {
        return rejected(false);
    }
    if number(veto) / number(voted) > veto_threshold {
        return rejected(true);
    }
    Verdict { passes: number(yes) / number(voted - abstain) > threshold, burns_deposit: false }
}

/// Ends deposit and voting periods that are over.
pub fn end_block(exec: &mut Exec<'_>) {
    let now = exec.now();
    let is_over = |end: &Option<Timestamp>| end.as_ref().is_some_and(|end| instant::at_or_before(end, &now));
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
            close(exec, proposal);
        }
    }
}

fn close(exec: &mut Exec<'_>, mut proposal: Proposal) {
    let id = proposal.id;
    let bonded = exec.state.bonded.values().map(|stake| stake.0).sum();
    let params = exec.state.params.gov.clone();
    let threshold = if proposal.expedited { &params.expedited_threshold } else { &params.threshold };
    let shares = [ratio(&params.quorum), ratio(&params.veto_threshold), ratio(threshold)];
    let verdict = decide(counts(exec.state, id), bonded, shares);
    if proposal.expedited && !verdict.passes {
        // An expedited proposal that fails goes on as an ordinary one.
        proposal.expedited = false;
        proposal.voting_end_time =
            proposal.voting_start_time.as_ref().and_then(|start| later(start, params.voting_period));
        exec.state.gov_proposals.put(id, proposal, exec.gas);
        return;
    }
    proposal.final_tally_result = Some(tally(exec.state, id));
    settle_deposits(exec, id, verdict.burns_deposit);
    let result = if !verdict.passes {
        proposal.set_status(ProposalStatus::Rejected);
        "proposal_rejected"
    } else {
        match run_all(exec, &proposal.messages) {
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

/// All messages of a proposal, or none.
fn run_all(exec: &mut Exec<'_>, messages: &[Any]) -> Result<(), LedgerError> {
    exec.attempt(|exec| {
        for (index, message) in messages.iter().enumerate() {
            run(exec, message).map_err(|error| error.wrap(format!("message {index} ({}) failed", message.type_url)))?;
        }
        Ok(())
    })
}

fn settle_deposits(exec: &mut Exec<'_>, id: u64, burns: bool) {
    let range = (id, (String::new(), String::new()))..(id + 1, (String::new(), String::new()));
    let held: Vec<_> = exec.state.gov_deposits.range(range).map(|(key, held)| (key.clone(), held.0)).collect();
    let account = authority_address(exec.chain);
    for (key, amount) in held {
        let (depositor, denom) = key.1.clone();
        // Fails only when a proposal has spent the account's deposits: nothing is left to give back then.
        let _ = if burns {
            bank::burn(exec, "gov", amount)
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
        let shares = [Decimal::new(334, 3), Decimal::new(334, 3), Decimal::new(5, 1)];
        let decided = |counts| {
            let Verdict { passes, burns_deposit } = decide(counts, 100, shares);
            (passes, burns_deposit)
        };
        assert_eq!(decided([34, 0, 0, 0]), (true, false));
        assert_eq!(decided([33, 0, 0, 0]), (false, false), "no quorum");
        assert_eq!(decided([50, 0, 50, 0]), (false, false), "half is not more than half");
        assert_eq!(decided([51, 0, 49, 0]), (true, false));
        assert_eq!(decided([60, 0, 0, 40]), (false, true), "vetoed");
        assert_eq!(decided([0, 100, 0, 0]), (false, false), "all abstained");
        assert!(!decide([1, 0, 0, 0], 0, shares).passes, "nobody has stake");
    }
}
