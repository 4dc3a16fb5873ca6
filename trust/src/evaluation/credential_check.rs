//! Check of one credential: proof, validity, schema, anchored digest, authorisation.

use serde_json::Value;

use super::{TrustEvaluation, authorization};
use crate::{
    EssentialCredential, RegistrySchema, RejectionCode, RejectionReason,
    did_document::{ProofPurpose, has_type},
    digest::{DigestAlgorithm, digest_jcs, matches_sri},
    documents::{
        credential::{VerifiableCredential, optional_text},
        parse_document,
        status_list::{StatusEntry, is_set, status_entries},
    },
    evidence::MissingEvidence,
    schemas::schema_validation,
    verdict::AcceptedCredential,
};

impl TrustEvaluation<'_> {
    /// Checks a credential that a presentation of the DID contains. Beside an accepted one is the reason for which it is not essential
    /// although its schema is like one that is.
    pub(super) fn check_credential(
        &self,
        did: &str,
        id: &str,
        body: &Value,
    ) -> Result<(AcceptedCredential, Option<RejectionReason>), MissingEvidence> {
        let credential = VerifiableCredential::parse(body)?;
        let (schema_url, schema_integrity) = credential.schema_reference()?;
        let statuses = status_entries(body)?;
        // All of it is requested before the first check, so that the caller can fetch it in one round.
        let status_lists: Vec<_> = statuses.iter().map(|entry| self.view.resource(entry.list_url)).collect();
        let issuer_document = self.view.document(credential.issuer);
        let schema_credential = self.view.resource(schema_url);
        let issuers = self.view.participants(credential.issuer);
        let holders = self.view.participants(did);

        // A definitive rejection decides before a server that did not answer.
        let mut unanswered = None;
        let mut defer = |outcome: Result<(), MissingEvidence>| match outcome {
            Err(MissingEvidence::Rejected(reason)) if reason.unanswered.is_some() => {
                unanswered.get_or_insert(reason);
                Ok(())
            }
            outcome => outcome,
        };
        let proof = issuer_document.as_ref().map_err(MissingEvidence::clone).and_then(|document| {
            Ok(self.check_proof(body, credential.issuer, document, &[ProofPurpose::AssertionMethod])?)
        });
        defer(proof)?;
        let subject = credential.subject["id"].as_str();
        if subject != Some(did) {
            return Err(
                RejectionReason::new(RejectionCode::SubjectMismatch, subject.unwrap_or("it names no subject")).into()
            );
        }
        credential.check_validity_period(self.rules.now)?;
        for (entry, list) in statuses.iter().zip(status_lists) {
            let status = list.and_then(|list| {
                let issuer_document = issuer_document.as_ref().map_err(MissingEvidence::clone)?;
                Ok(self.check_status(entry, list, credential.issuer, issuer_document)?)
            });
            defer(status)?;
        }
        let schema = schema_credential.and_then(|text| self.resolve_schema(schema_url, schema_integrity, text));
        let schema = match schema {
            Ok(schema) => schema,
            Err(missing) => {
                defer(Err(missing))?;
                return Err(unanswered.map_or(MissingEvidence::NotYetKnown, MissingEvidence::Rejected));
            }
        };
        let (essential, not_essential) = self.find_essential(schema);
        let text = body.to_string();
        self.view.verify_once(&[b"schema", schema.json_schema.as_bytes(), text.as_bytes()], || {
            schema_validation::validate_credential(&schema.json_schema, body, text.len())
        })?;
        let algorithm = DigestAlgorithm::from_name(&schema.digest_algorithm).ok_or_else(|| {
            RejectionReason::new(
                RejectionCode::SchemaUnusable,
                format!("digest algorithm {:?}", schema.digest_algorithm),
            )
        })?;
        let digest = digest_jcs(body, algorithm)
            .ok_or_else(|| RejectionReason::new(RejectionCode::CredentialInvalid, "it has no canonical form"))?;
        // The chain stores digests as integrity texts, agents of the first generation store them without the name of the algorithm, as
        // verdicts have them. The first of both anchors is the issuance.
        let anchor = format!("{}-{digest}", algorithm.as_str());
        let [first, second] = [&anchor, &digest].map(|form| self.view.digest(form));
        let issued_at = first?.into_iter().chain(second?).min();
        let issued_at = issued_at.ok_or_else(|| RejectionReason::new(RejectionCode::DigestNotAnchored, &anchor))?;
        let issuer = authorization::authorize_issuer(issuers?, schema.id, issued_at)?;
        let holder = authorization::authorize_holder(holders?, schema, credential.issuer == did)?;
        if let Some(reason) = unanswered {
            // Only a credential that can make the DID trusted decides about it.
            let decides = essential.as_ref().is_some_and(|(essential, _)| essential.makes_trusted());
            let unanswered = reason.unanswered.filter(|_| decides);
            return Err(RejectionReason { unanswered, ..reason }.into());
        }
        let accepted = AcceptedCredential {
            id: id.to_owned(),
            essential,
            schema_id: schema.id,
            ecosystem_id: schema.ecosystem_id,
            issuer: credential.issuer.to_owned(),
            issuer_participant_id: issuer.id,
            participant_id: holder.map_or(issuer.id, |holder| holder.id),
            digest_jcs: digest,
            issued_at,
            valid_from: credential.valid_from,
            valid_until: credential.valid_until,
            anchored_until: holder.and_then(|holder| holder.effective_until),
            subject: credential.subject.clone(),
        };
        Ok((accepted, not_essential))
    }

    /// Kind and version of an essential schema; or the reason for which a schema with the content of one is none.
    fn find_essential(
        &self,
        schema: &RegistrySchema,
    ) -> (Option<(EssentialCredential, String)>, Option<RejectionReason>) {
        let known = &self.rules.essential_schemas;
        let Some((essential, version)) = known.content(&schema.json_schema) else { return (None, None) };
        if known.relies_on(&schema.ecosystem_did) {
            return (Some((essential, version.to_owned())), None);
        }
        let (did, kind, id) = (&schema.ecosystem_did, essential.as_str(), schema.id);
        let relied_on = if known.is_empty() { ", and no ecosystem is relied on" } else { "" };
        let detail = format!("{did}: its schema {id} has the content of {kind}{relied_on}");
        (None, Some(RejectionReason::new(RejectionCode::EcosystemNotAllowed, detail)))
    }

    /// Checks that a status list of the issuer does not reject the credential with this entry.
    fn check_status(
        &self,
        entry: &StatusEntry<'_>,
        text: &str,
        issuer: &str,
        issuer_document: &Value,
    ) -> Result<(), RejectionReason> {
        let url = entry.list_url;
        let invalid = |detail: &dyn std::fmt::Display| {
            RejectionReason::new(RejectionCode::StatusListInvalid, format!("{url}: {detail}"))
        };
        let body = parse_document(text).map_err(|error| invalid(&error))?;
        let list = VerifiableCredential::parse(&body).map_err(|reason| invalid(&reason.message))?;
        if !has_type(&body, "BitstringStatusListCredential") {
            return Err(invalid(&"its type is not BitstringStatusListCredential"));
        }
        if list.issuer != issuer {
            return Err(invalid(&format!("{} issued it, the credential is of {issuer}", list.issuer)));
        }
        self.check_proof(&body, issuer, issuer_document, &[ProofPurpose::AssertionMethod])
            .map_err(|reason| invalid(&reason.message))?;
        list.check_validity_period(self.rules.now).map_err(|reason| invalid(&reason.message))?;
        if is_set(entry, list.subject)? {
            return Err(RejectionReason::new(entry.purpose.code(), format!("entry {} of {url}", entry.index)));
        }
        Ok(())
    }

    /// The schema of the registry that a schema credential refers to.
    fn resolve_schema(
        &self,
        url: &str,
        integrity: Option<&str>,
        text: &str,
    ) -> Result<&RegistrySchema, MissingEvidence> {
        let invalid = |detail: &dyn std::fmt::Display| {
            RejectionReason::new(RejectionCode::SchemaCredentialInvalid, format!("{url}: {detail}"))
        };
        if let Some(integrity) = integrity.filter(|integrity| !matches_sri(text.as_bytes(), integrity)) {
            return Err(
                RejectionReason::new(RejectionCode::SchemaDigestMismatch, format!("{url} is not {integrity}")).into()
            );
        }
        let body = parse_document(text).map_err(|error| invalid(&error))?;
        let credential = VerifiableCredential::parse(&body).map_err(|reason| invalid(&reason.message))?;
        let statuses = status_entries(&body)?;
        if !has_type(&body, "JsonSchemaCredential") {
            return Err(invalid(&"its type is not JsonSchemaCredential").into());
        }
        let reference = credential.subject["jsonSchema"]["$ref"].as_str();
        let reference = reference.ok_or_else(|| invalid(&"it names no jsonSchema"))?;
        let id = schema_validation::schema_id_of(reference, &self.rules.schema_prefix)
            .ok_or_else(|| RejectionReason::new(RejectionCode::SchemaUnsupported, reference))?;
        let status_lists: Vec<_> = statuses.iter().map(|entry| self.view.resource(entry.list_url)).collect();
        let issuer_document = self.view.document(credential.issuer);
        let schema = self.view.schema(id)?;
        if credential.issuer != schema.ecosystem_did {
            let issuers = format!("{} issued it, the ecosystem is {}", credential.issuer, schema.ecosystem_did);
            return Err(RejectionReason::new(RejectionCode::SchemaCredentialIssuer, issuers).into());
        }
        let issuer_document = issuer_document?;
        self.check_proof(&body, credential.issuer, issuer_document, &[ProofPurpose::AssertionMethod])
            .map_err(|reason| RejectionReason { message: format!("{url}: {}", reason.message), ..reason })?;
        credential.check_validity_period(self.rules.now)?;
        for (entry, list) in statuses.iter().zip(status_lists) {
            self.check_status(entry, list?, credential.issuer, issuer_document)?;
        }
        let integrity = optional_text(&credential.subject["digestSRI"]).map_err(|detail| invalid(&detail))?;
        if let Some(integrity) = integrity.filter(|integrity| !matches_sri(schema.json_schema.as_bytes(), integrity)) {
            let which = format!("the registry's schema {id} is not {integrity}");
            return Err(RejectionReason::new(RejectionCode::SchemaDigestMismatch, which).into());
        }
        Ok(schema)
    }
}
