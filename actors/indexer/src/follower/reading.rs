//! Reading a touched entity from the node, at the height that touched it.

use prost::Message;
use prost_types::Any;
use serde_json::Value;
use svc_kit::upstream::{NodeClient, NodeError};
use svc_wire::{
    proto::{
        cosmos::{
            base::query::v1beta1::PageRequest,
            feegrant::v1beta1::{QueryAllowanceRequest, QueryAllowanceResponse},
            group::v1 as group_pb,
        },
        svc::{
            co::v1::{QueryGetCorporationRequest, QueryGetCorporationResponse},
            cs::v1::{QueryGetCredentialSchemaRequest, QueryGetCredentialSchemaResponse},
            de::v1 as de_pb,
            di::v1::{QueryGetDigestRequest, QueryGetDigestResponse},
            ec::v1::{QueryGetEcosystemRequest, QueryGetEcosystemResponse},
            pp::v1 as pp_pb,
            td::v1::{QueryGetTrustDepositRequest, QueryGetTrustDepositResponse},
            xr::v1::{QueryGetExchangeRateRequest, QueryGetExchangeRateResponse},
        },
    },
    schema::Registry,
};

use crate::{
    block::{Touched, parameters_id},
    project::{delegation, framework, group, market},
    store::{Change, Kind},
};

/// What the node said of an entity; the rest is known to the store.
#[derive(Debug, Clone)]
pub enum Reading {
    /// Its new state; no body when it is gone.
    Change(Box<Change>),
    /// An allowance; whether its granter is a corporation is still to be seen.
    Allowance { granter: String, grantee: String, allowance: Option<Any> },
}

/// Reads from one node.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub node: &'a NodeClient,
    pub registry: &'a Registry,
}

