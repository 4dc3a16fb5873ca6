//! The parts that judge and issue credentials, but for the chain, which is found later. Clones share their caches and locks.

use svc_agent_store::AgentStore;
use svc_net::{evidence::EvidenceFetcher, fetch::BoundedFetcher};

use super::{
    claim_documents::ClaimDocuments, issuer::CredentialIssuer, judge::CredentialJudge, session_locks::SessionLocks,
};
use crate::{
    account_write::WritingAccount,
    chain_link::ChainAccess,
    credential_settings::{CredentialSettings, PublishedProofs},
    keeper::KeeperHandle,
    registry::SchemaSources,
};

/// The parts of an issuer.
#[derive(Clone)]
pub struct IssuerParts {
    pub(crate) store: AgentStore,
    /// Has the key of the proofs.
    pub keeper: KeeperHandle,
    pub(crate) did: String,
    pub(crate) corporation_id: u64,
    days: u32,
    proofs: PublishedProofs,
    judge: CredentialJudge,
    sources: SchemaSources,
    sessions: SessionLocks,
    /// Reads the documents that claims name.
    pub documents: ClaimDocuments,
}

impl IssuerParts {
    /// The parts of one DID.
    pub fn new(
        (store, keeper): (AgentStore, KeeperHandle),
        (did, corporation_id): (String, u64),
        settings: &CredentialSettings,
        fetcher: BoundedFetcher,
    ) -> Self {
        let (documents, fetcher) = (ClaimDocuments::new(fetcher.clone()), EvidenceFetcher::new(fetcher));
        let judge = CredentialJudge { fetcher: fetcher.clone(), essential_schemas: settings.own_essential_schemas() };
        let (sources, sessions) = (SchemaSources::new(fetcher), SessionLocks::default());
        Self {
            store,
            keeper,
            did,
            corporation_id,
            days: settings.days,
            proofs: settings.proofs,
            judge,
            sources,
            sessions,
            documents,
        }
    }

    /// The issuer on a chain.
    pub fn on_chain(&self, access: ChainAccess) -> CredentialIssuer {
        let account = WritingAccount {
            store: self.store.clone(),
            access,
            did: self.did.clone(),
            corporation_id: self.corporation_id,
        };
        CredentialIssuer {
            account,
            keeper: self.keeper.clone(),
            judge: self.judge.clone(),
            sources: self.sources.clone(),
            days: self.days,
            proofs: self.proofs,
            sessions: self.sessions.clone(),
            documents: self.documents.clone(),
        }
    }
}
