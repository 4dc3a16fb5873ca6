//! Steps that only the authority may take: proposals of governance, or of the council in its place.

use std::time::Duration;

use prost::Message;
use prost_types::Any;
use serde_json::json;
use svc_wire::proto::cosmos::{
    gov::v1::{ProposalStatus, QueryParamsRequest, QueryParamsResponse, QueryProposalRequest, QueryProposalResponse},
    group::v1::{
        Exec, GroupPolicyInfo, PercentageDecisionPolicy, QueryGroupMembersRequest, QueryGroupMembersResponse,
        QueryGroupPolicyInfoRequest, QueryGroupPolicyInfoResponse,
    },
};

use super::{
    runner::{ScenarioRunner, SeedError, StepOutcome, ensure_executed, event_attribute, with_messages},
    spec::ScenarioStep,
};

const GOV_DEPOSIT_AMOUNT: &str = "10000000";
/// Header times rise by a millisecond at least, so quick blocks may have left the wall clock behind.
const CLOCK_LAG: Duration = Duration::from_secs(2);

impl ScenarioRunner<'_> {
    /// Has the authority of the chain run messages.
    pub(super) async fn pass_as_authority(
        &self,
        step: &ScenarioStep,
        proposer: &str,
        inner: &[Any],
    ) -> Result<StepOutcome, SeedError> {
        if self.chain.has_council() {
            self.pass_council_proposal(step, proposer, inner).await
        } else {
            self.pass_gov_proposal(step, proposer, inner).await
        }
    }

    /// Submits a proposal of the council, has every seat of the scenario vote yes, and moves the clock to the earliest execution; fails
    /// unless it was executed.
    async fn pass_council_proposal(
        &self,
        step: &ScenarioStep,
        proposer: &str,
        inner: &[Any],
    ) -> Result<StepOutcome, SeedError> {
        let failed = |reason: String| SeedError::Step { step: step.name.clone(), reason };
        let council = self.saved_values.get("gov").cloned().unwrap_or_default();
        let request = QueryGroupPolicyInfoRequest { address: council.clone() };
        let found: QueryGroupPolicyInfoResponse =
            self.client.query("/cosmos.group.v1.Query/GroupPolicyInfo", &request, 0).await?;
        let policy = found.info.unwrap_or_default();
        let submit = self.encode_group_proposal(&step.name, proposer, &council, Exec::Unspecified, inner)?;
        let submitted = self.send_tx(&step.name, proposer, None, vec![submit]).await?;
        let id = event_attribute(&submitted.events, "cosmos.group.v1.EventSubmitProposal", "proposal_id");
        let id = id.ok_or_else(|| failed("the proposal has no id".to_owned()))?.trim_matches('"').to_owned();
        for (name, address) in self.list_seats(policy.group_id).await? {
            let vote = json!({"proposal_id": id, "voter": address, "option": "VOTE_OPTION_YES"});
            let vote = self.encode_message(&step.name, "/cosmos.group.v1.MsgVote", &vote)?;
            self.send_tx(&step.name, &name, None, vec![vote]).await?;
        }
        self.node.advance_clock(min_execution(&policy) + CLOCK_LAG);
        self.make_block().await?;
        let executor = self.saved_values.get(proposer).cloned().unwrap_or_default();
        let exec = json!({"proposal_id": id, "executor": executor});
        let exec = self.encode_message(&step.name, "/cosmos.group.v1.MsgExec", &exec)?;
        let outcome = self.send_tx(&step.name, proposer, None, vec![exec]).await?;
        ensure_executed(&step.name, &outcome.events)?;
        Ok(outcome)
    }

    /// The accounts of the scenario that are members of a group, each with its address.
    async fn list_seats(&self, group_id: u64) -> Result<Vec<(String, String)>, SeedError> {
        let request = QueryGroupMembersRequest { group_id, pagination: None };
        let path = "/cosmos.group.v1.Query/GroupMembers";
        let reply: QueryGroupMembersResponse = self.client.query(path, &request, 0).await?;
        let members: Vec<String> =
            reply.members.into_iter().filter_map(|one| one.member).map(|member| member.address).collect();
        let of_scenario = self.accounts.iter().map(|(name, account)| (name.clone(), account.address.to_string()));
        Ok(of_scenario.filter(|(_, address)| members.contains(address)).collect())
    }

    /// Submits a governance proposal, votes yes, and moves the clock to the end of the voting period; fails unless it passed.
    async fn pass_gov_proposal(
        &self,
        step: &ScenarioStep,
        proposer: &str,
        inner: &[Any],
    ) -> Result<StepOutcome, SeedError> {
        let address = self.saved_values.get(proposer).cloned().unwrap_or_default();
        let deposit = json!([{"denom": self.chain.denom, "amount": GOV_DEPOSIT_AMOUNT}]);
        let submit = self.encode_message(
            &step.name,
            "/cosmos.gov.v1.MsgSubmitProposal",
            &json!({
                "proposer": address, "initial_deposit": deposit, "title": step.name, "summary": step.name,
            }),
        )?;
        let submitted = self.send_tx(&step.name, proposer, None, vec![with_messages(submit, 1, inner)]).await?;
        let id = event_attribute(&submitted.events, "submit_proposal", "proposal_id").unwrap_or_default();
        let vote = json!({"proposal_id": id, "voter": address, "option": "VOTE_OPTION_YES"});
        let vote = self.encode_message(&step.name, "/cosmos.gov.v1.MsgVote", &vote)?;
        self.send_tx(&step.name, proposer, None, vec![vote]).await?;
        let params: QueryParamsResponse =
            self.client.query("/cosmos.gov.v1.Query/Params", &QueryParamsRequest::default(), 0).await?;
        let voting = params.params.and_then(|params| params.voting_period).unwrap_or_default();
        self.node.advance_clock(Duration::from_secs(voting.seconds.unsigned_abs()));
        let mut block = self.make_block().await?;
        let request = QueryProposalRequest { proposal_id: id.parse().unwrap_or(0) };
        let path = "/cosmos.gov.v1.Query/Proposal";
        let mut found: QueryProposalResponse = self.client.query(path, &request, 0).await?;
        // The wall clock may be behind the header times.
        if found.proposal.as_ref().is_some_and(|one| one.status() == ProposalStatus::VotingPeriod) {
            self.node.advance_clock(Duration::from_secs(1));
            block = self.make_block().await?;
            found = self.client.query(path, &request, 0).await?;
        }
        let proposal = found.proposal.unwrap_or_default();
        if proposal.status() != ProposalStatus::Passed {
            let reason = format!("{}: {}", proposal.status().as_str_name(), proposal.failed_reason);
            return Err(SeedError::Step { step: step.name.clone(), reason });
        }
        Ok(StepOutcome { responses: Vec::new(), events: block.events.clone() })
    }
}

/// Time between a proposal under a policy and its earliest execution.
fn min_execution(policy: &GroupPolicyInfo) -> Duration {
    let decision = policy.decision_policy.as_ref();
    let windows = decision.and_then(|packed| PercentageDecisionPolicy::decode(packed.value.as_slice()).ok()?.windows);
    let period = windows.and_then(|windows| windows.min_execution_period).unwrap_or_default();
    Duration::from_secs(period.seconds.unsigned_abs())
}
