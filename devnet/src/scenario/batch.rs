//! Operations of the runner for the provisioning of services: many messages in one transaction.

use prost_types::Any;
use serde_json::Value;
use svc_wire::proto::{
    cosmos::group::v1::Exec,
    svc::{
        cs::v1::{QueryGetCredentialSchemaRequest, QueryGetCredentialSchemaResponse},
        pp::v1::{QueryListParticipantsRequest, QueryListParticipantsResponse},
    },
};

use super::runner::{ScenarioRunner, SeedError, ensure_executed};

impl ScenarioRunner<'_> {
    /// Returns the fee denom.
    pub(crate) fn denom(&self) -> &str {
        &self.chain.denom
    }

    /// Returns the prefix of references to schemas of this chain.
    pub(crate) fn schema_prefix(&self) -> String {
        format!("vpr:{}:{}:cs:", self.chain.namespace(), self.chain.chain_id)
    }

    /// Queries the stored text of a schema.
    pub(crate) async fn json_schema(&self, id: &str) -> Result<String, SeedError> {
        let path = format!("/{}/GetCredentialSchema", self.chain.namespace().full_name("cs", "Query"));
        let request = QueryGetCredentialSchemaRequest { id: id.parse().unwrap_or(0) };
        let found: QueryGetCredentialSchemaResponse = self.client.query(&path, &request, 0).await?;
        Ok(found.schema.unwrap_or_default().json_schema)
    }

    /// Queries whether a DID is a participant.
    pub(crate) async fn has_participant(&self, did: &str) -> Result<bool, SeedError> {
        let path = self.chain.namespace().query_path("pp", "ListParticipants");
        let request = QueryListParticipantsRequest {
            did: did.to_owned(),
            response_max_size: 1,
            ..QueryListParticipantsRequest::default()
        };
        let found: QueryListParticipantsResponse = self.client.query(&path, &request, 0).await?;
        Ok(!found.participants.is_empty())
    }

    /// Sends messages as one transaction; returns the response of each as JSON. An empty list sends nothing.
    pub(crate) async fn send_messages(
        &self,
        step: &str,
        signer: &str,
        messages: Vec<(&str, Value)>,
    ) -> Result<Vec<Value>, SeedError> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let packed = messages.iter().map(|(kind, value)| self.encode_message(step, &self.type_url(kind), value));
        let packed = packed.collect::<Result<Vec<_>, _>>()?;
        let outcome = self.send_tx(step, signer, None, packed).await?;
        let decode =
            |response: &Any| self.chain.registry.decode(&response.type_url, &response.value).unwrap_or_default();
        Ok(outcome.responses.iter().map(decode).collect())
    }

    /// Submits a proposal with one message in each of several groups, as one transaction. The vote of `member` decides each.
    pub(crate) async fn submit_group_proposals(
        &self,
        step: &str,
        member: &str,
        proposals: Vec<(String, (&str, Value))>,
    ) -> Result<(), SeedError> {
        let mut messages = Vec::new();
        for (policy, (kind, value)) in &proposals {
            let inner = self.encode_message(step, &self.type_url(kind), value)?;
            messages.push(self.encode_group_proposal(step, member, policy, Exec::Try, &[inner])?);
        }
        if messages.is_empty() {
            return Ok(());
        }
        let outcome = self.send_tx(step, member, None, messages).await?;
        ensure_executed(step, &outcome.events)
    }
}
