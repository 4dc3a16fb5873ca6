//! The credential keeper: the credentials that the DID holds and those that it issues.
//!
//! It owns the time of the next pass and the issuances that are on their way; the credentials are in the store, and the document keeper
//! presents those that are anchored. A pass reads the registry at the node, withdraws those that have ended, issues and renews
//! those that the DID issues itself, and anchors those that wait. Each credential is stored before its session is sent, and the session is read at the node
//! before each attempt, so that it is paid for once. When the keeper dies, the next incarnation begins with a pass.

mod actor;
mod anchoring;
mod asked_claims;
mod authority;
mod claim_documents;
mod core;
mod import;
mod issuance;
mod issuer;
mod issuer_parts;
mod judge;
mod pass;
mod report;
mod schedule;
mod schema_pass;
mod session_locks;
#[cfg(test)]
mod tests;
mod unsigned;

use std::{collections::BTreeSet, time::Duration};

use serde_json::Value;
use svc_agent_core::error::{AgentPart, Refusal};
use svc_agent_store::StoredCredential;
use svc_kit::{AskError, Handle, ReplyPort, RetainedState, impl_actor_message, supervision::ChildSpec};

use crate::{
    chain_link::ChainAccess,
    credential_settings::CredentialSettings,
    setup::{Setup, SetupOptions},
};

pub use self::{
    authority::Authority,
    claim_documents::{DocumentsError, document_digest},
    import::import,
    issuance::{IssueRequest, IssueStop},
    issuer::{CredentialIssuer, proof_method},
    issuer_parts::IssuerParts,
    judge::{JudgeError, JudgedCredential, begin_of},
    report::PassReport,
};

/// The answer to a request for one credential.
pub type CredentialAnswer = Result<StoredCredential, Refusal>;

/// Longest wait of a request: an import waits for servers, an issuance for a block.
const REQUEST_TIME: Duration = Duration::from_secs(120);
/// Messages that may wait.
const MAILBOX: usize = 1_024;

/// Messages of the credential keeper.
pub enum Msg {
    /// The chain was found.
    ChainFound,
    /// The time for a pass has come.
    Wake,
    /// An event may have changed participants or grants.
    RegistryChanged,
    /// A person asks for own credentials to be issued again.
    Reissue(BTreeSet<String>),
    /// A pass has ended.
    PassEnded(Result<PassReport, String>),
    /// Issues a credential to another DID.
    Issue {
        /// The request.
        request: IssueRequest,
        /// The answer.
        reply: ReplyPort<CredentialAnswer>,
    },
    /// An issuance has ended.
    Issued {
        /// The request.
        request: IssueRequest,
        /// Its end.
        answer: Box<CredentialAnswer>,
    },
    /// Presents a credential of another issuer.
    Import {
        /// The credential.
        credential: Value,
        /// The answer.
        reply: ReplyPort<CredentialAnswer>,
    },
    /// Compares the steps towards trust in the DID with the node.
    Setup {
        /// Wishes for steps that are still to be sent.
        options: SetupOptions,
        /// The steps.
        reply: ReplyPort<Result<Setup, Refusal>>,
    },
    /// A comparison has ended.
    SetupRead {
        /// Whether a step is left that the agent takes by itself.
        has_agent_step: bool,
    },
    /// Presents a received credential no more.
    Remove {
        /// Id of the credential.
        id: String,
        /// The answer.
        reply: ReplyPort<CredentialAnswer>,
    },
}

impl_actor_message!(Msg {
    ChainFound,
    Wake,
    RegistryChanged,
    Reissue,
    PassEnded,
    Issue,
    Issued,
    Import,
    Setup,
    SetupRead,
    Remove,
});

/// Arguments of the actor.
pub struct Args {
    issuer: IssuerParts,
    base_url: String,
    settings: CredentialSettings,
    /// Whether the registry's facts may take credentials away.
    handles_events: bool,
    chain: RetainedState<Option<ChainAccess>>,
    report: RetainedState<PassReport>,
}