/// `None` for an entity the node does not have at that height.
fn found<R>(answer: Result<R, NodeError>) -> Result<Option<R>, NodeError> {
    match answer {
        Ok(reply) => Ok(Some(reply)),
        Err(NodeError::Query { error, .. }) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// NotFound is sdk/22; a missing fee allowance or participant is answered as gRPC Internal, sdk/6, with a sentence about it.
fn is_missing(error: &svc_wire::chain_error::ChainError) -> bool {
    let (codespace, code) = (error.codespace.as_str(), error.code);
    (codespace, code) == ("sdk", 22)
        || (codespace, code) == ("sdk", 38)
        || ((codespace, code) == ("sdk", 6) && error.raw_log.contains("not found"))
}

impl Source<'_> {
    pub(super) async fn ask<Q: Message, R: Message + Default>(
        &self,
        module: &str,
        rpc: &str,
        request: &Q,
        height: u64,
    ) -> Result<Option<R>, NodeError> {
        found(self.node.query(&self.registry.namespace().query_path(module, rpc), request, height).await)
    }

    pub(super) async fn ask_group<Q: Message, R: Message + Default>(
        &self,
        rpc: &str,
        request: &Q,
        height: u64,
    ) -> Result<Option<R>, NodeError> {
        found(self.node.query(&format!("/cosmos.group.v1.Query/{rpc}"), request, height).await)
    }

    /// State of an entity after a block.
    pub async fn read(&self, touched: &Touched, height: u64) -> Result<Reading, NodeError> {
        let change = match touched {
            Touched::Corporation(id) => {
                let request = QueryGetCorporationRequest { corporation_id: *id, ..Default::default() };
                let reply: Option<QueryGetCorporationResponse> =
                    self.ask("co", "GetCorporation", &request, height).await?;
                let entity = reply.and_then(|reply| reply.corporation);
                Change {
                    corporation_id: Some(*id),
                    name: entity.as_ref().map(|entity| entity.policy_address.clone()),
                    did: entity.as_ref().map(|entity| entity.did.clone()),
                    ..Change::new(Kind::Corporation, Some(*id), entity.as_ref().map(framework::corporation))
                }
            }
            Touched::Ecosystem(id) => {
                let request = QueryGetEcosystemRequest { id: *id, ..Default::default() };
                let reply: Option<QueryGetEcosystemResponse> = self.ask("ec", "GetEcosystem", &request, height).await?;
                let entity = reply.and_then(|reply| reply.ecosystem);
                Change {
                    corporation_id: entity.as_ref().map(|entity| entity.corporation_id),
                    did: entity.as_ref().map(|entity| entity.did.clone()),
                    ..Change::new(Kind::Ecosystem, Some(*id), entity.as_ref().map(framework::ecosystem))
                }
            }
            Touched::Schema(id) => {
                let request = QueryGetCredentialSchemaRequest { id: *id };
                let reply: Option<QueryGetCredentialSchemaResponse> =
                    self.ask("cs", "GetCredentialSchema", &request, height).await?;
                let entity = reply.and_then(|reply| reply.schema);
                Change {
                    parent_id: entity.as_ref().map(|entity| entity.ecosystem_id),
                    ..Change::new(Kind::Schema, Some(*id), entity.as_ref().map(market::schema))
                }
            }
            Touched::Participant(id) => {
                let request = pp_pb::QueryGetParticipantRequest { id: *id };
                let reply: Option<pp_pb::QueryGetParticipantResponse> =
                    self.ask("pp", "GetParticipant", &request, height).await?;
                let entity = reply.and_then(|reply| reply.participant);
                Change {
                    corporation_id: entity.as_ref().map(|entity| entity.corporation_id),
                    parent_id: entity.as_ref().map(|entity| entity.schema_id),
                    name: entity.as_ref().map(|entity| entity.vs_operator.clone()).filter(|name| !name.is_empty()),
                    did: entity.as_ref().map(|entity| entity.did.clone()).filter(|did| !did.is_empty()),
                    ..Change::new(Kind::Participant, Some(*id), entity.as_ref().map(market::participant))
                }
            }
            Touched::Session(id) => {
                let request = pp_pb::QueryGetParticipantSessionRequest { id: id.clone() };
                let reply: Option<pp_pb::QueryGetParticipantSessionResponse> =
                    self.ask("pp", "GetParticipantSession", &request, height).await?;
                let entity = reply.and_then(|reply| reply.participant_session);
                Change {
                    name: Some(id.clone()),
                    ..Change::new(Kind::Session, None, entity.as_ref().map(market::session))
                }
            }
            Touched::TrustDeposit(id) => {
                let request = QueryGetTrustDepositRequest { corporation_id: *id };
                let reply: Option<QueryGetTrustDepositResponse> =
                    self.ask("td", "GetTrustDeposit", &request, height).await?;
                let entity = reply.and_then(|reply| reply.trust_deposit);
                Change {
                    corporation_id: Some(*id),
                    ..Change::new(Kind::TrustDeposit, Some(*id), entity.as_ref().map(market::trust_deposit))
                }
            }
            Touched::Digest(digest) => {
                let request = QueryGetDigestRequest { digest: digest.clone() };
                let reply: Option<QueryGetDigestResponse> = self.ask("di", "GetDigest", &request, height).await?;
                let entity = reply.and_then(|reply| reply.digest);
                let body = entity.as_ref().map(market::digest);
                Change { name: Some(digest.clone()), ..Change::new(Kind::Digest, None, body) }
            }
            Touched::ExchangeRate(id) => {
                let request = QueryGetExchangeRateRequest { id: *id, ..Default::default() };
                let reply: Option<QueryGetExchangeRateResponse> =
                    self.ask("xr", "GetExchangeRate", &request, height).await?;
                let entity = reply.and_then(|reply| reply.exchange_rate);
                Change::new(Kind::ExchangeRate, Some(*id), entity.as_ref().map(market::exchange_rate))
            }
            Touched::OperatorAuthorization(id) => {
                let request = de_pb::QueryGetOperatorAuthorizationRequest { id: *id };
                let reply: Option<de_pb::QueryGetOperatorAuthorizationResponse> =
                    self.ask("de", "GetOperatorAuthorization", &request, height).await?;
                let entity = reply.and_then(|reply| reply.operator_authorization);
                Change {
                    corporation_id: entity.as_ref().map(|entity| entity.corporation_id),
                    name: entity.as_ref().map(|entity| entity.operator.clone()),
                    ..Change::new(
                        Kind::OperatorAuthorization,
                        Some(*id),
                        entity.as_ref().map(delegation::operator_authorization),
                    )
                }
            }
            Touched::VsOperatorAuthorization(id) => {
                let request = de_pb::QueryGetVsOperatorAuthorizationRequest { id: *id };
                let reply: Option<de_pb::QueryGetVsOperatorAuthorizationResponse> =
                    self.ask("de", "GetVSOperatorAuthorization", &request, height).await?;
                let entity = reply.and_then(|reply| reply.vs_operator_authorization);
                Change {
                    corporation_id: entity.as_ref().map(|entity| entity.corporation_id),
                    name: entity.as_ref().map(|entity| entity.vs_operator.clone()),
                    ..Change::new(
                        Kind::VsOperatorAuthorization,
                        Some(*id),
                        entity.as_ref().map(delegation::vs_operator_authorization),
                    )
                }
            }
            Touched::FeeAllowance { granter, grantee } => {
                let request = QueryAllowanceRequest { granter: granter.clone(), grantee: grantee.clone() };
                let path = "/cosmos.feegrant.v1beta1.Query/Allowance";
                let reply: Option<QueryAllowanceResponse> = found(self.node.query(path, &request, height).await)?;
                let allowance = reply.and_then(|reply| reply.allowance).and_then(|grant| grant.allowance);
                return Ok(Reading::Allowance { granter: granter.clone(), grantee: grantee.clone(), allowance });
            }
            Touched::Group { corporation_id, policy } => self.group(*corporation_id, policy, height).await?,
            Touched::Proposal(id) => self.proposal(*id, height).await?,
            Touched::Params(module) => self.params(module, height).await?,
        };
        Ok(Reading::Change(Box::new(change)))
    }

    async fn group(&self, corporation_id: u64, policy: &str, height: u64) -> Result<Change, NodeError> {
        let request = group_pb::QueryGroupPolicyInfoRequest { address: policy.to_owned() };
        let reply: Option<group_pb::QueryGroupPolicyInfoResponse> =
            self.ask_group("GroupPolicyInfo", &request, height).await?;
        let policy_info = reply.and_then(|reply| reply.info).unwrap_or_default();
        let group_id = policy_info.group_id;
        let request = group_pb::QueryGroupInfoRequest { group_id };
        let reply: Option<group_pb::QueryGroupInfoResponse> = self.ask_group("GroupInfo", &request, height).await?;
        let info = reply.and_then(|reply| reply.info);
        let mut members = Vec::new();
        let mut next = Vec::new();
        loop {
            let pagination = page(next);
            let request = group_pb::QueryGroupMembersRequest { group_id, pagination };
            let reply: Option<group_pb::QueryGroupMembersResponse> =
                self.ask_group("GroupMembers", &request, height).await?;
            let reply = reply.unwrap_or_default();
            members.extend(reply.members);
            next = reply.pagination.map(|page| page.next_key).unwrap_or_default();
            if next.is_empty() {
                break;
            }
        }
        let body = info.map(|info| group::group(self.registry, corporation_id, &info, &policy_info, &members));
        Ok(Change {
            corporation_id: Some(corporation_id),
            parent_id: Some(group_id),
            name: Some(policy.to_owned()),
            ..Change::new(Kind::Group, Some(corporation_id), body)
        })
    }

    async fn proposal(&self, id: u64, height: u64) -> Result<Change, NodeError> {
        let request = group_pb::QueryProposalRequest { proposal_id: id };
        let reply: Option<group_pb::QueryProposalResponse> = self.ask_group("Proposal", &request, height).await?;
        let entity = reply.and_then(|reply| reply.proposal);
        let votes = match &entity {
            None => None,
            Some(_) => {
                let request = group_pb::QueryTallyResultRequest { proposal_id: id };
                let reply: Option<group_pb::QueryTallyResultResponse> =
                    self.ask_group("TallyResult", &request, height).await?;
                reply.and_then(|reply| reply.tally)
            }
        };
        let body = entity.as_ref().map(|entity| group::proposal(self.registry, entity, votes.as_ref()));
        let name = entity.map(|entity| entity.group_policy_address);
        Ok(Change { name, ..Change::new(Kind::Proposal, Some(id), body) })
    }

    async fn params(&self, module: &'static str, height: u64) -> Result<Change, NodeError> {
        let namespace = self.registry.namespace();
        let bytes = found(self.node.query_bytes(&namespace.query_path(module, "Params"), &[], height).await)?;
        let decoded = bytes
            .and_then(|bytes| self.registry.decode(&namespace.full_name(module, "QueryParamsResponse"), &bytes).ok());
        let params = decoded.map(|reply| market::params(reply.get("params").unwrap_or(&Value::Null)));
        let id = parameters_id(module);
        Ok(Change { name: Some(module.to_owned()), ..Change::new(Kind::Params, Some(id), params) })
    }
}

/// The next page of a list of the SDK.
pub(super) fn page(key: Vec<u8>) -> Option<PageRequest> {
    Some(PageRequest { key, limit: 1_000, ..Default::default() })
}
