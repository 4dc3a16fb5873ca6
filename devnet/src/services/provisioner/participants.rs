//! The ecosystem, its schemas, and the participants of all services.

use serde_json::{Value, json};

use super::{FRAMEWORK_DIGEST, ServiceProvisioner, StepContext, identities::field_text, rfc3339_text};
use crate::{
    scenario::SeedError,
    services::{HolderOnboarding, IssuerOnboarding, ParticipantOutcome, SchemaSpec, ServiceSpec},
};

/// Seconds until a participant begins; the chain requires a begin in the future.
const ACTIVATION_SECONDS: i64 = 5;
/// Seconds until an idle participant begins: after the end of every test.
const YEAR_SECONDS: i64 = 365 * 24 * 3_600;

/// A message that creates an entity, and the name to save its id under.
struct NamedMessage {
    saved_name: String,
    kind: &'static str,
    value: Value,
}

/// A validation of an applicant.
struct ApplicantValidation {
    /// Saved name of the applicant's participant.
    applicant: String,
    /// Fields of the message that name the validator.
    signer: Value,
    /// Validation fee that the applicant can ask for.
    fees: u64,
    /// End of the participant, in Unix seconds.
    end: Option<i64>,
}

impl ServiceProvisioner<'_> {
    /// Creates the ecosystem with its schemas and root participants, and publishes the schemas as credentials.
    pub(super) async fn create_ecosystem(&mut self, mut work: StepContext<'_, '_>) -> Result<(), SeedError> {
        let (name, service) = (&self.ecosystem.name, &self.ecosystem.service);
        let actor = self.signer_fields(&work, service)?;
        let did = self.did(service).map_err(|error| work.step_error(error))?.to_owned();
        let mut ecosystem = actor.clone();
        ecosystem["did"] = did.as_str().into();
        ecosystem["language"] = "en".into();
        ecosystem["doc_url"] = format!("{}/{service}/framework.pdf", self.origin()).into();
        ecosystem["doc_digest_sri"] = FRAMEWORK_DIGEST.into();
        let answers = work.send(&self.ecosystem.clerk, vec![("ec.MsgCreateEcosystem", ecosystem)]).await?;
        let ecosystem_id = answers.first().map(|answer| field_text(&answer["ecosystem_id"])).unwrap_or_default();
        work.save(name.clone(), ecosystem_id.clone());

        let fee = work.runner.denom().to_owned();
        let schemas = self.schemas.iter().map(|schema| {
            let mut value = schema_terms(schema, &fee);
            value["corporation"] = actor["corporation"].clone();
            value["operator"] = actor["operator"].clone();
            value["ecosystem_id"] = ecosystem_id.as_str().into();
            NamedMessage { saved_name: format!("{}.schema", schema.name), kind: "cs.MsgCreateCredentialSchema", value }
        });
        let schemas = schemas.collect();
        self.send_and_save_ids(&mut work, schemas).await?;

        let begin = rfc3339_text(work.block_seconds() + ACTIVATION_SECONDS);
        let mut roots = Vec::new();
        for schema in self.schemas {
            let mut value = actor.clone();
            value["schema_id"] = work.value(&format!("{}.schema", schema.name))?.into();
            value["did"] = did.as_str().into();
            value["effective_from"] = begin.as_str().into();
            value["validation_fees"] = schema.fees.into();
            let saved_name = format!("{}.root", schema.name);
            roots.push(NamedMessage { saved_name, kind: "pp.MsgCreateRootParticipant", value });
        }
        self.send_and_save_ids(&mut work, roots).await?;
        self.publish_schemas(&work).await
    }

    /// Creates the participants of issuers: self-created under open schemas, otherwise validated by the ecosystem.
    pub(super) async fn onboard_issuers(&mut self, mut work: StepContext<'_, '_>) -> Result<(), SeedError> {
        let now = work.block_seconds();
        let validator = self.signer_fields(&work, &self.ecosystem.service)?;
        let (mut made, mut awaiting) = (Vec::new(), Vec::new());
        for part in self.services {
            for (name, issuer) in &part.issues {
                let schema = self.schema_spec(name).map_err(|error| work.step_error(error))?;
                let saved_name = format!("{}.{name}.issuer", part.name);
                let mut value = self.applicant_fields(&work, part, "ISSUER", &format!("{name}.root"))?;
                let end = issuer.ends.map(|seconds| now + i64::from(seconds));
                if let Some(end) = end.filter(|_| part.credentials.get(name).is_some_and(|held| held.by.is_none())) {
                    self.record_expiry(&part.name, name, end);
                }
                if schema.issuers == IssuerOnboarding::Ecosystem {
                    made.push(NamedMessage { saved_name: saved_name.clone(), kind: "pp.MsgStartParticipantOP", value });
                    if issuer.fate != ParticipantOutcome::Idle {
                        let signer = validator.clone();
                        awaiting.push(ApplicantValidation { applicant: saved_name, signer, fees: issuer.fees, end });
                    }
                    continue;
                }
                value["validation_fees"] = issuer.fees.into();
                let wait = if issuer.fate == ParticipantOutcome::Idle { YEAR_SECONDS } else { ACTIVATION_SECONDS };
                value["effective_from"] = rfc3339_text(now + wait).into();
                if let Some(end) = end {
                    value["effective_until"] = rfc3339_text(end).into();
                }
                made.push(NamedMessage { saved_name, kind: "pp.MsgSelfCreateParticipant", value });
            }
        }
        self.send_and_save_ids(&mut work, made).await?;
        self.validate_applicants(&mut work, awaiting).await
    }

    /// Creates the participants of holders, validated by issuers.
    pub(super) async fn onboard_holders(&mut self, mut work: StepContext<'_, '_>) -> Result<(), SeedError> {
        let now = work.block_seconds();
        let (mut made, mut awaiting) = (Vec::new(), Vec::new());
        for part in self.services {
            for (name, credential) in &part.credentials {
                let schema = self.schema_spec(name).map_err(|error| work.step_error(error))?;
                let Some(by) = credential.by.as_deref() else { continue };
                if schema.holders == HolderOnboarding::Open || credential.fate == ParticipantOutcome::Never {
                    continue;
                }
                let saved_name = format!("{}.{name}.holder", part.name);
                let value = self.applicant_fields(&work, part, "HOLDER", &format!("{by}.{name}.issuer"))?;
                made.push(NamedMessage { saved_name: saved_name.clone(), kind: "pp.MsgStartParticipantOP", value });
                if credential.fate != ParticipantOutcome::Idle {
                    let end = credential.ends.map(|seconds| now + i64::from(seconds));
                    let signer = self.signer_fields(&work, by)?;
                    awaiting.push(ApplicantValidation { applicant: saved_name, signer, fees: 0, end });
                    if let Some(end) = end {
                        self.record_expiry(&part.name, name, end);
                    }
                }
            }
        }
        self.send_and_save_ids(&mut work, made).await?;
        self.validate_applicants(&mut work, awaiting).await
    }

    /// Revokes and slashes participants, as the ecosystem.
    pub(super) async fn revoke_and_slash(&mut self, mut work: StepContext<'_, '_>) -> Result<(), SeedError> {
        let actor = self.signer_fields(&work, &self.ecosystem.service)?;
        let mut messages = Vec::new();
        for part in self.services {
            let issuers = part.issues.iter().map(|(schema, issuer)| (schema, "issuer", issuer.fate));
            let holders = part.credentials.iter().map(|(schema, held)| (schema, "holder", held.fate));
            for (schema, role, fate) in issuers.chain(holders) {
                let mut value = actor.clone();
                let kind = match fate {
                    ParticipantOutcome::Revoked => "pp.MsgRevokeParticipant",
                    ParticipantOutcome::Slashed => {
                        value["amount"] = 1.into();
                        value["reason"] = format!("what {} shows", part.name).into();
                        "pp.MsgSlashParticipantTrustDeposit"
                    }
                    ParticipantOutcome::Active | ParticipantOutcome::Never | ParticipantOutcome::Idle => continue,
                };
                value["id"] = work.value(&format!("{}.{schema}.{role}", part.name))?.into();
                messages.push((kind, value));
            }
        }
        work.send(&self.ecosystem.clerk, messages).await?;
        Ok(())
    }

    /// Returns the fields of the sender: the corporation of a service, and the clerk as its operator.
    pub(super) fn signer_fields(&self, work: &StepContext<'_, '_>, service: &str) -> Result<Value, SeedError> {
        let corporation = work.value(&format!("{service}.corporation"))?;
        Ok(json!({"corporation": corporation, "operator": work.value(&self.ecosystem.clerk)?}))
    }

    fn applicant_fields(
        &self,
        work: &StepContext<'_, '_>,
        part: &ServiceSpec,
        role: &str,
        validator: &str,
    ) -> Result<Value, SeedError> {
        let mut value = self.signer_fields(work, &part.name)?;
        value["role"] = role.into();
        value["validator_participant_id"] = work.value(validator)?.into();
        value["did"] = self.did(&part.name).map_err(|error| work.step_error(error))?.into();
        Ok(value)
    }

    /// Sends messages that each create an entity, and saves the ids.
    async fn send_and_save_ids(
        &self,
        work: &mut StepContext<'_, '_>,
        named_messages: Vec<NamedMessage>,
    ) -> Result<(), SeedError> {
        let (names, messages): (Vec<_>, Vec<_>) =
            named_messages.into_iter().map(|named| (named.saved_name, (named.kind, named.value))).unzip();
        let answers = work.send(&self.ecosystem.clerk, messages).await?;
        for (name, answer) in names.into_iter().zip(answers) {
            let id = answer.get("participant_id").unwrap_or(&answer["id"]);
            work.save(name, field_text(id));
        }
        Ok(())
    }

    /// Validates applicants.
    async fn validate_applicants(
        &self,
        work: &mut StepContext<'_, '_>,
        awaiting: Vec<ApplicantValidation>,
    ) -> Result<(), SeedError> {
        let mut messages = Vec::new();
        for ApplicantValidation { applicant, signer: mut value, fees, end } in awaiting {
            value["id"] = work.value(&applicant)?.into();
            value["validation_fees"] = fees.into();
            if let Some(end) = end {
                value["effective_until"] = rfc3339_text(end).into();
            }
            messages.push(("pp.MsgSetParticipantOPToValidated", value));
        }
        work.send(&self.ecosystem.clerk, messages).await?;
        Ok(())
    }
}

/// Returns the fields of a schema other than its owner: validations have no end, verifiers are open, prices are in the fee denom.
fn schema_terms(schema: &SchemaSpec, fee: &str) -> Value {
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
        "issuer_onboarding_mode": if schema.issuers == IssuerOnboarding::Open { OPEN } else { BY_THE_ECOSYSTEM },
        "verifier_onboarding_mode": OPEN,
        "holder_onboarding_mode": if schema.holders == HolderOnboarding::Issuer { BY_THE_ISSUER } else { FREE },
        "pricing_asset_type": COIN, "pricing_asset": fee, "digest_algorithm": "sha384",
    })
}
