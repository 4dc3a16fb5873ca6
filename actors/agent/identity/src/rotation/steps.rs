//! The steps of a rotation as they are run: versions of the keeper, duties of the credential keeper, reads of the store.

use std::collections::BTreeSet;

use svc_agent_core::error::{AgentPart, Refusal, RefusalCode};
use svc_agent_store::{AgentStore, AgentStoreError, CredentialKind, CredentialState, StoredCredential, StoredRotation};
use svc_trust::did_document::ProofPurpose;

use super::{
    RotationAnswer,
    core::{DocumentFacts, RotationStep, StepEnd},
};
use crate::{
    credentials::CredentialHandle,
    document::{DocumentKeys, KeyChange},
    keeper::{KeeperHandle, PublishedDocument},
};

/// Reason of a credential in the store whose key has left the document.
const LOST_PROOF: &str = "KEY_COMPROMISED";

/// The end of a step, and the answer for a caller that waits for it.
pub struct StepReport {
    pub(super) end: StepEnd,
    pub(super) answer: Result<RotationAnswer, Refusal>,
}

impl StepReport {
    /// A step that has published nothing.
    pub(super) fn failed(refusal: Refusal) -> Self {
        Self { end: StepEnd::Failed, answer: Err(refusal) }
    }
}

fn store_failed(error: &AgentStoreError) -> Refusal {
    tracing::error!(%error, "the state of a rotation cannot be read or written");
    Refusal::not_ready(AgentPart::Store, "the store cannot be used now; nothing is published", 5)
}

/// Runs steps.
pub(super) struct StepRunner {
    pub store: AgentStore,
    pub keeper: KeeperHandle,
    pub credentials: CredentialHandle,
}

impl StepRunner {
    /// Returns the state of the document for a stored rotation.
    pub fn facts(&self, stored: Option<&StoredRotation>) -> DocumentFacts {
        let (published, keyring) = (self.keeper.published(), self.keeper.keys());
        let pair = stored.and_then(|stored| keyring.public(stored.new_version));
        DocumentFacts {
            has_new: pair.is_some_and(|pair| published.document.has_keys(pair)),
            has_retired: !published.document.retired_keys().is_empty(),
        }
    }

    /// Runs a step.
    pub async fn run(&self, new_version: u64, step: &RotationStep) -> StepReport {
        let ran = match step {
            RotationStep::AddKeys => self.publish_new(new_version, KeyChange::Add).await,
            RotationStep::ResignPresentations => self.publish_known(new_version, KeyChange::Promote).await,
            RotationStep::RetireOld => self.publish_known(new_version, KeyChange::RetireOthers).await,
            RotationStep::RemoveOld { methods } => self.publish(new_version, KeyChange::Remove(methods.clone())).await,
            RotationStep::ReplaceAll => self.replace_all(new_version).await,
            RotationStep::ReissueOwn => self.reissue_own().await,
            RotationStep::CountUses => self.count_uses().await,
        };
        ran.unwrap_or_else(StepReport::failed)
    }

    /// The pair is in the store before the document names it. A repetition of the step finds it there.
    async fn publish_new(
        &self,
        new_version: u64,
        change: impl FnOnce(DocumentKeys) -> KeyChange,
    ) -> Result<StepReport, Refusal> {
        let keys = self.keeper.prepare_keys(new_version).await?;
        self.publish(new_version, change(keys)).await
    }

    async fn publish_known(
        &self,
        new_version: u64,
        change: impl FnOnce(DocumentKeys) -> KeyChange,
    ) -> Result<StepReport, Refusal> {
        let keys = self.keeper.keys().public(new_version).cloned();
        let keys = keys.ok_or_else(|| {
            Refusal::new(RefusalCode::InvalidState, format!("the store has no keys of version {new_version}"))
        })?;
        self.publish(new_version, change(keys)).await
    }

    async fn publish(&self, new_version: u64, change: KeyChange) -> Result<StepReport, Refusal> {
        let published = self.keeper.change_keys(change).await?;
        Ok(report_of(&published, new_version))
    }

