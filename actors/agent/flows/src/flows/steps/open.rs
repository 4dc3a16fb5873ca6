//! The opening message of an applicant: its validator and its ecosystem are judged before it is sent.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use svc_agent_core::{error::RefusalCode, peers::StoredConnection};
use svc_agent_identity::{
    account_write::WritingAccount,
    credential_settings::CredentialMode,
    registry::{NodeRegistry, SchemaOnChain},
};
use svc_didcomm::flow::{Cause, FlowRecord, Guard, Progress, Trigger};
use svc_kit::wall_clock::now_millis;
use svc_trust::EssentialCredential;
use uuid::Uuid;

use super::outcome::{Done, StepStop};
use crate::{
    flow_directory::NamedParticipant,
    flows::{
        claims::WantedSchema,
        service::{FlowChange, FlowService},
    },
};

/// An opening message that may be sent.
pub(in crate::flows) struct Opening {
    pub claims: Option<Map<String, Value>>,
    pub connection: StoredConnection,
}

impl FlowService {
    /// The essential credential that a schema describes: one of an ecosystem that counts for this DID.
    pub(in crate::flows) fn essential(&self, schema: &SchemaOnChain) -> Option<EssentialCredential> {
        self.0.credentials.own_essential(schema)
    }

    /// Whether a peer is a verifiable service, by a decision of now.
    pub(in crate::flows) async fn require_verdict(&self, did: &str) -> Result<(), StepStop> {
        match self.0.gate.fresh_verdict(did).await {
            Ok(verdict) if verdict.is_trusted => Ok(()),
            Ok(_) => Err(StepStop::blocked(
                "PEER_NOT_TRUSTED",
                "the registry does not show the peer as a verifiable service",
            )),
            Err(error) => Err(StepStop::blocked("VERDICT_UNKNOWN", error.to_string())),
        }
    }

    /// Judges validator and ecosystem, and reads the claims. `is_fresh` has them read although the record has some.
    pub(in crate::flows) async fn judge_opening(
        &self,
        account: &WritingAccount,
        record: &FlowRecord,
        is_fresh: bool,
    ) -> Result<Opening, StepStop> {
        let schema = NodeRegistry(account).schema(record.schema_id).await?;
        let schema = schema.ok_or_else(|| StepStop::Failed(format!("no schema {}", record.schema_id)))?;
        self.judge_ecosystem(&schema, &record.peer_did)?;
        self.require_verdict(&record.peer_did).await?;
        let given = record.claims.as_ref().filter(|_| !is_fresh);
        let essential = self.essential(&schema);
        let wanted = WantedSchema { id: record.schema_id, essential, json_schema: &schema.schema.json_schema };
        let claims = if record.is_holder {
            let claims = self.opening_claims(given, wanted).await;
            claims.map_err(|stop| StepStop::blocked("CLAIMS_UNREADABLE", stop.to_string()))?
        } else {
            given.cloned()
        };
        let connection = self.0.peers.open_connection(&record.peer_did).await.map_err(|refusal| {
            let code = match refusal.code {
                RefusalCode::PeerNotAuthorized => "PEER_NOT_TRUSTED",
                RefusalCode::NotReady => return StepStop::Failed(refusal.message),
                _ => "PEER_UNRESOLVABLE",
            };
            StepStop::blocked(code, refusal.message)
        })?;
        Ok(Opening { claims, connection })
    }

    /// Essential credentials count from the ecosystems of the settings alone, and that of the service from the parent of this agent.
    fn judge_ecosystem(&self, schema: &SchemaOnChain, validator: &str) -> Result<(), StepStop> {
        let settings = &self.0.credentials;
        let essential = match (self.essential(schema), settings.essential_content(schema)) {
            (Some(essential), _) => essential,
            (None, None) => return Ok(()),
            // The credential of a copy would make nothing trusted.
            (None, Some(kind)) => {
                let (did, id, kind) = (&schema.ecosystem_did, schema.schema.id, kind.as_str());
                let text =
                    format!("schema {id} has the content of {kind}, and {did} is not in TRUSTED_ECS_ECOSYSTEM_DIDS");
                return Err(StepStop::blocked("ECOSYSTEM_NOT_ALLOWED", text));
            }
        };
        match &settings.mode {
            CredentialMode::Delegated { parent, .. }
                if essential == EssentialCredential::Service && parent != validator =>
            {
                let text = format!("the validator is {validator}; AGENT_DELEGATED_PARENT_VS_DID is {parent}");
                Err(StepStop::blocked("PARENT_DIFFERS", text))
            }
            _ => Ok(()),
        }
    }

    /// Sends the opening message.
    pub(super) async fn open_flow(&self, record: &FlowRecord) -> Result<Done, StepStop> {
        let account = self.account()?;
        let Opening { claims, connection } = self.judge_opening(&account, record, false).await?;
        let mut progress = Progress::of(record.clone());
        let cause = Cause {
            new_id: Uuid::new_v4().to_string(),
            facts: BTreeSet::from([Guard::GatePassed, Guard::EcosystemAllowed]),
            ..Cause::new(Trigger::RequestReady, now_millis())
        };
        progress.record.claims = claims;
        progress.record.connection_id = Some(connection.connection.id);
        if !progress.take(&cause) {
            return Err(StepStop::Outdated);
        }
        let done = self.finish(record, FlowChange::of(record, progress)).await?;
        // It may be validated already, and no event follows.
        let applicant = record.applicant_participant_id.map(|id| NamedParticipant { id, height: 0 });
        self.0.directory.participants_changed(applicant.into_iter().collect());
        Ok(done)
    }
}
