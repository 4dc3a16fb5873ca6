//! Whether one credential counts.

use serde_json::Value;

use super::{Evaluation, authority};
use crate::{
    Code, Reason, Schema,
    credential::{Credential, optional_text},
    digest::{Algorithm, digest_jcs, matches_sri},
    document::{Purpose, is_of_type},
    known::Stop,
    schema,
    verdict::Held,
};

impl Evaluation<'_> {
    /// A credential the DID holds, if it counts.
    pub(super) fn hold(&self, did: &str, id: &str, body: &Value) -> Result<Held, Stop> {
        let credential = Credential::read(body)?;
        let (schema_url, schema_integrity) = credential.schema()?;
        // Asked for at once, so that they are found out at once.
        let issuer_document = self.gaze.document(credential.issuer);
        let schema_credential = self.gaze.resource(schema_url);
        let issuers = self.gaze.participants(credential.issuer);
        let holders = self.gaze.participants(did);

        self.check_proof(body, credential.issuer, issuer_document?, &[Purpose::AssertionMethod])?;
        let subject = credential.subject["id"].as_str();
        if subject != Some(did) {
            return Err(Reason::new(Code::SubjectDiffers, subject.unwrap_or("it names no subject")).into());
        }
        credential.check_time(self.rules.now)?;
        let schema = self.schema(schema_url, schema_integrity, schema_credential?)?;
        let known = self.rules.essential.of(&schema.json_schema);
        let essential = known.map(|(essential, version)| (essential, version.to_owned()));
        if essential.is_some() && !self.relies_on(&schema.ecosystem_did) {
            return Err(Reason::new(Code::EcosystemNotAllowed, &schema.ecosystem_did).into());
        }
        let text = body.to_string();
        self.gaze.once(&[b"schema", schema.json_schema.as_bytes(), text.as_bytes()], || {
            schema::validate(&schema.json_schema, body, text.len())
        })?;
        let algorithm = Algorithm::named(&schema.digest_algorithm).ok_or_else(|| {
            Reason::new(Code::SchemaUnusable, format!("digest algorithm {:?}", schema.digest_algorithm))
        })?;
        let digest = digest_jcs(body, algorithm)
            .ok_or_else(|| Reason::new(Code::CredentialInvalid, "it has no canonical form"))?;
        // The chain takes digests as integrity texts alone; answers tell them without the name of the algorithm.
        let anchor = format!("{}-{digest}", algorithm.as_str());
        let issued_at = self.gaze.digest(&anchor)?.ok_or_else(|| Reason::new(Code::DigestNotAnchored, &anchor))?;
        let issuer = authority::issuer(issuers?, schema.id, issued_at)?;
        let holder = authority::holder(holders?, schema, credential.issuer == did)?;
        Ok(Held {
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
        })
    }

    fn relies_on(&self, ecosystem: &str) -> bool {
        self.rules.ecosystems.is_empty() || self.rules.ecosystems.contains(ecosystem)
    }

    /// The schema of the registry that the credential of a schema stands for.
    fn schema(&self, url: &str, integrity: Option<&str>, text: &str) -> Result<&Schema, Stop> {
        let invalid =
            |what: &dyn std::fmt::Display| Reason::new(Code::SchemaCredentialInvalid, format!("{url}: {what}"));
        if let Some(integrity) = integrity.filter(|integrity| !matches_sri(text.as_bytes(), integrity)) {
            return Err(Reason::new(Code::SchemaDigestMismatch, format!("{url} is not {integrity}")).into());
        }
        let body: Value = serde_json::from_str(text).map_err(|error| invalid(&error))?;
        let credential = Credential::read(&body).map_err(|reason| invalid(&reason.message))?;
        if !is_of_type(&body, "JsonSchemaCredential") {
            return Err(invalid(&"its type is not JsonSchemaCredential").into());
        }
        let reference = credential.subject["jsonSchema"]["$ref"].as_str();
        let reference = reference.ok_or_else(|| invalid(&"it names no jsonSchema"))?;
        let id = schema::id_of(reference, &self.rules.schema_prefix)
            .ok_or_else(|| Reason::new(Code::SchemaUnsupported, reference))?;
        let issuer_document = self.gaze.document(credential.issuer);
        let schema = self.gaze.schema(id)?;
        if credential.issuer != schema.ecosystem_did {
            let who = format!("{} issued it, the ecosystem is {}", credential.issuer, schema.ecosystem_did);
            return Err(Reason::new(Code::SchemaCredentialIssuer, who).into());
        }
        self.check_proof(&body, credential.issuer, issuer_document?, &[Purpose::AssertionMethod])
            .map_err(|reason| Reason { message: format!("{url}: {}", reason.message), ..reason })?;
        credential.check_time(self.rules.now)?;
        let integrity = optional_text(&credential.subject["digestSRI"]).map_err(|what| invalid(&what))?;
        if let Some(integrity) = integrity.filter(|integrity| !matches_sri(schema.json_schema.as_bytes(), integrity)) {
            let which = format!("the registry's schema {id} is not {integrity}");
            return Err(Reason::new(Code::SchemaDigestMismatch, which).into());
        }
        Ok(schema)
    }
}
