//! Governance in its older version, for clients that ask for it. Proposals of the registry have messages, which that version cannot show.

use svc_wire::proto::cosmos::gov::{v1, v1beta1};

use super::{
    sdk,
    view::{QueryContext, paginate},
};
use crate::{
    error::{LedgerError, QueryStatus},
    values::decimal::LegacyDec,
};

fn digits(decimal: &str) -> Vec<u8> {
    LegacyDec::from_text(decimal).unwrap_or_default().to_wire().into_bytes()
}

fn older_tally(tally: v1::TallyResult) -> v1beta1::TallyResult {
    let v1::TallyResult { yes_count, abstain_count, no_count, no_with_veto_count } = tally;
    v1beta1::TallyResult { yes: yes_count, abstain: abstain_count, no: no_count, no_with_veto: no_with_veto_count }
}

/// A node answers each type with its own parameters, and the others unset.
pub fn params(
    view: &QueryContext<'_>,
    request: v1beta1::QueryParamsRequest,
) -> Result<v1beta1::QueryParamsResponse, LedgerError> {
    let gov = view.state.params.gov.clone();
    let mut answer = v1beta1::QueryParamsResponse::default();
    match request.params_type.as_str() {
        "voting" => answer.voting_params = Some(v1beta1::VotingParams { voting_period: gov.voting_period }),
        "deposit" => {
            let params =
                v1beta1::DepositParams { min_deposit: gov.min_deposit, max_deposit_period: gov.max_deposit_period };
            answer.deposit_params = Some(params);
        }
        "tallying" => {
            answer.tally_params = Some(v1beta1::TallyParams {
                quorum: digits(&gov.quorum),
                threshold: digits(&gov.threshold),
                veto_threshold: digits(&gov.veto_threshold),
            });
        }
        other => {
            let text = format!("{other} is not a valid parameter type");
            return Err(LedgerError::from_query(QueryStatus::InvalidArgument, text));
        }
    }
    Ok(answer)
}

pub fn proposals(
    view: &QueryContext<'_>,
    request: v1beta1::QueryProposalsRequest,
) -> Result<v1beta1::QueryProposalsResponse, LedgerError> {
    let asked = v1::QueryProposalsRequest {
        proposal_status: request.proposal_status,
        voter: request.voter,
        depositor: request.depositor,
        pagination: request.pagination,
    };
    let found = sdk::gov_proposals(view, asked)?;
    if !found.proposals.is_empty() {
        let text =
            "can't convert a gov/v1 Proposal to gov/v1beta1 Proposal when proposal messages are not legacy content";
        return Err(LedgerError::from_query(QueryStatus::Other, text));
    }
    Ok(v1beta1::QueryProposalsResponse { proposals: Vec::new(), pagination: found.pagination })
}

pub fn votes(
    view: &QueryContext<'_>,
    request: v1beta1::QueryVotesRequest,
) -> Result<v1beta1::QueryVotesResponse, LedgerError> {
    let older = |vote: &v1::Vote| {
        let options = vote.options.iter().map(|option| v1beta1::WeightedVoteOption {
            option: option.option,
            weight: LegacyDec::from_text(&option.weight).unwrap_or_default().to_wire(),
        });
        let options: Vec<_> = options.collect();
        #[expect(deprecated, reason = "old clients read the one option of a vote there")]
        v1beta1::Vote {
            proposal_id: vote.proposal_id,
            voter: vote.voter.clone(),
            option: if options.len() == 1 { options[0].option } else { 0 },
            options,
        }
    };
    let found = view.state.gov_votes.values().filter(|vote| vote.proposal_id == request.proposal_id).map(older);
    let (votes, pagination) = paginate(found, request.pagination)?;
    Ok(v1beta1::QueryVotesResponse { votes, pagination })
}

pub fn tally(
    view: &QueryContext<'_>,
    request: v1beta1::QueryTallyResultRequest,
) -> Result<v1beta1::QueryTallyResultResponse, LedgerError> {
    let found = sdk::gov_tally(view, v1::QueryTallyResultRequest { proposal_id: request.proposal_id })?;
    Ok(v1beta1::QueryTallyResultResponse { tally: found.tally.map(older_tally) })
}
