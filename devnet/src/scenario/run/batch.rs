//! What the services of a scenario ask of its runner: many messages at once.

use prost_types::Any;
use serde_json::Value;
use svc_wire::{
    proto::svc::cs::v1::{QueryGetCredentialSchemaRequest, QueryGetCredentialSchemaResponse},
    schema::Namespace,
};

use super::{Runner, SeedError, executed};

impl Runner<'_> {
    /// The fee denom.
    pub(crate) fn denom(&self) -> &str {
        &self.chain.denom
    }

    /// The namespace word.
    pub(crate) fn namespace(&self) -> &Namespace {
        self.chain.namespace()
    }

    /// What references to schemas of this chain begin with.
    pub(crate) fn schema_prefix(&self) -> String {
        format!("vpr:{}:{}:cs:", self.chain.namespace(), self.chain.chain_id)
    }

    /// The text of a schema, as the chain holds it.
    pub(crate) async fn json_schema(&self, id: &str) -> Result<String, SeedError> {
        let path = format!("/{}/GetCredentialSchema", self.chain.namespace().full_name("cs", "Query"));
        let request = QueryGetCredentialSchemaRequest { id: id.parse().unwrap_or(0) };
        let found: QueryGetCredentialSchemaResponse = self.client.query(&path, &request, 0).await?;
        Ok(found.schema.unwrap_or_default().json_schema)
    }

    /// Sends messages as one transaction; what each answered. Nothing is sent for no message.
    pub(crate) async fn send_all(
        &self,
        step: &str,
        signer: &str,
        messages: Vec<(&str, Value)>,
    ) -> Result<Vec<Value>, SeedError> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let packed = messages.iter().map(|(kind, value)| self.pack(step, &self.type_url(kind), value));
        let packed = packed.collect::<Result<Vec<_>, _>>()?;
        let outcome = self.send(step, signer, None, packed).await?;
        let decode =
            |response: &Any| self.chain.registry.decode(&response.type_url, &response.value).unwrap_or_default();
        Ok(outcome.responses.iter().map(decode).collect())
    }

    /// Runs a message in each of several groups, by proposals that their member's vote decides, as one transaction.
    pub(crate) async fn propose_all(
        &self,
        step: &str,
        member: &str,
        proposals: Vec<(String, (&str, Value))>,
    ) -> Result<(), SeedError> {
        let mut messages = Vec::new();
        for (policy, (kind, value)) in &proposals {
            let inner = self.pack(step, &self.type_url(kind), value)?;
            messages.push(self.proposal(step, member, policy, &[inner])?);
        }
        if messages.is_empty() {
            return Ok(());
        }
        let outcome = self.send(step, member, None, messages).await?;
        executed(step, &outcome.events)
    }
}
