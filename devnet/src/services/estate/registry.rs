//! The ecosystem, its schemas, and the participants of all services.

use serde_json::{Value, json};

use super::{Estate, FRAMEWORK_DIGEST, Work, found::text, seconds_text};
use crate::{
    scenario::SeedError,
    services::{Fate, Holders, Issuers, SchemaPart, ServicePart},
};

/// Seconds until what has to begin in the future begins, and what is not to begin.
const SOON: i64 = 5;
const YEAR: i64 = 365 * 24 * 3_600;

/// A message, and the name under which the participant it makes is saved.
type Naming = (String, (&'static str, Value));

impl Estate<'_> {
    /// The ecosystem with its schemas and its own participants. Schemas are published as credentials.
    pub(super) async fn constitute(&mut self, mut work: Work<'_, '_>) -> Result<(), SeedError> {
        let (name, service) = (&self.ecosystem.name, &self.ecosystem.service);
        let actor = self.actor(&work, service)?;
        let did = self.did(service).map_err(|error| work.failed(error))?.to_owned();
        let mut ecosystem = actor.clone();
        ecosystem["did"] = did.as_str().into();
        ecosystem["language"] = "en".into();
        ecosystem["doc_url"] = format!("{}/{service}/framework.pdf", self.origin()).into();
        ecosystem["doc_digest_sri"] = FRAMEWORK_DIGEST.into();
        let answers = work.send(&self.ecosystem.clerk, vec![("ec.MsgCreateEcosystem", ecosystem)]).await?;
        let ecosystem_id = answers.first().map(|answer| text(&answer["ecosystem_id"])).unwrap_or_default();
        work.save(name.clone(), ecosystem_id.clone());

        let fee = work.runner.denom().to_owned();
        let schemas = self.schemas.iter().map(|schema| {
            let mut value = schema_terms(schema, &fee);
            value["corporation"] = actor["corporation"].clone();
            value["operator"] = actor["operator"].clone();
            value["ecosystem_id"] = ecosystem_id.as_str().into();
            (format!("{}.schema", schema.name), ("cs.MsgCreateCredentialSchema", value))
        });
        let schemas = schemas.collect();
        self.make(&mut work, schemas).await?;

        let begin = seconds_text(work.now() + SOON);
        let mut roots = Vec::new();
        for schema in self.schemas {
            let mut value = actor.clone();
            value["schema_id"] = work.value(&format!("{}.schema", schema.name))?.into();
            value["did"] = did.as_str().into();
            value["effective_from"] = begin.as_str().into();
            value["validation_fees"] = schema.fees.into();
            roots.push((format!("{}.root", schema.name), ("pp.MsgCreateRootParticipant", value)));
        }
        self.make(&mut work, roots).await?;
        self.publish_schemas(&work).await
    }

    /// Issuers: those of open schemas create themselves, the others are validated by the ecosystem.
    pub(super) async fn authorise(&mut self, mut work: Work<'_, '_>) -> Result<(), SeedError> {
        let now = work.now();
        let validator = self.actor(&work, &self.ecosystem.service)?;
        let (mut made, mut awaiting) = (Vec::new(), Vec::new());
        for part in self.services {
            for (name, issuer) in &part.issues {
                let schema = self.schema(name).map_err(|error| work.failed(error))?;
                let saved = format!("{}.{name}.issuer", part.name);
                let mut value = self.applicant(&work, part, "ISSUER", &format!("{name}.root"))?;
                let end = issuer.ends.map(|seconds| now + i64::from(seconds));
                if let Some(end) = end.filter(|_| part.credentials.get(name).is_some_and(|held| held.by.is_none())) {
                    self.ends_at(&part.name, name, end);
                }
                if schema.issuers == Issuers::Ecosystem {
                    made.push((saved.clone(), ("pp.MsgStartParticipantOP", value)));
                    if issuer.fate != Fate::Idle {
                        awaiting.push((saved, validator.clone(), issuer.fees, end));
                    }
                    continue;
                }
                value["validation_fees"] = issuer.fees.into();
                let wait = if issuer.fate == Fate::Idle { YEAR } else { SOON };
                value["effective_from"] = seconds_text(now + wait).into();
                if let Some(end) = end {
                    value["effective_until"] = seconds_text(end).into();
                }
                made.push((saved, ("pp.MsgSelfCreateParticipant", value)));
            }
        }
        self.make(&mut work, made).await?;
        self.validate(&mut work, awaiting).await
    }

    /// Holders: issuers validate them.
    pub(super) async fn admit(&mut self, mut work: Work<'_, '_>) -> Result<(), SeedError> {
        let now = work.now();
        let (mut made, mut awaiting) = (Vec::new(), Vec::new());
        for part in self.services {
            for (name, credential) in &part.credentials {
                let schema = self.schema(name).map_err(|error| work.failed(error))?;
                let Some(by) = credential.by.as_deref() else { continue };
                if schema.holders == Holders::Open || credential.fate == Fate::Never {
                    continue;
                }
                let saved = format!("{}.{name}.holder", part.name);
                let value = self.applicant(&work, part, "HOLDER", &format!("{by}.{name}.issuer"))?;
                made.push((saved.clone(), ("pp.MsgStartParticipantOP", value)));
                if credential.fate != Fate::Idle {
                    let end = credential.ends.map(|seconds| now + i64::from(seconds));
                    awaiting.push((saved, self.actor(&work, by)?, 0, end));
                    if let Some(end) = end {
                        self.ends_at(&part.name, name, end);
                    }
                }
            }
        }
        self.make(&mut work, made).await?;
        self.validate(&mut work, awaiting).await
    }

    /// What the ecosystem takes away.
    pub(super) async fn withdraw(&mut self, mut work: Work<'_, '_>) -> Result<(), SeedError> {
        let actor = self.actor(&work, &self.ecosystem.service)?;
        let mut messages = Vec::new();
        for part in self.services {
            let issuers = part.issues.iter().map(|(schema, issuer)| (schema, "issuer", issuer.fate));
            let holders = part.credentials.iter().map(|(schema, held)| (schema, "holder", held.fate));
            for (schema, role, fate) in issuers.chain(holders) {
                let mut value = actor.clone();
                let kind = match fate {
                    Fate::Revoked => "pp.MsgRevokeParticipant",
                    Fate::Slashed => {
                        value["amount"] = 1.into();
                        value["reason"] = format!("what {} shows", part.name).into();
                        "pp.MsgSlashParticipantTrustDeposit"
                    }
                    Fate::Active | Fate::Never | Fate::Idle => continue,
                };
                value["id"] = work.value(&format!("{}.{schema}.{role}", part.name))?.into();
                messages.push((kind, value));
            }
        }
        work.send(&self.ecosystem.clerk, messages).await?;
        Ok(())
    }

    /// The members that say who acts: a service's corporation, by the clerk.
    pub(super) fn actor(&self, work: &Work<'_, '_>, service: &str) -> Result<Value, SeedError> {
        let corporation = work.value(&format!("{service}.corporation"))?;
        Ok(json!({"corporation": corporation, "operator": work.value(&self.ecosystem.clerk)?}))
    }

    fn applicant(
        &self,
        work: &Work<'_, '_>,
        part: &ServicePart,
        role: &str,
        validator: &str,
    ) -> Result<Value, SeedError> {
        let mut value = self.actor(work, &part.name)?;
        value["role"] = role.into();
        value["validator_participant_id"] = work.value(validator)?.into();
        value["did"] = self.did(&part.name).map_err(|error| work.failed(error))?.into();
        Ok(value)
    }

    /// Sends messages that each make something, and saves its id.
    async fn make(&self, work: &mut Work<'_, '_>, namings: Vec<Naming>) -> Result<(), SeedError> {
        let (names, messages): (Vec<_>, Vec<_>) = namings.into_iter().unzip();
        let answers = work.send(&self.ecosystem.clerk, messages).await?;
        for (name, answer) in names.into_iter().zip(answers) {
            let id = answer.get("participant_id").unwrap_or(&answer["id"]);
            work.save(name, text(id));
        }
        Ok(())
    }

    /// Validates applicants, by name: each by its validator, with the fees it may ask for and the second at which it ends.
    async fn validate(
        &self,
        work: &mut Work<'_, '_>,
        awaiting: Vec<(String, Value, u64, Option<i64>)>,
    ) -> Result<(), SeedError> {
        let mut messages = Vec::new();
        for (name, mut value, fees, end) in awaiting {
            value["id"] = work.value(&name)?.into();
            value["validation_fees"] = fees.into();
            if let Some(end) = end {
                value["effective_until"] = seconds_text(end).into();
            }
            messages.push(("pp.MsgSetParticipantOPToValidated", value));
        }
        work.send(&self.ecosystem.clerk, messages).await?;
        Ok(())
    }
}

/// What a schema says besides whose it is: nothing ends by itself, verifiers are free, and prices are in the fee denom.
fn schema_terms(schema: &SchemaPart, fee: &str) -> Value {
    const OPEN: u8 = 1;
    const BY_THE_ECOSYSTEM: u8 = 2;
    const BY_THE_ISSUER: u8 = 1;
    const FREE: u8 = 2;
    const COIN: u8 = 2;
    let endless = json!({"value": 0});
    json!({
        "json_schema": schema.text(),
        "issuer_grantor_validation_validity_period": endless, "verifier_grantor_validation_validity_period": endless,
        "issuer_validation_validity_period": endless, "verifier_validation_validity_period": endless,
        "holder_validation_validity_period": endless,
        "issuer_onboarding_mode": if schema.issuers == Issuers::Open { OPEN } else { BY_THE_ECOSYSTEM },
        "verifier_onboarding_mode": OPEN,
        "holder_onboarding_mode": if schema.holders == Holders::Issuer { BY_THE_ISSUER } else { FREE },
        "pricing_asset_type": COIN, "pricing_asset": fee, "digest_algorithm": "sha384",
    })
}
