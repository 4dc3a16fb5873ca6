//! Peers: the gate that admits them, their access to endpoints, and the messages with them.

use std::{sync::Arc, time::Duration};

use svc_agent_flows::FlowHearing;
use svc_agent_identity::{chain_link::ChainLinkHandle, credential_settings::CredentialSettings};
use svc_agent_peers::{
    AccessAskerHandle, AccessGranterHandle, AccessOwner, GranterParts, PeerDirectory, PeerParts, PeerResolver,
    PeerService, PeerSettings, TrustGate, trust_watch,
};
use svc_kit::supervision::ChildSpec;
use svc_net::{did::DidResolver, didcomm::OutboundClient, fetch::HttpClientError};

use super::events::EventParts;
use crate::boot::opening::OpenParts;

/// Makes the gate, and describes the actor that ends its decisions.
pub(in crate::boot) fn describe_gate(
    open: &OpenParts,
    events: &EventParts,
    chain: &ChainLinkHandle,
    credentials: &CredentialSettings,
    ttl: Duration,
) -> (TrustGate, ChildSpec) {
    let schemas = (credentials.essential_schemas.clone(), credentials.own_essential_schemas());
    let (indexer, store) = (events.indexer.clone(), open.store.clone());
    let gate = TrustGate::new(indexer.clone(), chain.clone(), store, open.own(), schemas, ttl);
    let watch = trust_watch::child_spec(trust_watch::Args { indexer, gate: gate.clone() });
    (gate, watch)
}

/// Makes the service of peers, and describes the actors of access and of sessions, in the order of their start. Fails when the client of
/// outbound messages cannot be made.
pub(in crate::boot) fn describe(
    open: &OpenParts,
    events: &EventParts,
    (settings, access_owner): (PeerSettings, AccessOwner),
    gate: TrustGate,
    hearing: FlowHearing,
) -> Result<(PeerService, Vec<ChildSpec>), HttpClientError> {
    let (directory, max_events) = (PeerDirectory::default(), events.max_events());
    let resolver = PeerResolver::new(DidResolver::with_fetcher(open.fetcher.clone()), settings.resolve_timeout);
    let (access, access_child) = AccessGranterHandle::child_spec(GranterParts {
        owner: access_owner,
        keeper: open.keeper.clone(),
        store: open.store.clone(),
        guard: open.guard.clone(),
        gate: gate.clone(),
        outbox_changed: {
            let directory = directory.clone();
            Arc::new(move || directory.outbox_changed())
        },
        courier: events.courier.clone(),
        limits: settings.limits(max_events),
    });
    let (asker, asker_child) = AccessAskerHandle::child_spec();
    let peers = PeerService::new(PeerParts {
        settings,
        store: open.store.clone(),
        guard: open.guard.clone(),
        keeper: open.keeper.clone(),
        resolver,
        fetcher: open.fetcher.clone(),
        gate,
        directory: directory.clone(),
        courier: events.courier.clone(),
        client: OutboundClient::new(open.hosts)?,
        flows: Arc::new(hearing),
        access,
        asker,
        max_events,
    });
    let mut children = vec![access_child, asker_child];
    children.extend(directory.child_specs(Arc::new(peers.clone())));
    Ok((peers, children))
}
