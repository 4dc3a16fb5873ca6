//! Publications of the agent: its document, the credential of its schema, and credentials that others issued to it.

use serde_json::{Value, json};
use svc_trust::{
    did_document::ProofPurpose,
    digest::{DigestAlgorithm, anchored_digest, sri_digest},
    issuance::CredentialDraft,
    proof::{ProofSuite, add_proof},
};
use uuid::Uuid;

use super::{FirstAgent, FirstAgentError};
use crate::{
    scenario::ScenarioRunner,
    services::{JSON_CONTENT_TYPE, MAIN_KEY_LABEL, first_form},
};

/// The proofs of everything that it signs.
const SUITE: ProofSuite = ProofSuite::Ed25519Signature2020;
const DIGEST_ALGORITHM: DigestAlgorithm = DigestAlgorithm::Sha384;

impl FirstAgent<'_> {
    /// Publishes and anchors the credential of a schema of its ecosystem; returns the URL. `name` is the name of the schema in the scenario.
    ///
    /// # Errors
    /// When the scenario lacks the schema, or the chain refuses the digest.
    pub async fn publish_schema(&self, name: &str) -> Result<String, FirstAgentError> {
        let schema_id = self.saved(&format!("{name}.schema"))?.to_owned();
        let runner = ScenarioRunner::new(&self.devnet.node, &self.devnet.accounts)?;
        let text = runner.json_schema(&schema_id).await?;
        let reference = format!("{}{schema_id}", runner.schema_prefix());
        let path = format!("{}/schemas-{schema_id}-jsc.json", self.new_folder());
        let url = format!("{}{path}", self.services.origin());
        let draft = self.draft(
            url.clone(),
            "JsonSchemaCredential",
            json!({
                "id": reference, "type": "JsonSchema", "jsonSchema": {"$ref": reference},
                "digestSRI": sri_digest(text.as_bytes(), DIGEST_ALGORITHM),
            }),
            None,
        );
        let credential = self.sign(draft)?;
        self.anchor(&credential).await?;
        self.services.publish(&path, JSON_CONTENT_TYPE, credential.to_string());
        self.present(&format!("vpr-schemas-{schema_id}-vtjsc-vp"), credential).await?;
        Ok(url)
    }

    /// Publishes a credential that another party issued, as the software does: only where the name of its schema's file has the form that it
    /// knows. Has the registry ask the index to look again, by a participant of the agent.
    ///
    /// # Errors
    /// When the credential names its schema otherwise, or the chain refuses the message.
    pub async fn publish_credential(&self, credential: &Value, participant: &str) -> Result<(), FirstAgentError> {
        let schema_id = schema_id_of(credential)?;
        self.present(&format!("vpr-schemas-{schema_id}-vtc-vp"), credential.clone()).await?;
        self.transact(&self.account(), "pp.MsgTriggerResolver", json!({"id": participant})).await?;
        Ok(())
    }

    /// Returns a draft of a credential that the agent issues now.
    pub(super) fn draft(&self, id: String, kind: &str, subject: Value, schema: Option<Value>) -> Value {
        let draft = CredentialDraft {
            id,
            issuer: self.did().to_owned(),
            kind: kind.to_owned(),
            subject,
            schema,
            valid_from: self.chain_time(),
            valid_until: None,
        };
        let mut unsigned = draft.into_credential(SUITE);
        first_form::set_contexts(&mut unsigned);
        unsigned
    }

    /// Signs a draft.
    pub(super) fn sign(&self, mut draft: Value) -> Result<Value, FirstAgentError> {
        let prover = self.identity.prover(MAIN_KEY_LABEL);
        add_proof(&mut draft, &prover, SUITE, ProofPurpose::AssertionMethod, &self.chain_time())?;
        Ok(draft)
    }

    /// Returns the digest of a credential in the form that the agent anchors.
    pub(super) fn digest(&self, credential: &Value) -> Result<String, FirstAgentError> {
        let digest = anchored_digest(credential, DIGEST_ALGORITHM);
        let digest = digest.ok_or_else(|| FirstAgentError::Proof("the credential has no canonical form".to_owned()))?;
        Ok(self.anchored_form(&digest))
    }

    async fn anchor(&self, credential: &Value) -> Result<(), FirstAgentError> {
        let digest = self.digest(credential)?;
        self.transact(self.clerk()?, "di.MsgStoreDigest", json!({"digest": digest})).await?;
        Ok(())
    }

    /// Publishes a presentation of a credential, and the service entry that links to it.
    async fn present(&self, fragment: &str, credential: Value) -> Result<(), FirstAgentError> {
        let mut presentation = first_form::unsigned_presentation(self.did(), credential);
        let prover = self.identity.prover(MAIN_KEY_LABEL);
        add_proof(&mut presentation, &prover, SUITE, ProofPurpose::Authentication, &self.chain_time())?;
        let path = format!("{}/{fragment}.json", self.new_folder());
        self.services.publish(&path, JSON_CONTENT_TYPE, presentation.to_string());
        let id = format!("{}#{fragment}", self.did());
        let mut document = self.services.document(&self.identity.name)?;
        if let Some(entries) = document["service"].as_array_mut() {
            entries.retain(|entry| entry["id"] != id.as_str());
            entries.push(json!({
                "id": id, "type": "LinkedVerifiablePresentation",
                "serviceEndpoint": format!("{}{path}", self.services.origin()),
            }));
        }
        Ok(self.services.set_document(&self.identity.name, &document).await?)
    }

    /// A folder of its own for each publication, so that a URL never has another content.
    fn new_folder(&self) -> String {
        let id = Uuid::new_v4().simple().to_string();
        let (digits, _) = id.split_at(8);
        format!("/{}/vt/{digits}", self.identity.name)
    }
}

/// Returns the schema that a credential names, in the one form of names that the software knows.
pub(super) fn schema_id_of(credential: &Value) -> Result<String, FirstAgentError> {
    let url = credential["credentialSchema"]["id"].as_str().unwrap_or_default();
    let file = url.rsplit('/').next().unwrap_or_default();
    let id = file.strip_prefix("schemas-").and_then(|rest| rest.strip_suffix("-jsc.json"));
    let is_number = |id: &&str| !id.is_empty() && id.bytes().all(|digit| digit.is_ascii_digit());
    let unknown = || FirstAgentError::UnknownForm(format!("the credential of the schema is {url:?}"));
    id.filter(is_number).map(str::to_owned).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_of_a_credential_has_one_form_of_names() {
        for (url, id) in [
            ("https://a.example/vt/0123abcd/schemas-7-jsc.json", Some("7")),
            ("https://a.example/vt/cs-7-0123abcd-jsc.json", None),
            ("https://a.example/vt/schemas-service-jsc.json", None),
            ("https://a.example/vt/schemas--jsc.json", None),
            ("", None),
        ] {
            let found = schema_id_of(&json!({"credentialSchema": {"id": url, "type": "JsonSchemaCredential"}}));
            assert_eq!(found.ok().as_deref(), id, "{url}");
        }
    }
}
