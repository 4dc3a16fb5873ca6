//! Credentials, their presentations, and the anchors of their digests.

use serde_json::{Value, json};
use svc_trust::{
    EssentialCredential,
    did_document::ProofPurpose,
    digest::{DigestAlgorithm, digest_jcs, sri_digest},
    issuance::{CredentialDraft, sign_credential, sign_presentation},
    proof::{ProofSuite, add_proof},
};

use super::{
    ProvisioningError, SchemaCredential, ServiceProvisioner, StepContext, identities::schema_presentation_path,
    rfc3339_text,
};
use crate::{
    scenario::SeedError,
    services::{
        AnchorTiming, IntendedFlaw, JSON_CONTENT_TYPE, MAIN_KEY_LABEL, SECOND_KEY_LABEL, SchemaSpec, ServiceForm,
        ServiceSpec, claims::essential_claims, credential::sign_with_expiry, first_form, presentation_path,
        schema_path,
    },
};

/// Digest algorithm of every schema and of every `digestSRI`.
const DIGEST_ALGORITHM: DigestAlgorithm = DigestAlgorithm::Sha384;
const TEN_YEARS: i64 = 315_360_000;
/// Id of a schema that the registry lacks.
const UNKNOWN_SCHEMA_ID: &str = "999999";

impl ServiceProvisioner<'_> {
    /// Publishes a credential and a presentation for each schema, signed by the ecosystem.
    pub(super) async fn publish_schemas(&mut self, work: &StepContext<'_, '_>) -> Result<(), SeedError> {
        let at = rfc3339_text(work.block_seconds());
        let service = &self.ecosystem.service;
        for schema in self.schemas {
            let id = work.value(&format!("{}.schema", schema.name))?;
            let text = work.runner.json_schema(&id).await?;
            let reference = format!("{}{id}", work.runner.schema_prefix());
            let path = schema_path(service, &id);
            let made = self.schema_credential(service, &path, Some(&reference), &text, &at);
            let credential = made.map_err(|error| work.step_error(error))?;
            let body = credential.to_string();
            let url = format!("{}{path}", self.origin());
            let digest = sri_digest(body.as_bytes(), DIGEST_ALGORITHM);
            self.schema_credentials.insert(schema.name.clone(), SchemaCredential { url, digest });
            self.pages.put(path, JSON_CONTENT_TYPE, body);
            let shown = self.identity_of(service).and_then(|holder| {
                sign_presentation(
                    &holder.did,
                    vec![credential],
                    &holder.prover(MAIN_KEY_LABEL),
                    ProofSuite::EddsaJcs2022,
                    &at,
                )
                .map_err(|reason| reason.message)
            });
            let shown = shown.map_err(|error| work.step_error(error))?;
            self.pages.put(schema_presentation_path(service, schema), JSON_CONTENT_TYPE, shown.to_string());
        }
        Ok(())
    }

    fn has_first_form(&self, service: &str) -> bool {
        self.identities.get(service).is_some_and(|identity| identity.form == ServiceForm::FirstGeneration)
    }

    fn identity_of(&self, service: &str) -> Result<&crate::services::ServiceIdentity, ProvisioningError> {
        self.identities.get(service).ok_or_else(|| format!("there is no service {service:?}"))
    }

    /// Creates the credential of a schema, signed by the service `by`.
    fn schema_credential(
        &self,
        by: &str,
        path: &str,
        reference: Option<&str>,
        text: &str,
        at: &str,
    ) -> Result<Value, ProvisioningError> {
        let issuer = self.identity_of(by)?;
        let mut subject = json!({"id": reference.unwrap_or(&issuer.did), "type": "JsonSchema"});
        if let Some(reference) = reference {
            subject["jsonSchema"] = json!({"$ref": reference});
            subject["digestSRI"] = sri_digest(text.as_bytes(), DIGEST_ALGORITHM).into();
        }
        let statement = CredentialDraft {
            id: format!("{}{path}", self.origin()),
            issuer: issuer.did.clone(),
            kind: "JsonSchemaCredential".to_owned(),
            subject,
            schema: None,
            valid_from: at.to_owned(),
            valid_until: None,
        };
        let mut credential = statement.into_credential(ProofSuite::EddsaJcs2022);
        sign_credential(&mut credential, &issuer.prover(MAIN_KEY_LABEL), ProofSuite::EddsaJcs2022, at)
            .map_err(|reason| reason.message)?;
        Ok(credential)
    }

    /// Issues the credentials with one of these anchor times, and anchors their digests.
    pub(super) async fn issue_and_anchor(
        &mut self,
        mut work: StepContext<'_, '_>,
        times: &[AnchorTiming],
    ) -> Result<(), SeedError> {
        let mut messages = Vec::new();
        for part in self.services {
            for schema in self.held_schemas(part) {
                let Some(held) = part.credentials.get(&schema.name).filter(|held| times.contains(&held.anchored))
                else {
                    continue;
                };
                let issuer = held.by.as_deref().unwrap_or(&part.name);
                let reference =
                    format!("{}{}", work.runner.schema_prefix(), work.value(&format!("{}.schema", schema.name))?);
                let now = work.block_seconds();
                let issued = self.issue_credential(part, schema, issuer, &reference, now);
                let credential = issued.map_err(|error| work.step_error(error))?;
                let digest = digest_jcs(&credential, DIGEST_ALGORITHM).unwrap_or_default();
                self.publish_presentation(part, schema, credential, now).map_err(|error| work.step_error(error))?;
                if let Some(seconds) = held.valid {
                    self.record_expiry(&part.name, &schema.name, now + i64::from(seconds));
                }
                if held.anchored != AnchorTiming::Never {
                    let actor = self.signer_fields(&work, issuer)?;
                    let mut digest = format!("{}-{digest}", DIGEST_ALGORITHM.as_str());
                    if self.has_first_form(issuer) {
                        digest = first_form::anchored_form(&digest, work.runner.generation());
                    }
                    let value =
                        json!({"authority": actor["corporation"], "operator": actor["operator"], "digest": digest});
                    messages.push(("di.MsgStoreDigest", value));
                }
            }
        }
        work.send(&self.ecosystem.clerk, messages).await?;
        Ok(())
    }

    /// Issues a credential, with its flaw.
    fn issue_credential(
        &self,
        part: &ServiceSpec,
        schema: &SchemaSpec,
        issuer: &str,
        reference: &str,
        now: i64,
    ) -> Result<Value, ProvisioningError> {
        let fault = self.credential_fault(part, schema);
        let (own, at) = (self.identity_of(issuer)?, rfc3339_text(now));
        let valid = part.credentials.get(&schema.name).and_then(|held| held.valid);
        let mut statement = CredentialDraft {
            id: format!("{}/{issuer}/credentials/{}-{}", self.origin(), part.name, schema.name),
            issuer: own.did.clone(),
            kind: schema.essential.map_or("DevnetCredential", EssentialCredential::as_str).to_owned(),
            subject: self.credential_subject(part, schema)?,
            schema: Some(self.schema_reference(part, schema, reference, fault, &at)?),
            valid_from: at.clone(),
            valid_until: valid.map(|seconds| rfc3339_text(now + i64::from(seconds))),
        };
        match fault {
            Some(IntendedFlaw::OtherSubject) => statement.subject["id"] = own.did.as_str().into(),
            Some(IntendedFlaw::NoIssuer) => statement.issuer = "nobody".to_owned(),
            Some(IntendedFlaw::NotYetValid) => statement.valid_from = rfc3339_text(now + TEN_YEARS),
            Some(IntendedFlaw::Mismatch) => statement.subject["name"] = 7.into(),
            _ => {}
        }
        let prover = match fault {
            Some(
                IntendedFlaw::KeyMissing
                | IntendedFlaw::KeyForAuthentication
                | IntendedFlaw::KeyRevoked
                | IntendedFlaw::KeyUnusable,
            ) => own.prover(SECOND_KEY_LABEL),
            Some(IntendedFlaw::OtherSigner) => self.identity_of(&self.ecosystem.service)?.prover(MAIN_KEY_LABEL),
            _ => own.prover(MAIN_KEY_LABEL),
        };
        let mut credential = statement.into_credential(part.suite.suite());
        if own.form == ServiceForm::FirstGeneration {
            first_form::set_contexts(&mut credential);
        }
        if fault == Some(IntendedFlaw::ProofExpired) {
            sign_with_expiry(&mut credential, &prover, &at, &rfc3339_text(now + 1));
        } else {
            sign_credential(&mut credential, &prover, part.suite.suite(), &at).map_err(|reason| reason.message)?;
        }
        match (fault, credential.as_object_mut()) {
            (Some(IntendedFlaw::Unproved), Some(members)) => {
                members.shift_remove("proof");
            }
            (Some(IntendedFlaw::OtherSuite), _) => credential["proof"]["cryptosuite"] = "ecdsa-jcs-2019".into(),
            _ => {}
        }
        Ok(credential)
    }

    /// Returns the claims of a credential about its holder.
    fn credential_subject(&self, part: &ServiceSpec, schema: &SchemaSpec) -> Result<Value, ProvisioningError> {
        let (did, name) = (self.did(&part.name)?, &part.name);
        let claims = schema.essential.map(|kind| essential_claims(&self.origin(), kind, name, &part.shows));
        let mut subject = json!({"id": did});
        match claims {
            Some(claims) => claims.into_iter().for_each(|(property, value)| subject[property] = value),
            None => subject["name"] = name.as_str().into(),
        }
        Ok(subject)
    }

    /// Returns the `credentialSchema` of a credential, with its flaw.
    fn schema_reference(
        &self,
        part: &ServiceSpec,
        schema: &SchemaSpec,
        reference: &str,
        fault: Option<IntendedFlaw>,
        at: &str,
    ) -> Result<Value, ProvisioningError> {
        let named = self.schema_credentials.get(&schema.name);
        let SchemaCredential { mut url, mut digest } =
            named.cloned().ok_or_else(|| format!("schema {:?} has no credential", schema.name))?;
        let prefix = reference.trim_end_matches(|digit: char| digit.is_ascii_digit());
        let unknown = format!("{prefix}{UNKNOWN_SCHEMA_ID}");
        let ecosystem = self.ecosystem.service.as_str();
        let instead = match fault {
            Some(IntendedFlaw::UnknownSchema) => Some((ecosystem, Some(unknown.as_str()))),
            Some(IntendedFlaw::SchemaNameless) => Some((ecosystem, None)),
            Some(IntendedFlaw::SchemaByStranger) => Some((part.name.as_str(), Some(reference))),
            _ => None,
        };
        if let Some((by, instead)) = instead {
            let path = schema_path(&part.name, reference.strip_prefix(prefix).unwrap_or_default());
            let body = self.schema_credential(by, &path, instead, schema.text(), at)?.to_string();
            (url, digest) = (format!("{}{path}", self.origin()), sri_digest(body.as_bytes(), DIGEST_ALGORITHM));
            self.pages.put(path, JSON_CONTENT_TYPE, body);
        }
        if fault == Some(IntendedFlaw::OtherSchemaDigest) {
            digest = sri_digest(b"another", DIGEST_ALGORITHM);
        }
        let kind = if fault == Some(IntendedFlaw::NoSchema) { "JsonSchema" } else { "JsonSchemaCredential" };
        Ok(json!({"id": url, "type": kind, "digestSRI": digest}))
    }

    /// Publishes the presentation of a credential at the path in the document, with its flaw.
    fn publish_presentation(
        &self,
        part: &ServiceSpec,
        schema: &SchemaSpec,
        credential: Value,
        now: i64,
    ) -> Result<(), ProvisioningError> {
        let fault = self.credential_fault(part, schema);
        let holder = self.identity_of(&part.name)?;
        let shown_by =
            if fault == Some(IntendedFlaw::OtherHolder) { self.did(&self.ecosystem.service)? } else { &holder.did };
        let at = rfc3339_text(now);
        let (prover, suite) = (holder.prover(MAIN_KEY_LABEL), part.suite.suite());
        let made = if holder.form == ServiceForm::FirstGeneration {
            let mut shown = first_form::unsigned_presentation(shown_by, credential);
            add_proof(&mut shown, &prover, suite, ProofPurpose::Authentication, &at).map(|()| shown)
        } else {
            sign_presentation(shown_by, vec![credential], &prover, suite, &at)
        };
        let mut shown = made.map_err(|reason| reason.message)?;
        match fault {
            Some(IntendedFlaw::PresentationAbsent | IntendedFlaw::PresentationOverHttp) => return Ok(()),
            Some(IntendedFlaw::NoPresentation) => shown["type"] = json!(["Letter"]),
            Some(IntendedFlaw::PresentationChanged) => shown["id"] = "urn:example:changed".into(),
            Some(IntendedFlaw::ManyProofs) => shown["proof"] = vec![shown["proof"].take(); 5].into(),
            _ => {}
        }
        self.pages.put(presentation_path(&part.name, &schema.name), JSON_CONTENT_TYPE, shown.to_string());
        Ok(())
    }
}
