//! Reads of entities from the node, at the height of the block that changed them.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};
use prost::Message;
use prost_types::Any;
use serde_json::Value;
use svc_net::upstream::{NodeClient, NodeClientError};
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
    proto_registry::ProtoRegistry,
};

use crate::{
    block::{EntityRef, parameters_id},
    projection::{authorizations, governance, groups, registry_entities},
    store::{EntityChange, EntityKind},
};

/// An entity as the node returned it. The store holds the rest.
#[derive(Debug, Clone)]
pub enum EntityReading {
    /// The new state; the body is absent when the node does not have the entity.
    Change(Box<EntityChange>),
    /// An allowance. Its granter may be a corporation or not.
    Allowance { granter: String, grantee: String, allowance: Option<Any> },
}

impl EntityReading {
    /// Whether the node has the entity.
    pub fn is_there(&self) -> bool {
        match self {
            Self::Change(change) => change.body.is_some(),
            Self::Allowance { allowance, .. } => allowance.is_some(),
        }
    }
}

/// Reads of one block that run at once.
const READ_CONCURRENCY: usize = 8;

/// Reads of one node.
#[derive(Clone, Copy)]
pub struct NodeReader<'a> {
    pub node: &'a NodeClient,
    pub registry: &'a ProtoRegistry,
}

/// Returns `None` for an entity that the node does not have at the height.
fn accept_missing<R>(answer: Result<R, NodeClientError>) -> Result<Option<R>, NodeClientError> {
    match answer {
        Ok(reply) => Ok(Some(reply)),
        Err(error) if error.is_absence() => Ok(None),
        Err(error) => Err(error),
    }
}

