//! Tallies of votes.

use rust_decimal::Decimal;
use svc_wire::proto::cosmos::group::v1::{TallyResult, VoteOption};

use super::policy::parse_weight;
use crate::{gas::GasMeter, state::LedgerState};

pub fn empty_tally() -> TallyResult {
    let zero = || "0".to_owned();
    TallyResult { yes_count: zero(), abstain_count: zero(), no_count: zero(), no_with_veto_count: zero() }
}

/// Returns the weight of the votes on a proposal, by option.
pub fn tally(state: &LedgerState, id: u64, group_id: u64) -> TallyResult {
    let mut counts = [Decimal::ZERO; 4];
    for (_, vote) in state.votes.range((id, String::new())..(id + 1, String::new())) {
        let member = state.group_members.get(&(group_id, vote.voter.clone()), &GasMeter::unlimited());
        let share = member
            .and_then(|member| member.member.as_ref())
            .map_or(Decimal::ZERO, |member| parse_weight(&member.weight));
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
