//! Errors of an agent of the first generation.

use svc_didcomm::envelope::SealError;
use svc_net::did::DidError;
use svc_trust::RejectionReason;

use crate::{
    devnet::DevnetError,
    scenario::SeedError,
    services::{DidLogWriteError, ServicesError},
};

/// The agent cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum FirstAgentError {
    /// The devnet failed, or its chain refused a message.
    #[error(transparent)]
    Devnet(#[from] DevnetError),
    /// The chain cannot be read.
    #[error(transparent)]
    Chain(#[from] SeedError),
    /// The services failed.
    #[error(transparent)]
    Services(#[from] ServicesError),
    /// A log cannot be written.
    #[error(transparent)]
    Log(#[from] DidLogWriteError),
    /// The DID of a peer cannot be resolved.
    #[error(transparent)]
    Did(#[from] DidError),
    /// A message cannot be encrypted.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// A message of a peer cannot be read.
    #[error("a message cannot be read: {0}")]
    Message(String),
    /// A credential cannot be signed, or its proof does not verify.
    #[error("a proof fails: {0}")]
    Proof(String),
    /// No message of the awaited kind has come.
    #[error("no {0} has come within a minute")]
    Silence(String),
    /// The peer has ended the flow.
    #[error("the peer has ended the flow: {0}")]
    Ended(String),
    /// A form that the software of the first generation does not read.
    #[error("an agent of the first generation does not read this: {0}")]
    UnknownForm(String),
    /// The scenario has no such service, account or value.
    #[error("the scenario has no {0}")]
    Missing(String),
}

impl From<RejectionReason> for FirstAgentError {
    fn from(reason: RejectionReason) -> Self {
        Self::Proof(reason.message)
    }
}
