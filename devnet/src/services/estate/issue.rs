//! Credentials, their presentations, and the anchors of their digests.

use serde_json::{Value, json};
use svc_trust::{
    Essential,
    digest::{Algorithm, digest_jcs, sri},
};

use super::{Estate, Failure, Work, found::schema_presentation_path, seconds_text};
use crate::{
    scenario::SeedError,
    services::{
        Anchored, Fault, Form, JSON, KEY, SECOND_KEY, SchemaPart, ServicePart, Statement,
        credential::{presentation, sign, sign_until},
        presentation_path, schema_path,
    },
};

/// Digest algorithm of every schema, and of every integrity text.
const ALGORITHM: Algorithm = Algorithm::Sha384;
const TEN_YEARS: i64 = 315_360_000;
/// Id of a schema the registry does not have.
const UNKNOWN: &str = "999999";

impl Estate<'_> {
    /// Publishes a credential for each schema, signed by the ecosystem.
    pub(super) async fn publish_schemas(&mut self, work: &Work<'_, '_>) -> Result<(), SeedError> {
        let at = seconds_text(work.now());
        let service = &self.ecosystem.service;
        for schema in self.schemas {
            let id = work.value(&format!("{}.schema", schema.name))?;
            let text = work.runner.json_schema(&id).await?;
            let reference = format!("{}{id}", work.runner.schema_prefix());
            let path = schema_path(service, &schema.name);
            let made = self.schema_credential(service, &path, Some(&reference), &text, &at);
            let credential = made.map_err(|error| work.failed(error))?;
            let body = credential.to_string();
            let named = (format!("{}{path}", self.origin()), sri(body.as_bytes(), ALGORITHM));
            self.schema_credentials.insert(schema.name.clone(), named);
            self.pages.put(path, JSON, body);
            let shown = self.identity_of(service).and_then(|holder| {
                presentation(&holder.did, vec![credential], &holder.prover(KEY), Form::Jcs, &at)
                    .map_err(|why| why.message)
            });
            let shown = shown.map_err(|error| work.failed(error))?;
            self.pages.put(schema_presentation_path(service, schema), JSON, shown.to_string());
        }
        Ok(())
    }

    fn identity_of(&self, service: &str) -> Result<&crate::services::Identity, Failure> {
        self.identities.get(service).ok_or_else(|| format!("there is no service {service:?}"))
    }

    /// The credential of a schema, by whoever claims to have issued it.
    fn schema_credential(
        &self,
        by: &str,
        path: &str,
        reference: Option<&str>,
        text: &str,
        at: &str,
    ) -> Result<Value, Failure> {
        let issuer = self.identity_of(by)?;
        let mut subject = json!({"id": reference.unwrap_or(&issuer.did), "type": "JsonSchema"});
        if let Some(reference) = reference {
            subject["jsonSchema"] = json!({"$ref": reference});
            subject["digestSRI"] = sri(text.as_bytes(), ALGORITHM).into();
        }
        let statement = Statement {
            id: format!("{}{path}", self.origin()),
            issuer: issuer.did.clone(),
            kind: "JsonSchemaCredential".to_owned(),
            subject,
            schema: None,
            from: at.to_owned(),
            until: None,
        };
        let mut credential = statement.credential(Form::Jcs);
        sign(&mut credential, &issuer.prover(KEY), Form::Jcs, at).map_err(|reason| reason.message)?;
        Ok(credential)
    }

    /// Issues what is to be anchored at this time, and anchors it.
    pub(super) async fn anchor(&mut self, mut work: Work<'_, '_>, times: &[Anchored]) -> Result<(), SeedError> {
        let mut messages = Vec::new();
        for part in self.services {
            for schema in self.held(part) {
                let Some(held) = part.credentials.get(&schema.name).filter(|held| times.contains(&held.anchored))
                else {
                    continue;
                };
                let issuer = held.by.as_deref().unwrap_or(&part.name);
                let reference =
                    format!("{}{}", work.runner.schema_prefix(), work.value(&format!("{}.schema", schema.name))?);
                let now = work.now();
                let issued = self.issue(part, schema, issuer, &reference, now);
                let credential = issued.map_err(|error| work.failed(error))?;
                let digest = digest_jcs(&credential, ALGORITHM).unwrap_or_default();
                self.show(part, schema, credential, now).map_err(|error| work.failed(error))?;
                if let Some(seconds) = held.valid {
                    self.ends_at(&part.name, &schema.name, now + i64::from(seconds));
                }
                if held.anchored != Anchored::Never {
                    let actor = self.actor(&work, issuer)?;
                    let digest = format!("{}-{digest}", ALGORITHM.as_str());
                    let value =
                        json!({"authority": actor["corporation"], "operator": actor["operator"], "digest": digest});
                    messages.push(("di.MsgStoreDigest", value));
                }
            }
        }
        work.send(&self.ecosystem.clerk, messages).await?;
        Ok(())
    }

    /// A credential, with what is wrong with it.
    fn issue(
        &self,
        part: &ServicePart,
        schema: &SchemaPart,
        issuer: &str,
        reference: &str,
        now: i64,
    ) -> Result<Value, Failure> {
        let fault = self.fault(part, schema);
        let (own, at) = (self.identity_of(issuer)?, seconds_text(now));
        let valid = part.credentials.get(&schema.name).and_then(|held| held.valid);
        let mut statement = Statement {
            id: format!("{}/{issuer}/credentials/{}-{}", self.origin(), part.name, schema.name),
            issuer: own.did.clone(),
            kind: schema.essential.map_or("DevnetCredential", Essential::as_str).to_owned(),
            subject: self.subject(part, schema)?,
            schema: Some(self.schema_of(part, schema, reference, fault, &at)?),
            from: at.clone(),
            until: valid.map(|seconds| seconds_text(now + i64::from(seconds))),
        };
        match fault {
            Some(Fault::OtherSubject) => statement.subject["id"] = own.did.as_str().into(),
            Some(Fault::NoIssuer) => statement.issuer = "nobody".to_owned(),
            Some(Fault::NotYetValid) => statement.from = seconds_text(now + TEN_YEARS),
            Some(Fault::Mismatch) => statement.subject["name"] = 7.into(),
            _ => {}
        }
        let prover = match fault {
            Some(Fault::KeyMissing | Fault::KeyForAuthentication | Fault::KeyRevoked | Fault::KeyUnusable) => {
                own.prover(SECOND_KEY)
            }
            Some(Fault::OtherSigner) => self.identity_of(&self.ecosystem.service)?.prover(KEY),
            _ => own.prover(KEY),
        };
        let mut credential = statement.credential(part.suite);
        if fault == Some(Fault::ProofExpired) {
            sign_until(&mut credential, &prover, &at, &seconds_text(now + 1));
        } else {
            sign(&mut credential, &prover, part.suite, &at).map_err(|reason| reason.message)?;
        }
        match (fault, credential.as_object_mut()) {
            (Some(Fault::Unproved), Some(members)) => {
                members.remove("proof");
            }
            (Some(Fault::OtherSuite), _) => credential["proof"]["cryptosuite"] = "ecdsa-jcs-2019".into(),
            _ => {}
        }
        Ok(credential)
    }

    /// What a credential says about its holder.
    fn subject(&self, part: &ServicePart, schema: &SchemaPart) -> Result<Value, Failure> {
        let (did, name) = (self.did(&part.name)?, &part.name);
        let page = |what: &str| format!("https://{name}.devnet.example/{what}");
        Ok(match schema.essential {
            Some(Essential::Service) => json!({
                "id": did, "name": name, "type": "DevnetService", "description": part.shows, "minimumAgeRequired": 0,
                "termsAndConditions": page("terms"), "privacyPolicy": page("privacy"),
            }),
            Some(Essential::Organization) => json!({
                "id": did, "name": format!("{name} company"), "registryId": format!("DEV-{name}"),
                "address": "1 Loopback Road", "countryCode": "EE",
            }),
            Some(Essential::Persona) => {
                json!({"id": did, "name": format!("keeper of {name}"), "controllerCountryCode": "EE"})
            }
            Some(Essential::UserAgent) => json!({"id": did, "name": name, "version": "1"}),
            None => json!({"id": did, "name": name}),
        })
    }

    /// The schema a credential refers to.
    fn schema_of(
        &self,
        part: &ServicePart,
        schema: &SchemaPart,
        reference: &str,
        fault: Option<Fault>,
        at: &str,
    ) -> Result<Value, Failure> {
        let named = self.schema_credentials.get(&schema.name);
        let (mut url, mut digest) =
            named.cloned().ok_or_else(|| format!("schema {:?} has no credential", schema.name))?;
        let prefix = reference.trim_end_matches(|digit: char| digit.is_ascii_digit());
        let unknown = format!("{prefix}{UNKNOWN}");
        let ecosystem = self.ecosystem.service.as_str();
        let instead = match fault {
            Some(Fault::UnknownSchema) => Some((ecosystem, Some(unknown.as_str()))),
            Some(Fault::SchemaNameless) => Some((ecosystem, None)),
            Some(Fault::SchemaByStranger) => Some((part.name.as_str(), Some(reference))),
            _ => None,
        };
        if let Some((by, reference)) = instead {
            let path = schema_path(&part.name, &schema.name);
            let body = self.schema_credential(by, &path, reference, schema.text(), at)?.to_string();
            (url, digest) = (format!("{}{path}", self.origin()), sri(body.as_bytes(), ALGORITHM));
            self.pages.put(path, JSON, body);
        }
        if fault == Some(Fault::OtherSchemaDigest) {
            digest = sri(b"another", ALGORITHM);
        }
        let kind = if fault == Some(Fault::NoSchema) { "JsonSchema" } else { "JsonSchemaCredential" };
        Ok(json!({"id": url, "type": kind, "digestSRI": digest}))
    }

    /// Presents a credential where the document links to, with what is wrong with the presentation.
    fn show(&self, part: &ServicePart, schema: &SchemaPart, credential: Value, now: i64) -> Result<(), Failure> {
        let fault = self.fault(part, schema);
        let holder = self.identity_of(&part.name)?;
        let shown_by = if fault == Some(Fault::OtherHolder) { self.did(&self.ecosystem.service)? } else { &holder.did };
        let at = seconds_text(now);
        let made = presentation(shown_by, vec![credential], &holder.prover(KEY), part.suite, &at);
        let mut shown = made.map_err(|reason| reason.message)?;
        match fault {
            Some(Fault::PresentationAbsent | Fault::PresentationOverHttp) => return Ok(()),
            Some(Fault::NoPresentation) => shown["type"] = json!(["Letter"]),
            Some(Fault::PresentationChanged) => shown["id"] = "urn:example:changed".into(),
            Some(Fault::ManyProofs) => shown["proof"] = vec![shown["proof"].take(); 5].into(),
            _ => {}
        }
        self.pages.put(presentation_path(&part.name, &schema.name), JSON, shown.to_string());
        Ok(())
    }
}
