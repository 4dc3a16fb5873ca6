//! Taking one block in: fetch it, read every touched entity at its height, shape events.

use svc_kit::upstream::{NodeClient, NodeError};
use svc_wire::{
    event::{Event, EventKind as IndexerEvent, Payload},
    instant::{iso_seconds, rfc3339_nanos},
    proto::{
        cosmos::feegrant::v1beta1::{QueryAllowanceRequest, QueryAllowanceResponse},
        svc::{
            co::v1::{QueryGetCorporationRequest, QueryGetCorporationResponse},
            de::v1::{
                QueryGetOperatorAuthorizationRequest, QueryGetOperatorAuthorizationResponse,
                QueryGetVsOperatorAuthorizationRequest, QueryGetVsOperatorAuthorizationResponse,
            },
            ec::v1::{QueryGetEcosystemRequest, QueryGetEcosystemResponse},
        },
    },
    schema::Namespace,
};

use crate::{
    facts::{self, BlockFacts, EventKind, RawEvent, Touched, unquoted},
    project,
    store::{BlockWrite, Change, Kind, Store, StoreError},
};

/// A block could not be taken in.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    #[error(transparent)]
    Node(#[from] NodeError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("block {0} has a header time that is no time")]
    Time(u64),
}

/// Fetches a block and reads what it says.
pub async fn fetch(node: &NodeClient, height: u64) -> Result<BlockFacts, IngestError> {
    let (block, results) = tokio::try_join!(node.block(height), node.block_results(height))?;
    facts::read(&block, &results).ok_or(IngestError::Time(height))
}

/// Where entities and their earlier versions are read.
pub struct Sources<'a> {
    pub node: &'a NodeClient,
    pub store: &'a Store,
    pub namespace: &'a Namespace,
}

