//! The key rotator: gives the log another update key, the document another pair, and the store's private keys another store key.
//!
//! It owns the order and the times of the steps of a pair; the document keeper writes each version, and the credential keeper replaces
//! credentials. An update key is one entry and a store key one transaction: they need no steps. The phase is in the store before a
//! step begins and after it has ended, and each step can be repeated, so that a rotation goes on after the actor or its process died. A
//! caller hears of the first version; the others follow by themselves.

mod actor;
mod core;
mod steps;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use svc_agent_core::error::{AgentPart, Refusal, RefusalCode};
use svc_agent_store::{AgentStore, RotationPhase};
use svc_kit::{Handle, ReplyPort, RetainedState, impl_actor_message, supervision::ChildSpec};

use self::{
    actor::KeyRotator,
    core::{RotationOptions, RotationStep},
    steps::{StepReport, StepRunner},
};
use crate::{credentials::CredentialHandle, keeper::KeeperHandle};

pub use self::core::RotationPauses;

/// Longest wait of a caller: a pair is written to the store, and the keeper writes a version, behind one that it is writing.
const MAX_WAIT: Duration = Duration::from_secs(250);
/// Messages that may wait: each caller sends one.
const MAILBOX: usize = 64;

/// The keys that a rotation concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationKind {
    /// The key that signs the entries of the log.
    Update,
    /// The pair of the document.
    Document,
    /// The key that encrypts the private keys of the store.
    Store,
}

/// A request for a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RotationRequest {
    /// The keys.
    pub kind: RotationKind,
    /// Whether a thief may have the keys: the pairs leave the document at once.
    pub is_compromised: bool,
    /// Whether own credentials are replaced, so that the old pair can leave the document earlier.
    pub reissue: bool,
}

/// The answer to a rotation that has begun or, where it is one step, has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RotationAnswer {
    /// Id of the newest version of the document.
    pub version_id: String,
    /// Version of the new pair, for a rotation of the document's keys.
    pub key_version: Option<u64>,
    /// Credentials of others that have lost their proof, for compromised keys.
    pub lost_credentials: Vec<String>,
    /// Credentials of own schemas that have lost their proof, and with it all credentials that name them.
    pub lost_schema_credentials: Vec<String>,
    /// Private keys that were encrypted with the previous store key, for a rotation of the store key.
    pub resealed: Option<u64>,
}

impl RotationRequest {
    /// Refuses choices that mean nothing for a kind, instead of passing over them.
    fn check(&self) -> Result<(), Refusal> {
        let rule = match self.kind {
            RotationKind::Document => return Ok(()),
            RotationKind::Update => "an update key is always out of use with the next entry: leave it out",
            RotationKind::Store => "a store key is always out of use with the next write: leave it out",
        };
        let violated = [("compromised", self.is_compromised), ("reissue", self.reissue)];
        match violated.into_iter().find(|(_, is_set)| *is_set) {
            Some((member, _)) => Err(Refusal::of_member(RefusalCode::InvalidInput, member, rule)),
            None => Ok(()),
        }
    }
}

/// Messages of the key rotator.
pub enum Msg {
    /// Rotates the keys of the document.
    Rotate {
        /// The choices.
        options: RotationOptions,
        /// The answer, once the first version is served.
        reply: ReplyPort<Result<RotationAnswer, Refusal>>,
    },
    /// A step has ended.
    Ended {
        /// Version of the rotation's pair.
        new_version: u64,
        /// The step.
        step: RotationStep,
        /// Its end.
        report: StepReport,
    },
    /// The time for a step may have come.
    Wake,
}

impl_actor_message!(Msg { Rotate, Ended, Wake });

/// Arguments of the actor.
pub struct Args {
    runner: Arc<StepRunner>,
    pauses: RotationPauses,
    phase: RetainedState<Option<RotationPhase>>,
}

/// The address of the key rotator.
#[derive(Clone)]
pub struct RotationHandle {
    actor: Handle<Msg>,
    store: AgentStore,
    keeper: KeeperHandle,
    phase: RetainedState<Option<RotationPhase>>,
}

impl RotationHandle {
    /// Returns the address, and the child specification that starts the actor.
    pub fn child_spec(
        store: AgentStore,
        keeper: KeeperHandle,
        credentials: CredentialHandle,
        pauses: RotationPauses,
    ) -> (Self, ChildSpec) {
        let actor = Handle::new("key_rotator", "key_rotator", MAILBOX);
        let phase = RetainedState::default();
        let runner = Arc::new(StepRunner { store: store.clone(), keeper: keeper.clone(), credentials });
        let child = ChildSpec::worker::<KeyRotator>(&actor, Args { runner, pauses, phase: phase.clone() });
        (Self { actor, store, keeper, phase }, child)
    }

    /// Returns the phase of the rotation of the document's keys; `None` without one.
    pub fn phase(&self) -> Option<RotationPhase> {
        self.phase.with(|phase| *phase)
    }

    /// Rotates keys. A rotation of the document's keys goes on after the answer.
    ///
    /// # Errors
    /// When the choices do not fit the kind, a rotation of the document's keys runs, or nothing can be published now.
    pub async fn rotate(&self, request: RotationRequest) -> Result<RotationAnswer, Refusal> {
        request.check()?;
        match request.kind {
            RotationKind::Update => {
                let published = self.keeper.rotate_update_key().await?;
                Ok(RotationAnswer { version_id: published.version.version_id.clone(), ..RotationAnswer::default() })
            }
            RotationKind::Store => self.reseal().await,
            RotationKind::Document => {
                let options = RotationOptions { reissue: request.reissue, is_compromised: request.is_compromised };
                let asked = self.actor.ask_within(MAX_WAIT, |reply| Msg::Rotate { options, reply }).await;
                asked.unwrap_or_else(|error| {
                    let message = format!("the rotation is not known to have begun: {error}");
                    Err(Refusal::not_ready(AgentPart::Document, message, 5))
                })
            }
        }
    }

    async fn reseal(&self) -> Result<RotationAnswer, Refusal> {
        if !self.store.has_previous_key() {
            let message = "no store key is being changed: set SVC_AGENT_STORE_KEY to the new one and SVC_AGENT_STORE_KEY_PREVIOUS to \
                           the present one, restart the agent, and repeat this";
            return Err(Refusal::new(RefusalCode::InvalidState, message));
        }
        let published = self.keeper.published();
        let resealed = self.store.reseal_keys(published.document.did()).await.map_err(|error| {
            tracing::error!(%error, "the private keys were not encrypted with the new store key");
            Refusal::not_ready(AgentPart::Store, "the store cannot be written now; its private keys are as before", 5)
        })?;
        tracing::info!(keys = resealed.keys, resealed.from_previous, "the private keys have the new store key");
        let version_id = published.version.version_id.clone();
        Ok(RotationAnswer { version_id, resealed: Some(resealed.from_previous), ..RotationAnswer::default() })
    }
}
