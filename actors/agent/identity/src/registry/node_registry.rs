//! Reads of the registry at the node: the participants, schemas, sessions and digests that a credential depends on.

use prost::Message;
use prost_types::Timestamp;
use svc_agent_core::participant::instants_of;
use svc_net::upstream::{LIST_LIMIT, NodeClientError, require_whole};
use svc_trust::{RegistryParticipant, RegistrySchema, digest::digest_forms};
use svc_wire::{
    proto::svc::{
        cs::v1::{
            CredentialSchema, HolderOnboardingMode, PricingAssetType, QueryGetCredentialSchemaRequest,
            QueryGetCredentialSchemaResponse, QueryListCredentialSchemasRequest, QueryListCredentialSchemasResponse,
        },
        di::v1::{QueryGetDigestRequest, QueryGetDigestResponse},
        ec::v1::{
            QueryGetEcosystemRequest, QueryGetEcosystemResponse, QueryListEcosystemsRequest,
            QueryListEcosystemsResponse,
        },
        pp::v1::{
            Participant, ParticipantRole, ParticipantSession, QueryFindBeneficiariesRequest,
            QueryFindBeneficiariesResponse, QueryGetParticipantRequest, QueryGetParticipantResponse,
            QueryGetParticipantSessionRequest, QueryGetParticipantSessionResponse, QueryListParticipantsRequest,
        },
        xr::v1::{QueryGetPriceRequest, QueryGetPriceResponse},
    },
    timestamp,
};

use crate::account_write::WritingAccount;

/// The registry as the node states it now.
pub struct NodeRegistry<'a>(pub &'a WritingAccount);

fn nanos(instant: Option<&Timestamp>) -> Option<i128> {
    instant.map(timestamp::unix_nanos)
}

/// A participant as an evaluation takes it, at a time in nanoseconds since the epoch.
fn to_evidence(participant: &Participant, now: i128) -> RegistryParticipant {
    let role = (participant.role().as_str_name(), participant.schema_id);
    RegistryParticipant::at(now, participant.id, role, &instants_of(participant))
}

/// Participants as an evaluation takes them.
pub(crate) fn all_to_evidence(participants: &[Participant], now: i128) -> Vec<RegistryParticipant> {
    participants.iter().map(|one| to_evidence(one, now)).collect()
}