/// `None` for an entity the node does not have at that height.
fn found<R>(answer: Result<R, NodeError>) -> Result<Option<R>, NodeError> {
    match answer {
        Ok(reply) => Ok(Some(reply)),
        Err(NodeError::Query { error, .. }) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// NotFound is sdk/22; a missing fee allowance is answered as gRPC Internal, sdk/6, with a sentence about it.
fn is_missing(error: &svc_wire::chain_error::ChainError) -> bool {
    let (codespace, code) = (error.codespace.as_str(), error.code);
    (codespace, code) == ("sdk", 22) || ((codespace, code) == ("sdk", 6) && error.raw_log.contains("not found"))
}

impl Sources<'_> {
    /// Everything the block writes.
    pub async fn gather(&self, facts: &BlockFacts) -> Result<BlockWrite, IngestError> {
        let mut touched = facts.touched.clone();
        for address in facts.framework_corporations() {
            let known = self.store.entity_by_account(Kind::Corporation, address, None).await?;
            touched.extend(known.map(|stored| Touched::Corporation(stored.id)));
        }
        let mut changes = Vec::new();
        for one in &touched {
            changes.extend(self.read(one, facts).await?);
        }
        let mut events = Vec::new();
        for raw in &facts.events {
            events.push(self.shape(raw, facts, &changes).await?);
        }
        Ok(BlockWrite {
            height: facts.height,
            time: rfc3339_nanos(&facts.time),
            changes,
            events,
            proposals: facts.proposals.clone(),
        })
    }

    async fn read(&self, touched: &Touched, facts: &BlockFacts) -> Result<Option<Change>, IngestError> {
        let height = facts.height;
        match touched {
            Touched::Corporation(id) => {
                let request = QueryGetCorporationRequest { corporation_id: *id, ..Default::default() };
                let path = self.namespace.query_path("co", "GetCorporation");
                let reply: Option<QueryGetCorporationResponse> = found(self.node.query(&path, &request, height).await)?;
                let entity = reply.and_then(|reply| reply.corporation);
                Ok(Some(Change {
                    kind: Kind::Corporation,
                    id: Some(*id),
                    corporation_id: Some(*id),
                    account: entity.as_ref().map(|entity| entity.policy_address.clone()),
                    body: entity.as_ref().map(project::corporation),
                }))
            }
            Touched::Ecosystem(id) => {
                let request = QueryGetEcosystemRequest { id: *id, ..Default::default() };
                let path = self.namespace.query_path("ec", "GetEcosystem");
                let reply: Option<QueryGetEcosystemResponse> = found(self.node.query(&path, &request, height).await)?;
                let entity = reply.and_then(|reply| reply.ecosystem);
                let before = self.store.entity(Kind::Ecosystem, *id, height).await?;
                Ok(Some(Change {
                    kind: Kind::Ecosystem,
                    id: Some(*id),
                    corporation_id: entity.as_ref().map(|entity| entity.corporation_id),
                    account: None,
                    body: entity.as_ref().map(|entity| project::ecosystem(entity, before.as_ref())),
                }))
            }
            Touched::OperatorAuthorization(id) => {
                let request = QueryGetOperatorAuthorizationRequest { id: *id };
                let path = self.namespace.query_path("de", "GetOperatorAuthorization");
                let reply: Option<QueryGetOperatorAuthorizationResponse> =
                    found(self.node.query(&path, &request, height).await)?;
                let entity = reply.and_then(|reply| reply.operator_authorization);
                Ok(Some(Change {
                    kind: Kind::OperatorAuthorization,
                    id: Some(*id),
                    corporation_id: entity.as_ref().map(|entity| entity.corporation_id),
                    account: entity.as_ref().map(|entity| entity.operator.clone()),
                    body: entity.as_ref().map(project::operator_authorization),
                }))
            }
            Touched::VsOperatorAuthorization(id) => {
                let request = QueryGetVsOperatorAuthorizationRequest { id: *id };
                let path = self.namespace.query_path("de", "GetVSOperatorAuthorization");
                let reply: Option<QueryGetVsOperatorAuthorizationResponse> =
                    found(self.node.query(&path, &request, height).await)?;
                let entity = reply.and_then(|reply| reply.vs_operator_authorization);
                Ok(Some(Change {
                    kind: Kind::VsOperatorAuthorization,
                    id: Some(*id),
                    corporation_id: entity.as_ref().map(|entity| entity.corporation_id),
                    account: entity.as_ref().map(|entity| entity.vs_operator.clone()),
                    body: entity.as_ref().map(project::vs_operator_authorization),
                }))
            }
            Touched::FeeAllowance { granter, grantee } => self.read_allowance(granter, grantee, facts).await,
        }
    }

    /// Allowances of accounts that are no corporation are not the registry's business.
    async fn read_allowance(
        &self,
        granter: &str,
        grantee: &str,
        facts: &BlockFacts,
    ) -> Result<Option<Change>, IngestError> {
        let corporation = self.store.entity_by_account(Kind::Corporation, granter, None).await?;
        let Some(corporation_id) = corporation.map(|stored| stored.id) else { return Ok(None) };
        let request = QueryAllowanceRequest { granter: granter.to_owned(), grantee: grantee.to_owned() };
        let path = "/cosmos.feegrant.v1beta1.Query/Allowance";
        let reply: Option<QueryAllowanceResponse> = found(self.node.query(path, &request, facts.height).await)?;
        let allowance = reply.and_then(|reply| reply.allowance).and_then(|grant| grant.allowance);
        let before = self.store.entity_by_account(Kind::FeeGrant, grantee, Some(corporation_id)).await?;
        let is_new = facts.granted_fees.contains(&(corporation_id.to_string(), grantee.to_owned()));
        let body = allowance.and_then(|allowance| {
            project::fee_grant(corporation_id, grantee, &allowance, before.as_ref().map(|stored| &stored.body), is_new)
        });
        Ok(Some(Change {
            kind: Kind::FeeGrant,
            id: None,
            corporation_id: Some(corporation_id),
            account: Some(grantee.to_owned()),
            body,
        }))
    }

    /// An event with its routes: the DIDs and corporations it concerns, from the state after the block.
    async fn shape(&self, raw: &RawEvent, facts: &BlockFacts, changes: &[Change]) -> Result<Event, IngestError> {
        let spelling = raw.kind.spelling();
        let attribute = |key: &str| raw.attributes.get(key).map(unquoted);
        let entity_id = attribute(spelling.entity_id).map(str::to_owned);
        let ecosystem_id = attribute("ecosystem_id").and_then(|id| id.parse::<u64>().ok()).filter(|id| *id > 0);
        let corporation_id = self.corporation_of(raw, facts, changes).await?;
        let corporation = match corporation_id {
            Some(id) => self.body_after(Kind::Corporation, id, facts.height, changes).await?,
            None => None,
        };
        let ecosystem = match ecosystem_id {
            Some(id) => self.body_after(Kind::Ecosystem, id, facts.height, changes).await?,
            None => None,
        };
        let did_of =
            |body: &Option<serde_json::Value>| body.as_ref().and_then(|body| body["did"].as_str()).map(str::to_owned);
        let is_about_ecosystem =
            matches!(raw.kind, EventKind::CreateEcosystem | EventKind::UpdateEcosystem | EventKind::ArchiveEcosystem);
        let did = if is_about_ecosystem { did_of(&ecosystem) } else { did_of(&corporation) };
        let mut related_dids: Vec<String> = did.iter().cloned().collect();
        // A framework of an ecosystem is labelled with its corporation; the ecosystem's own DID finds it too.
        related_dids.extend(did_of(&ecosystem).filter(|own| Some(own) != did.as_ref()));
        Ok(Event {
            kind: IndexerEvent::IndexerEvent,
            event_type: spelling.event_type.to_owned(),
            did,
            block_height: facts.height,
            tx_hash: raw.tx_hash.clone(),
            timestamp: iso_seconds(&facts.time),
            payload: Payload {
                module: spelling.module.to_owned(),
                action: spelling.action.to_owned(),
                message_type: spelling.message_type.to_owned(),
                tx_index: raw.tx_index,
                message_index: raw.message_index,
                sender: raw.sender.clone(),
                related_dids,
                entity_type: Some(spelling.entity_type.to_owned()),
                entity_id,
                ecosystem_id: ecosystem_id.map(|id| id.to_string()),
                schema_id: None,
                participant_id: attribute("participant_id").map(str::to_owned),
                corporation_id,
                related_corporation_ids: Vec::new(),
                grantee: attribute("grantee").map(str::to_owned),
                vs_operator: attribute("vs_operator").map(str::to_owned),
                with_feegrant: attribute("with_feegrant").and_then(|text| text.parse().ok()),
            },
        })
    }

    async fn corporation_of(
        &self,
        raw: &RawEvent,
        facts: &BlockFacts,
        changes: &[Change],
    ) -> Result<Option<u64>, IngestError> {
        if let Some(id) = raw.attributes.get("corporation_id").and_then(|id| id.parse().ok()) {
            return Ok(Some(id));
        }
        let address = match raw.kind {
            EventKind::SubmitProposal | EventKind::Vote | EventKind::Exec | EventKind::WithdrawProposal => {
                let id = raw.attributes.get("proposal_id").and_then(|id| unquoted(id).parse::<u64>().ok());
                let Some(id) = id else { return Ok(None) };
                match facts.proposals.iter().find(|(known, _)| *known == id) {
                    Some((_, address)) => Some(address.clone()),
                    None => self.store.policy_of_proposal(id).await?,
                }
            }
            _ => raw.attributes.get("corporation").map(str::to_owned),
        };
        let Some(address) = address else { return Ok(None) };
        let created_here = changes
            .iter()
            .find(|change| change.kind == Kind::Corporation && change.account.as_deref() == Some(address.as_str()));
        if let Some(change) = created_here {
            return Ok(change.id);
        }
        Ok(self.store.entity_by_account(Kind::Corporation, &address, None).await?.map(|stored| stored.id))
    }

    async fn body_after(
        &self,
        kind: Kind,
        id: u64,
        height: u64,
        changes: &[Change],
    ) -> Result<Option<serde_json::Value>, StoreError> {
        match changes.iter().find(|change| change.kind == kind && change.id == Some(id)) {
            Some(change) => Ok(change.body.clone()),
            None => self.store.entity(kind, id, height).await,
        }
    }
}