/// The parts of a credential keeper.
pub struct CredentialKeeperArgs {
    /// Judges and issues the credentials.
    pub issuer: IssuerParts,
    /// Public URL.
    pub base_url: String,
    /// The credentials that the DID shall have.
    pub settings: CredentialSettings,
    /// Whether the registry's facts may take credentials away.
    pub handles_events: bool,
}

/// The address of the credential keeper.
#[derive(Clone)]
pub struct CredentialHandle {
    actor: Handle<Msg>,
    chain: RetainedState<Option<ChainAccess>>,
    report: RetainedState<PassReport>,
}

/// The handle of a keeper that is still to be described.
impl Default for CredentialHandle {
    fn default() -> Self {
        Self {
            actor: Handle::new("credential_keeper", "credential_keeper", MAILBOX),
            chain: RetainedState::default(),
            report: RetainedState::default(),
        }
    }
}

impl CredentialHandle {
    /// Returns the child specification that starts the actor.
    pub fn child_spec(&self, args: CredentialKeeperArgs) -> ChildSpec {
        let CredentialKeeperArgs { issuer, base_url, settings, handles_events } = args;
        let (chain, report) = (self.chain.clone(), self.report.clone());
        let args = Args { issuer, base_url, settings, handles_events, chain, report };
        ChildSpec::worker::<actor::CredentialKeeper>(&self.actor, args)
    }

    /// Tells of the chain.
    pub fn chain_found(&self, access: ChainAccess) {
        self.chain.with(|chain| *chain = Some(access));
        self.actor.notify(Msg::ChainFound);
    }

    /// Tells of an event about participants or grants.
    pub fn registry_changed(&self) {
        self.actor.notify(Msg::RegistryChanged);
    }

    /// Has own credentials issued again, by the names of their presentations.
    pub(crate) fn reissue(&self, names: BTreeSet<String>) {
        self.actor.notify(Msg::Reissue(names));
    }

    /// Returns the time of the chain, by which credentials begin and end: seconds since the epoch.
    pub(crate) fn chain_time(&self) -> i64 {
        let time = self.chain.with(|chain| chain.as_ref().map(ChainAccess::time));
        time.unwrap_or_else(svc_kit::wall_clock::now).seconds
    }

    /// Returns the end of the last pass.
    pub fn report(&self) -> PassReport {
        self.report.with(|report| report.clone())
    }

    /// Issues a credential to another DID; the answer comes when its digest is at the node.
    pub async fn issue(&self, request: IssueRequest) -> CredentialAnswer {
        self.ask(|reply| Msg::Issue { request, reply }).await
    }

    /// Presents a credential of another issuer; the answer comes when the document with it is served.
    pub async fn import(&self, credential: Value) -> CredentialAnswer {
        self.ask(|reply| Msg::Import { credential, reply }).await
    }

    /// Presents a received credential no more; the answer comes when the document without it is served.
    pub async fn remove(&self, id: String) -> CredentialAnswer {
        self.ask(|reply| Msg::Remove { id, reply }).await
    }

    /// Compares the steps towards trust in the DID with the node.
    pub async fn setup(&self, options: SetupOptions) -> Result<Setup, Refusal> {
        self.ask(|reply| Msg::Setup { options, reply }).await
    }

    async fn ask<T: Send + 'static>(
        &self,
        message: impl FnOnce(ReplyPort<Result<T, Refusal>>) -> Msg,
    ) -> Result<T, Refusal> {
        let asked = self.actor.ask_within(REQUEST_TIME, message).await;
        asked.unwrap_or_else(|error| Err(is_down(&error)))
    }
}

fn is_down(error: &AskError) -> Refusal {
    Refusal::not_ready(AgentPart::Node, format!("credentials cannot be changed now: {error}"), 5)
}
