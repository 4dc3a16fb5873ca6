//! The parts of an agent that a setup is read from.

use std::collections::BTreeMap;

use svc_trust::EssentialSchemas;

use crate::{
    account_write::WritingAccount,
    credential_settings::{ClaimProblem, CredentialMode},
    registry::{NodeRegistry, SchemaSources},
};

/// The message that the record of a HOLDER lists.
pub(super) const TRIGGER: &str = "MsgTriggerResolver";

/// The message that anchors a credential.
pub(super) const SESSION: &str = "MsgCreateOrUpdateParticipantSession";

/// The agent's account, its settings, and the state of its credentials.
pub(crate) struct SetupSource<'a> {
    pub account: &'a WritingAccount,
    pub sources: &'a SchemaSources,
    pub essential_schemas: &'a EssentialSchemas,
    pub mode: &'a CredentialMode,
    pub ecosystems: &'a [String],
    /// The reasons for which credentials wait, by the names of their presentations.
    pub waiting: BTreeMap<String, String>,
    /// The settings for which credentials wait.
    pub claims: BTreeMap<String, Vec<ClaimProblem>>,
}

impl SetupSource<'_> {
    pub(super) fn registry(&self) -> NodeRegistry<'_> {
        NodeRegistry(self.account)
    }

    pub(super) fn corporation_id(&self) -> u64 {
        self.account.corporation_id
    }

    pub(super) fn type_urls(&self, messages: &[&str]) -> Vec<String> {
        let namespace = self.account.access.chain.registry.namespace();
        messages.iter().map(|message| namespace.type_url("pp", message)).collect()
    }
}