impl NodeRegistry<'_> {
    fn query_path(&self, (module, rpc): (&str, &str)) -> String {
        self.0.access.chain.registry.namespace().query_path(module, rpc)
    }

    /// The answer of a query about the present state.
    pub async fn query<Q: Message, R: Message + Default>(
        &self,
        rpc: (&str, &str),
        request: &Q,
    ) -> Result<R, NodeClientError> {
        self.0.pipeline().node().query(&self.query_path(rpc), request, 0).await
    }

    /// The answer of a query about one thing; `None` when the node states that it does not exist.
    async fn find<Q: Message, R: Message + Default>(
        &self,
        rpc: (&str, &str),
        request: &Q,
    ) -> Result<Option<R>, NodeClientError> {
        match self.query(rpc, request).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_absence() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn list_participants(
        &self,
        wanted: QueryListParticipantsRequest,
    ) -> Result<Vec<Participant>, NodeClientError> {
        let path = self.query_path(("pp", "ListParticipants"));
        self.0.pipeline().node().list_participants(&path, wanted).await
    }

    /// The participants of a DID.
    pub async fn participants(&self, did: &str) -> Result<Vec<Participant>, NodeClientError> {
        self.list_participants(QueryListParticipantsRequest { did: did.to_owned(), ..Default::default() }).await
    }

    /// A participant; `None` when the node does not show it.
    pub async fn participant(&self, id: u64) -> Result<Option<Participant>, NodeClientError> {
        Ok(self.participant_with_height(id).await?.map(|(participant, _)| participant))
    }

    /// A participant, and the height of the state that it was read from; `None` when the node does not show it.
    pub async fn participant_with_height(&self, id: u64) -> Result<Option<(Participant, u64)>, NodeClientError> {
        let path = self.0.access.chain.registry.namespace().query_path("pp", "GetParticipant");
        let request = QueryGetParticipantRequest { id };
        let found = self.0.pipeline().node().query_with_height(&path, &request, 0).await;
        match found {
            Ok((QueryGetParticipantResponse { participant }, height)) => Ok(participant.map(|one| (one, height))),
            Err(error) if error.is_absence() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The participants of a schema with a role.
    pub async fn participants_of(
        &self,
        schema_id: u64,
        role: ParticipantRole,
    ) -> Result<Vec<Participant>, NodeClientError> {
        let wanted = QueryListParticipantsRequest { schema_id, role: role as i32, ..Default::default() };
        self.list_participants(wanted).await
    }

    /// The participants with a role under another one, of every DID.
    pub async fn participants_under(
        &self,
        validator: u64,
        role: ParticipantRole,
    ) -> Result<Vec<Participant>, NodeClientError> {
        let wanted =
            QueryListParticipantsRequest { participant_id: validator, role: role as i32, ..Default::default() };
        self.list_participants(wanted).await
    }

    /// A schema, and the DID of its ecosystem.
    pub async fn schema(&self, id: u64) -> Result<Option<SchemaOnChain>, NodeClientError> {
        let request = QueryGetCredentialSchemaRequest { id };
        let found: Option<QueryGetCredentialSchemaResponse> =
            self.find(("cs", "GetCredentialSchema"), &request).await?;
        let Some(schema) = found.and_then(|found| found.schema) else { return Ok(None) };
        let request = QueryGetEcosystemRequest {
            id: schema.ecosystem_id,
            active_gf_only: true,
            ..QueryGetEcosystemRequest::default()
        };
        let found: Option<QueryGetEcosystemResponse> = self.find(("ec", "GetEcosystem"), &request).await?;
        let ecosystem_did = found.and_then(|found| found.ecosystem).map(|one| one.did).unwrap_or_default();
        Ok(Some(SchemaOnChain { schema, ecosystem_did }))
    }

    /// The ids of the corporation's ecosystems whose DID is the agent's.
    pub async fn own_ecosystems(&self) -> Result<Vec<u64>, NodeClientError> {
        let request = QueryListEcosystemsRequest {
            corporation_id: self.0.corporation_id,
            active_gf_only: true,
            response_max_size: LIST_LIMIT,
            ..QueryListEcosystemsRequest::default()
        };
        let rpc = ("ec", "ListEcosystems");
        let found: QueryListEcosystemsResponse = self.query(rpc, &request).await?;
        let ecosystems = require_whole(&self.query_path(rpc), found.ecosystems)?;
        Ok(ecosystems.into_iter().filter(|one| one.did == self.0.did).map(|one| one.id).collect())
    }

    /// The schemas of the corporation's ecosystems whose DID is the agent's, archived ones too.
    pub async fn own_schemas(&self) -> Result<Vec<SchemaOnChain>, NodeClientError> {
        let mut schemas = Vec::new();
        for ecosystem_id in self.own_ecosystems().await? {
            let request = QueryListCredentialSchemasRequest {
                response_max_size: LIST_LIMIT,
                ecosystem_id,
                ..QueryListCredentialSchemasRequest::default()
            };
            let rpc = ("cs", "ListCredentialSchemas");
            let found: QueryListCredentialSchemasResponse = self.query(rpc, &request).await?;
            let found = require_whole(&self.query_path(rpc), found.schemas)?;
            let own = |schema| SchemaOnChain { schema, ecosystem_did: self.0.did.clone() };
            schemas.extend(found.into_iter().map(own));
        }
        Ok(schemas)
    }

    /// Time at which a digest was anchored in one of its forms, nanoseconds since the epoch; `None` when it is not.
    pub async fn anchored_at(&self, digest: &str) -> Result<Option<i128>, NodeClientError> {
        let mut first = None;
        for form in digest_forms(digest) {
            first = self.anchor_of(&form).await?.into_iter().chain(first).min();
        }
        Ok(first)
    }

    /// Time of the anchor of a digest in exactly this form.
    pub async fn anchor_of(&self, digest: &str) -> Result<Option<i128>, NodeClientError> {
        let request = QueryGetDigestRequest { digest: digest.to_owned() };
        let found: Option<QueryGetDigestResponse> = self.find(("di", "GetDigest"), &request).await?;
        Ok(found.and_then(|found| found.digest).and_then(|digest| nanos(digest.created.as_ref())))
    }

    /// A session; `None` when the node states that there is none.
    pub async fn session(&self, id: &str) -> Result<Option<ParticipantSession>, NodeClientError> {
        let request = QueryGetParticipantSessionRequest { id: id.to_owned() };
        let found: Option<QueryGetParticipantSessionResponse> =
            self.find(("pp", "GetParticipantSession"), &request).await?;
        Ok(found.and_then(|found| found.participant_session))
    }

    /// Whether a session has a record of an issuer.
    pub async fn has_session(&self, id: &str, issuer: u64) -> Result<bool, NodeClientError> {
        let session = self.session(id).await?;
        Ok(session.is_some_and(|one| one.session_records.iter().any(|record| record.issuer_participant_id == issuer)))
    }

    /// The participants that an issuance by a participant pays.
    pub async fn beneficiaries(&self, issuer: u64) -> Result<Vec<Participant>, NodeClientError> {
        let request = QueryFindBeneficiariesRequest { issuer_participant_id: issuer, verifier_participant_id: 0 };
        let found: QueryFindBeneficiariesResponse = self.query(("pp", "FindBeneficiaries"), &request).await?;
        Ok(found.participants)
    }

    /// An amount of a schema's pricing asset in the denomination of fees, in base units.
    pub async fn price_in_fees(&self, schema: &CredentialSchema, amount: u64) -> Result<u128, NodeClientError> {
        let denom = self.0.access.chain.params.denom.clone();
        if schema.pricing_asset_type() == PricingAssetType::Coin && schema.pricing_asset == denom {
            return Ok(u128::from(amount));
        }
        let request = QueryGetPriceRequest {
            base_asset_type: schema.pricing_asset_type,
            base_asset: schema.pricing_asset.clone(),
            quote_asset_type: PricingAssetType::Coin as i32,
            quote_asset: denom,
            amount: amount.to_string(),
        };
        let found: QueryGetPriceResponse = self.query(("xr", "GetPrice"), &request).await?;
        // A price that is no number is above every bound.
        Ok(found.price.parse().unwrap_or(u128::MAX))
    }
}

/// A schema of the registry.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemaOnChain {
    /// Its record.
    pub schema: CredentialSchema,
    /// The DID of its ecosystem.
    pub ecosystem_did: String,
}

impl SchemaOnChain {
    /// The schema as an evaluation takes it.
    pub fn to_evidence(&self) -> RegistrySchema {
        RegistrySchema {
            id: self.schema.id,
            ecosystem_id: self.schema.ecosystem_id,
            ecosystem_did: self.ecosystem_did.clone(),
            json_schema: self.schema.json_schema.clone(),
            digest_algorithm: self.schema.digest_algorithm.clone(),
            is_open_to_holders: self.schema.holder_onboarding_mode() == HolderOnboardingMode::Permissionless,
        }
    }
}
