//! Failures that pass and failures that end the agent. The search has its tests over a node.

use svc_agent_store::AgentStoreError;

use super::{ChainError, ChainLinkHandle, ChainLinkState};

fn other_chain() -> ChainError {
    ChainError::OtherChain { stored: "one".to_owned(), found: "two".to_owned() }
}

#[test]
fn a_store_that_is_away_passes_and_another_chain_does_not() {
    let other_indexer =
        ChainError::OtherIndexer { indexer: "http://i".to_owned(), node: "http://n".to_owned(), height: 7 };
    for (error, is_passing) in
        [(ChainError::Store(AgentStoreError::Lost), true), (other_chain(), false), (other_indexer, false)]
    {
        assert_eq!(error.is_passing(), is_passing, "{error}");
    }
}

#[tokio::test]
async fn a_refusal_is_final() {
    let link = ChainLinkHandle::default();
    link.set(ChainLinkState::Unreachable("no answer".to_owned()));
    assert!(matches!(link.first_attempt().await, ChainLinkState::Unreachable(_)));
    link.refuse(other_chain());
    link.set(ChainLinkState::Unreachable("no answer".to_owned()));
    assert!(matches!(link.state(), ChainLinkState::Refused(_)) && link.access().is_none());
    assert!(matches!(*link.wait_until_refused().await, ChainError::OtherChain { .. }));
}
