//! One search for the chain: the node, the account's address, the newest block and the journal.

use std::time::Duration;

use svc_agent_store::{AgentStore, KnownChain, StoredChain};
use svc_net::upstream::{NodeClient, UpstreamOrigins};
use svc_pipeline::{
    AccountIdentity, BlockHead, BlockPin, ChainExpectation, DiscoveryError, JournalPlace, RecoveredJournal,
    RegistryChain, check_encryption, discover_chain, query_head,
};
use svc_wire::account_key::AccountKey;

use super::{
    AnchorForm, ChainError,
    older_store::{check_journal, take_journal},
};

/// The settings of a search.
#[derive(Clone)]
pub struct SearchSettings {
    pub rpc: UpstreamOrigins,
    pub allows_plaintext_node: bool,
    pub expected: ChainExpectation,
    pub journal: JournalPlace,
    pub tx_timeout: Duration,
    pub gas_adjustment: u32,
    pub anchors: AnchorForm,
}

/// Everything that a pipeline is made of.
pub struct FoundChain {
    pub chain: RegistryChain,
    pub identity: AccountIdentity,
    pub node: NodeClient,
    pub head: BlockHead,
    pub recovered: RecoveredJournal,
    /// Height at which the store met the chain.
    pub made_at: u64,
}

/// Searches the chain of the store with the DID.
pub(super) async fn search(
    settings: &SearchSettings,
    key: &AccountKey,
    (store, did): (&AgentStore, &str),
) -> Result<FoundChain, ChainError> {
    check_encryption(&settings.rpc, settings.allows_plaintext_node).await?;
    let node = NodeClient::new(&settings.rpc)?;
    // No clock knows a height yet: one that only a single node has is not believed.
    node.select_current(Some(0)).await;
    let chain = discover_chain(&node, &settings.expected).await?;
    let found = store.chain().await?;
    let is_recovered = found == KnownChain::Recovered;
    let stored = if let KnownChain::Met(stored) = found { Some(stored) } else { None };
    if let Some(stored) = stored.as_ref().filter(|stored| stored.chain_id != chain.params.chain_id) {
        let found = chain.params.chain_id.clone();
        return Err(ChainError::OtherChain { stored: stored.chain_id.clone(), found });
    }
    let identity = AccountIdentity::new(key, &chain.params.prefix)?;
    let account = identity.address.to_string();
    let head = query_head(&node).await.map_err(DiscoveryError::from)?;
    let known = stored.filter(|stored| stored.account == account);
    let made_at = known.as_ref().map_or(head.height, |known| known.height);
    // The journal alone may have been rebased: events are stored from blocks that the chain has lost then.
    let cursor = store.cursor_block().await?.map(|(height, hash)| BlockPin { height, hash });
    let recovered = RecoveredJournal::open(&settings.journal, &chain.params, &identity, &node, cursor).await?;
    if is_recovered {
        take_journal(store, &recovered).await?;
    }
    check_journal(store, did, &recovered, made_at).await?;
    if known.is_none() {
        store.write_chain(&StoredChain { chain_id: chain.params.chain_id.clone(), account, height: made_at }).await?;
    }
    Ok(FoundChain { chain, identity, node, head, recovered, made_at })
}
