//! The credentials of the schemas of own ecosystems: they follow the schemas on the chain.

use serde_json::{Value, json};
use svc_agent_store::{CredentialKind, CredentialState, StoredCredential};
use svc_trust::{
    did_document::ProofPurpose,
    digest::{DigestAlgorithm, anchored_digest, sri_digest},
    issuance::{CredentialDraft, sign_credential},
    proof::ProofSuite,
};
use svc_wire::timestamp;
use uuid::Uuid;

use super::{issuer::proof_method, pass::Pass};
use crate::{
    account_write::WriteStop,
    credential_settings::{CredentialForm, MAX_SCHEMAS},
    document::{proof_suite, prover_for},
    registry::SchemaOnChain,
};

impl Pass<'_> {
    /// Keeps the credentials of the schemas of own ecosystems equal to the schemas on the chain.
    pub(super) async fn follow_schemas(&self) -> Result<(), WriteStop> {
        let store = &self.issuer.account.store;
        let on_chain = self.registry().own_schemas().await?;
        let stored = store.held_credentials().await?;
        let stored: Vec<&StoredCredential> = stored.iter().filter(|one| one.kind == CredentialKind::Schema).collect();
        let in_use = |schema: &&SchemaOnChain| schema.schema.archived.is_none();
        let mut withdrawn = Vec::new();
        for one in &stored {
            let schema = match on_chain.iter().find(|schema| schema.schema.id == one.schema_id) {
                Some(schema) => Some(schema.clone()),
                None => self.registry().schema(one.schema_id).await?,
            };
            // A schema that the node does not know is no fact about it.
            let Some(schema) = schema else { continue };
            if schema.schema.archived.is_some() {
                withdrawn.push((one.id.clone(), "SCHEMA_ARCHIVED".to_owned()));
            } else if schema.ecosystem_did != self.did() {
                withdrawn.push((one.id.clone(), "SCHEMA_OF_ANOTHER".to_owned()));
            } else if one.state == CredentialState::Signed
                && !self.issuer.proofs.forms().contains(&CredentialForm::of(&one.name))
            {
                // One that is anchored may be named by credentials of others, and stays.
                withdrawn.push((one.id.clone(), "NOT_WANTED".to_owned()));
            }
        }
        if !withdrawn.is_empty() {
            store.withdraw_credentials(&withdrawn).await?;
        }
        for schema in on_chain.iter().filter(in_use).take(MAX_SCHEMAS) {
            for form in self.issuer.proofs.forms() {
                self.follow_schema(schema, *form, &stored).await?;
            }
        }
        Ok(())
    }

    /// Signs the credential of a schema in a form, and presents it once its digest is at the node. One that was signed keeps its suite: holders
    /// of its credentials name it by its digest.
    async fn follow_schema(
        &self,
        schema: &SchemaOnChain,
        form: CredentialForm,
        stored: &[&StoredCredential],
    ) -> Result<(), WriteStop> {
        let text_digest = sri_digest(schema.schema.json_schema.as_bytes(), DigestAlgorithm::Sha384);
        let of_form = |form: CredentialForm| {
            let is_it = |one: &&&StoredCredential| {
                let is_form = CredentialForm::of(&one.name) == form;
                one.schema_id == schema.schema.id && one.claims_digest == text_digest && is_form
            };
            stored.iter().find(is_it).copied()
        };
        let row = match of_form(form) {
            Some(known) if known.state != CredentialState::Signed => return Ok(()),
            Some(known) => StoredCredential::clone(known),
            None => {
                let main = of_form(CredentialForm::Main);
                let is_newer = |one: &StoredCredential| proof_suite(&one.json()) == ProofSuite::EddsaJcs2022;
                if form == CredentialForm::Second && main.is_some_and(is_newer) {
                    return Ok(());
                }
                match self.sign_schema(schema, form, text_digest).await? {
                    Some(signed) => signed,
                    None => return Ok(()),
                }
            }
        };
        // The operator anchors it: a VS operator cannot store a digest alone.
        if self.registry().anchored_at(&row.digest).await?.is_some() {
            self.issuer.account.store.note_anchored(&row, None).await?;
        }
        Ok(())
    }

    /// Signs the credential of a schema; none in a form that it does not have.
    async fn sign_schema(
        &self,
        schema: &SchemaOnChain,
        form: CredentialForm,
        text_digest: String,
    ) -> Result<Option<StoredCredential>, WriteStop> {
        let failed = |reason: &str| WriteStop::Failed(reason.to_owned());
        let (account, now) = (&self.issuer.account, self.issuer.account.chain_time());
        let chain = &account.access.chain;
        let id = schema.schema.id;
        let reference = format!("vpr:{}:{}:cs:{id}", chain.registry.namespace(), chain.params.chain_id);
        // A new credential has a new URL: those that name the old one by its digest find it unchanged or not at all. Agents of the first
        // generation publish a credential only where the file of its schema credential is named so.
        let part = Uuid::new_v4().simple().to_string();
        let draft = CredentialDraft {
            id: format!("{}/vt/{}/schemas-{id}-jsc.json", self.base_url, &part[..8]),
            issuer: self.did().to_owned(),
            kind: "JsonSchemaCredential".to_owned(),
            subject: json!({
                "id": reference, "type": "JsonSchema", "jsonSchema": {"$ref": reference}, "digestSRI": text_digest,
            }),
            schema: None,
            valid_from: timestamp::iso_seconds(&now),
            valid_until: None,
        };
        if !self.issuer.has_form(&draft.subject, form) {
            return Ok(None);
        }
        let prover = self.issuer.keeper.prover(ProofPurpose::AssertionMethod);
        let prover = prover.ok_or_else(|| failed("the document has no key for assertions"))?;
        let suite = self.issuer.suite_for(&draft.subject, form);
        let mut body: Value = draft.into_credential(suite);
        sign_credential(&mut body, &prover_for(suite, &prover), suite, &timestamp::iso_seconds(&now))
            .map_err(|reason| WriteStop::Failed(reason.message))?;
        let algorithm = DigestAlgorithm::from_name(&schema.schema.digest_algorithm);
        let algorithm = algorithm.ok_or_else(|| failed("the schema names no digest algorithm"))?;
        let digest = anchored_digest(&body, algorithm).ok_or_else(|| failed("it has no canonical form"))?;
        let row = StoredCredential {
            id: body["id"].as_str().unwrap_or_default().to_owned(),
            kind: CredentialKind::Schema,
            name: form.name(&id.to_string()),
            schema_id: id,
            issuer: self.did().to_owned(),
            subject: reference,
            issuer_participant: 0,
            digest,
            claims_digest: text_digest,
            proof_method: proof_method(&body),
            body: body.to_string(),
            state: CredentialState::Signed,
            reason: None,
            tx_hash: None,
            valid_until: None,
            created_at: now.seconds,
        };
        account.store.write_credential(&row).await?;
        Ok(Some(row))
    }
}
