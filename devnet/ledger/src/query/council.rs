//! The council of validators. The devnet has no validators of staking: an account with stake stands for one.

use svc_wire::proto::cosmos::group::v1::GroupMember;

use super::view::{QueryContext, not_found};
use crate::{error::LedgerError, modules::council};

#[derive(Clone, PartialEq, prost::Message)]
pub struct QueryCouncilRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct QueryCouncilResponse {
    #[prost(string, tag = "1")]
    authority: String,
    #[prost(uint64, tag = "2")]
    group_id: u64,
    #[prost(string, repeated, tag = "3")]
    members: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    members_without_validator: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    validators_without_seat: Vec<String>,
}

pub fn council(view: &QueryContext<'_>, _: QueryCouncilRequest) -> Result<QueryCouncilResponse, LedgerError> {
    let policy = council::policy(view.state, view.chain).ok_or_else(|| not_found("council not found".to_owned()))?;
    let is_seat = |member: &&GroupMember| member.group_id == policy.group_id;
    let address = |member: &GroupMember| member.member.as_ref().map(|member| member.address.clone());
    let members: Vec<String> = view.state.group_members.values().filter(is_seat).filter_map(address).collect();
    let validators: Vec<&String> = view.state.bonded.iter().map(|(address, _)| address).collect();
    let without_validator = members.iter().filter(|member| !validators.contains(member)).cloned();
    let without_seat = validators.iter().filter(|validator| !members.contains(validator)).map(|one| (*one).clone());
    Ok(QueryCouncilResponse {
        authority: policy.address.clone(),
        group_id: policy.group_id,
        members_without_validator: without_validator.collect(),
        validators_without_seat: without_seat.collect(),
        members,
    })
}