    /// The version alone takes the key out of use: a list that cannot be read behind it is no failure of the step.
    async fn replace_all(&self, new_version: u64) -> Result<StepReport, Refusal> {
        let mut report = self.publish_new(new_version, KeyChange::Replace).await?;
        let removed = self.keeper.keys().removed_from(self.keeper.published().document.as_json());
        match (&mut report.answer, self.withdraw_lost(&removed).await) {
            (Ok(answer), Ok((of_others, of_schemas))) => {
                (answer.lost_credentials, answer.lost_schema_credentials) = (of_others, of_schemas);
            }
            (answer, Err(error)) => {
                tracing::error!(%error, "the credentials that have lost their proof cannot be listed");
                let message = "the old keys have left the document, but the credentials that have lost their proof could not be read: \
                               they are those of /v2/vt/issued-credentials with another key in their proof";
                *answer = Err(Refusal::not_ready(AgentPart::Store, message, 5));
            }
            (Err(_), Ok(_)) => {}
        }
        Ok(report)
    }

    /// The lists stay readable in the store, since the caller may be gone before its answer. The credential keeper signs credentials of
    /// schemas again where it finds none.
    async fn withdraw_lost(&self, methods: &[String]) -> Result<(Vec<String>, Vec<String>), AgentStoreError> {
        let now = self.credentials.chain_time();
        let of_others = self.store.credentials_of_keys(methods, CredentialKind::Issued, now).await?;
        let of_schemas = self.store.credentials_of_keys(methods, CredentialKind::Schema, now).await?;
        let all = of_others.iter().chain(&of_schemas);
        let rows: Vec<(String, String)> = all.map(|id| (id.clone(), LOST_PROOF.to_owned())).collect();
        self.store.withdraw_credentials(&rows).await?;
        if !of_schemas.is_empty()
            && let Err(refusal) = self.keeper.publish_credentials().await
        {
            tracing::warn!(%refusal, "the document still presents credentials without a proof");
        }
        Ok((of_others, of_schemas))
    }

    /// Asks for own credentials until none has the proof of an old key. A credential of a schema stays: a new one would have another
    /// digest, and those that name the old one would lose their schema.
    async fn reissue_own(&self) -> Result<StepReport, Refusal> {
        let held = self.store.held_credentials().await.map_err(|error| store_failed(&error))?;
        let published = self.keeper.published();
        let prover = self.keeper.prover(ProofPurpose::AssertionMethod);
        let method = prover.map(|prover| prover.verification_method).unwrap_or_default();
        let names = names_with_old_proof(&held, &method);
        if names.is_empty() {
            return Ok(report_of(&published, 0));
        }
        let message = format!("own credentials still have the proof of an old key: {names:?}");
        tracing::info!(?names, "own credentials are to be issued again");
        self.credentials.reissue(names);
        Err(Refusal::new(RefusalCode::InvalidState, message))
    }

    async fn count_uses(&self) -> Result<StepReport, Refusal> {
        let published = self.keeper.published();
        let now = self.credentials.chain_time();
        let uses = self.store.key_uses(&published.document.retired_keys(), now).await;
        let uses = uses.map_err(|error| store_failed(&error))?;
        Ok(StepReport { end: StepEnd::Counted(uses), ..report_of(&published, 0) })
    }

    /// Writes the state of a rotation.
    pub async fn save(&self, rotation: &StoredRotation) -> Result<(), Refusal> {
        self.store.write_rotation(rotation).await.map_err(|error| store_failed(&error))
    }

    /// Removes the state of a rotation. Without it the next process finds that nothing is left to do.
    pub async fn end(&self, new_version: u64) -> Result<(), Refusal> {
        self.store.end_rotation(new_version).await.map_err(|error| store_failed(&error))
    }
}

fn report_of(published: &PublishedDocument, new_version: u64) -> StepReport {
    let answer = RotationAnswer {
        version_id: published.version.version_id.clone(),
        key_version: Some(new_version).filter(|version| *version > 0),
        ..RotationAnswer::default()
    };
    let has_retired = !published.document.retired_keys().is_empty();
    StepReport { end: StepEnd::Done { has_retired }, answer: Ok(answer) }
}

/// The names of own credentials that another key than this one proves.
fn names_with_old_proof(held: &[StoredCredential], method: &str) -> BTreeSet<String> {
    let own = held.iter().filter(|one| one.kind == CredentialKind::Own && one.state == CredentialState::Anchored);
    own.filter(|one| one.proof_method != method).map(|one| one.name.clone()).collect()
}