impl NodeReader<'_> {
    pub(super) async fn query_module<Q: Message, R: Message + Default>(
        &self,
        module: &str,
        rpc: &str,
        request: &Q,
        height: u64,
    ) -> Result<Option<R>, NodeClientError> {
        self.query(&self.registry.namespace().query_path(module, rpc), request, height).await
    }

    pub(super) async fn query_group_module<Q: Message, R: Message + Default>(
        &self,
        rpc: &str,
        request: &Q,
        height: u64,
    ) -> Result<Option<R>, NodeClientError> {
        self.query(&format!("/cosmos.group.v1.Query/{rpc}"), request, height).await
    }

    /// Queries the state after a block, at another node where the current one has pruned it.
    pub(super) async fn query<Q: Message, R: Message + Default>(
        &self,
        path: &str,
        request: &Q,
        height: u64,
    ) -> Result<Option<R>, NodeClientError> {
        // Absence is an answer, also that of another node.
        self.node.read_at_any(|node| async move { accept_missing(node.query(path, request, height).await) }).await
    }

    /// Reads several entities at a height, up to [`READ_CONCURRENCY`] at once. Fails with the first read that fails.
    pub async fn read_entities(
        self,
        entities: Vec<EntityRef>,
        height: u64,
    ) -> Result<BTreeMap<EntityRef, EntityReading>, NodeClientError> {
        let reads = entities.into_iter().map(|entity| async move {
            let reading = self.read_entity(&entity, height).await?;
            Ok::<_, NodeClientError>((entity, reading))
        });
        stream::iter(reads).buffer_unordered(READ_CONCURRENCY).try_collect().await
    }

    /// Reads the state of an entity after a block.
    pub async fn read_entity(&self, touched: &EntityRef, height: u64) -> Result<EntityReading, NodeClientError> {
        let change = match touched {
            EntityRef::Corporation(id) => self.read_corporation(*id, height).await?,
            EntityRef::Ecosystem(id) => self.read_ecosystem(*id, height).await?,
            EntityRef::Schema(id) => self.read_schema(*id, height).await?,
            EntityRef::Participant(id) => self.read_participant(*id, height).await?,
            EntityRef::Session(id) => self.read_session(id, height).await?,
            EntityRef::TrustDeposit(id) => self.read_trust_deposit(*id, height).await?,
            EntityRef::Digest(digest) => self.read_digest(digest, height).await?,
            EntityRef::ExchangeRate(id) => self.read_exchange_rate(*id, height).await?,
            EntityRef::OperatorAuthorization(id) => self.read_operator_authorization(*id, height).await?,
            EntityRef::VsOperatorAuthorization(id) => self.read_vs_operator_authorization(*id, height).await?,
            EntityRef::FeeAllowance { granter, grantee } => {
                return self.read_fee_allowance(granter, grantee, height).await;
            }
            EntityRef::Group { corporation_id, policy } => self.read_group(*corporation_id, policy, height).await?,
            EntityRef::Proposal(id) => self.read_proposal(*id, height).await?,
            EntityRef::Params(module) => self.read_params(module, height).await?,
        };
        Ok(EntityReading::Change(Box::new(change)))
    }

    async fn read_corporation(&self, id: u64, height: u64) -> Result<EntityChange, NodeClientError> {
        let request = QueryGetCorporationRequest { corporation_id: id, ..Default::default() };
        let reply: Option<QueryGetCorporationResponse> =
            self.query_module("co", "GetCorporation", &request, height).await?;
        let entity = reply.and_then(|reply| reply.corporation);
        Ok(EntityChange {
            corporation_id: Some(id),
            name: entity.as_ref().map(|entity| entity.policy_address.clone()),
            did: entity.as_ref().map(|entity| entity.did.clone()),
            ..EntityChange::new(EntityKind::Corporation, Some(id), entity.as_ref().map(governance::corporation))
        })
    }

    async fn read_ecosystem(&self, id: u64, height: u64) -> Result<EntityChange, NodeClientError> {
        let request = QueryGetEcosystemRequest { id, ..Default::default() };
        let reply: Option<QueryGetEcosystemResponse> =
            self.query_module("ec", "GetEcosystem", &request, height).await?;
        let entity = reply.and_then(|reply| reply.ecosystem);
        Ok(EntityChange {
            corporation_id: entity.as_ref().map(|entity| entity.corporation_id),
            did: entity.as_ref().map(|entity| entity.did.clone()),
            ..EntityChange::new(EntityKind::Ecosystem, Some(id), entity.as_ref().map(governance::ecosystem))
        })
    }

    async fn read_schema(&self, id: u64, height: u64) -> Result<EntityChange, NodeClientError> {
        let request = QueryGetCredentialSchemaRequest { id };
        let reply: Option<QueryGetCredentialSchemaResponse> =
            self.query_module("cs", "GetCredentialSchema", &request, height).await?;
        let entity = reply.and_then(|reply| reply.schema);
        Ok(EntityChange {
            parent_id: entity.as_ref().map(|entity| entity.ecosystem_id),
            ..EntityChange::new(EntityKind::Schema, Some(id), entity.as_ref().map(registry_entities::schema))
        })
    }

    async fn read_participant(&self, id: u64, height: u64) -> Result<EntityChange, NodeClientError> {
        let request = pp_pb::QueryGetParticipantRequest { id };
        let reply: Option<pp_pb::QueryGetParticipantResponse> =
            self.query_module("pp", "GetParticipant", &request, height).await?;
        let entity = reply.and_then(|reply| reply.participant);
        Ok(EntityChange {
            corporation_id: entity.as_ref().map(|entity| entity.corporation_id),
            parent_id: entity.as_ref().map(|entity| entity.schema_id),
            name: entity.as_ref().map(|entity| entity.vs_operator.clone()).filter(|name| !name.is_empty()),
            did: entity.as_ref().map(|entity| entity.did.clone()).filter(|did| !did.is_empty()),
            ..EntityChange::new(EntityKind::Participant, Some(id), entity.as_ref().map(registry_entities::participant))
        })
    }

    async fn read_session(&self, id: &str, height: u64) -> Result<EntityChange, NodeClientError> {
        let request = pp_pb::QueryGetParticipantSessionRequest { id: id.to_owned() };
        let reply: Option<pp_pb::QueryGetParticipantSessionResponse> =
            self.query_module("pp", "GetParticipantSession", &request, height).await?;
        let entity = reply.and_then(|reply| reply.participant_session);
        Ok(EntityChange {
            name: Some(id.to_owned()),
            ..EntityChange::new(EntityKind::Session, None, entity.as_ref().map(registry_entities::session))
        })
    }

    async fn read_trust_deposit(&self, id: u64, height: u64) -> Result<EntityChange, NodeClientError> {
        let request = QueryGetTrustDepositRequest { corporation_id: id };
        let reply: Option<QueryGetTrustDepositResponse> =
            self.query_module("td", "GetTrustDeposit", &request, height).await?;
        let entity = reply.and_then(|reply| reply.trust_deposit);
        Ok(EntityChange {
            corporation_id: Some(id),
            ..EntityChange::new(
                EntityKind::TrustDeposit,
                Some(id),
                entity.as_ref().map(registry_entities::trust_deposit),
            )
        })
    }

    async fn read_digest(&self, digest: &str, height: u64) -> Result<EntityChange, NodeClientError> {
        let request = QueryGetDigestRequest { digest: digest.to_owned() };
        let reply: Option<QueryGetDigestResponse> = self.query_module("di", "GetDigest", &request, height).await?;
        let entity = reply.and_then(|reply| reply.digest);
        let body = entity.as_ref().map(registry_entities::digest);
        Ok(EntityChange { name: Some(digest.to_owned()), ..EntityChange::new(EntityKind::Digest, None, body) })
    }

    async fn read_exchange_rate(&self, id: u64, height: u64) -> Result<EntityChange, NodeClientError> {
        let request = QueryGetExchangeRateRequest { id, ..Default::default() };
        let reply: Option<QueryGetExchangeRateResponse> =
            self.query_module("xr", "GetExchangeRate", &request, height).await?;
        let entity = reply.and_then(|reply| reply.exchange_rate);
        Ok(EntityChange::new(EntityKind::ExchangeRate, Some(id), entity.as_ref().map(registry_entities::exchange_rate)))
    }

    async fn read_operator_authorization(&self, id: u64, height: u64) -> Result<EntityChange, NodeClientError> {
        let request = de_pb::QueryGetOperatorAuthorizationRequest { id };
        let reply: Option<de_pb::QueryGetOperatorAuthorizationResponse> =
            self.query_module("de", "GetOperatorAuthorization", &request, height).await?;
        let entity = reply.and_then(|reply| reply.operator_authorization);
        Ok(EntityChange {
            corporation_id: entity.as_ref().map(|entity| entity.corporation_id),
            name: entity.as_ref().map(|entity| entity.operator.clone()),
            ..EntityChange::new(
                EntityKind::OperatorAuthorization,
                Some(id),
                entity.as_ref().map(authorizations::operator_authorization),
            )
        })
    }

    async fn read_vs_operator_authorization(&self, id: u64, height: u64) -> Result<EntityChange, NodeClientError> {
        let request = de_pb::QueryGetVsOperatorAuthorizationRequest { id };
        let reply: Option<de_pb::QueryGetVsOperatorAuthorizationResponse> =
            self.query_module("de", "GetVSOperatorAuthorization", &request, height).await?;
        let entity = reply.and_then(|reply| reply.vs_operator_authorization);
        Ok(EntityChange {
            corporation_id: entity.as_ref().map(|entity| entity.corporation_id),
            name: entity.as_ref().map(|entity| entity.vs_operator.clone()),
            ..EntityChange::new(
                EntityKind::VsOperatorAuthorization,
                Some(id),
                entity.as_ref().map(authorizations::vs_operator_authorization),
            )
        })
    }

    async fn read_fee_allowance(
        &self,
        granter: &str,
        grantee: &str,
        height: u64,
    ) -> Result<EntityReading, NodeClientError> {
        let (granter, grantee) = (granter.to_owned(), grantee.to_owned());
        let request = QueryAllowanceRequest { granter: granter.clone(), grantee: grantee.clone() };
        let path = "/cosmos.feegrant.v1beta1.Query/Allowance";
        let reply: Option<QueryAllowanceResponse> = self.query(path, &request, height).await?;
        let allowance = reply.and_then(|reply| reply.allowance).and_then(|grant| grant.allowance);
        Ok(EntityReading::Allowance { granter, grantee, allowance })
    }

    async fn read_group(
        &self,
        corporation_id: u64,
        policy: &str,
        height: u64,
    ) -> Result<EntityChange, NodeClientError> {
        let request = group_pb::QueryGroupPolicyInfoRequest { address: policy.to_owned() };
        let reply: Option<group_pb::QueryGroupPolicyInfoResponse> =
            self.query_group_module("GroupPolicyInfo", &request, height).await?;
        let policy_info = reply.and_then(|reply| reply.info).unwrap_or_default();
        let group_id = policy_info.group_id;
        let request = group_pb::QueryGroupInfoRequest { group_id };
        let reply: Option<group_pb::QueryGroupInfoResponse> =
            self.query_group_module("GroupInfo", &request, height).await?;
        let info = reply.and_then(|reply| reply.info);
        let mut members = Vec::new();
        let mut next = Vec::new();
        loop {
            let pagination = page_request(next);
            let request = group_pb::QueryGroupMembersRequest { group_id, pagination };
            let reply: Option<group_pb::QueryGroupMembersResponse> =
                self.query_group_module("GroupMembers", &request, height).await?;
            let reply = reply.unwrap_or_default();
            members.extend(reply.members);
            next = reply.pagination.map(|page| page.next_key).unwrap_or_default();
            if next.is_empty() {
                break;
            }
        }
        let body = info.map(|info| groups::group(self.registry, corporation_id, &info, &policy_info, &members));
        Ok(EntityChange {
            corporation_id: Some(corporation_id),
            parent_id: Some(group_id),
            name: Some(policy.to_owned()),
            ..EntityChange::new(EntityKind::Group, Some(corporation_id), body)
        })
    }

    async fn read_proposal(&self, id: u64, height: u64) -> Result<EntityChange, NodeClientError> {
        let request = group_pb::QueryProposalRequest { proposal_id: id };
        let reply: Option<group_pb::QueryProposalResponse> =
            self.query_group_module("Proposal", &request, height).await?;
        let entity = reply.and_then(|reply| reply.proposal);
        let votes = match &entity {
            None => None,
            Some(_) => {
                let request = group_pb::QueryTallyResultRequest { proposal_id: id };
                let reply: Option<group_pb::QueryTallyResultResponse> =
                    self.query_group_module("TallyResult", &request, height).await?;
                reply.and_then(|reply| reply.tally)
            }
        };
        let body = entity.as_ref().map(|entity| groups::proposal(self.registry, entity, votes.as_ref()));
        let name = entity.map(|entity| entity.group_policy_address);
        Ok(EntityChange { name, ..EntityChange::new(EntityKind::Proposal, Some(id), body) })
    }

    async fn read_params(&self, module: &'static str, height: u64) -> Result<EntityChange, NodeClientError> {
        let namespace = self.registry.namespace();
        let path = namespace.query_path(module, "Params");
        let path = path.as_str();
        let ask = |node: NodeClient| async move { accept_missing(node.query_bytes(path, &[], height).await) };
        let bytes = self.node.read_at_any(ask).await?;
        let decoded = bytes
            .and_then(|bytes| self.registry.decode(&namespace.full_name(module, "QueryParamsResponse"), &bytes).ok());
        let params = decoded.map(|reply| registry_entities::params(reply.get("params").unwrap_or(&Value::Null)));
        let id = parameters_id(module);
        Ok(EntityChange { name: Some(module.to_owned()), ..EntityChange::new(EntityKind::Params, Some(id), params) })
    }
}

/// Returns the request for the page of an SDK list that begins at a key.
pub(super) fn page_request(key: Vec<u8>) -> Option<PageRequest> {
    Some(PageRequest { key, limit: 1_000, ..Default::default() })
}
