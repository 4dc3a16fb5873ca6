//! Flows: the facts that the service of peers asks for, and the steps.

use svc_agent_flows::{ClaimSources, FlowDirectory, FlowHearing, FlowParts, FlowService, FlowSettings, HearingParts};
use svc_agent_identity::{
    chain_link::ChainLinkHandle, credential_settings::CredentialSettings, credentials::IssuerParts,
};
use svc_agent_peers::{PeerService, TrustGate};
use svc_agent_store::AgentStoreError;
use svc_kit::supervision::ChildSpec;

use crate::boot::opening::OpenParts;

/// Makes the reader of facts about arriving messages. Fails when the key of their contents cannot be read.
pub(in crate::boot) async fn prepare_hearing(
    open: &OpenParts,
    chain: &ChainLinkHandle,
    settings: &FlowSettings,
    directory: &FlowDirectory,
) -> Result<FlowHearing, AgentStoreError> {
    Ok(FlowHearing::new(HearingParts {
        chain: chain.clone(),
        store: open.store.clone(),
        own: open.own(),
        key: open.store.content_key(&open.did).await?,
        max_per_peer: settings.per_peer,
        directory: directory.clone(),
    }))
}

/// The handles of other subjects that flows use.
pub(in crate::boot) struct FlowNeighbours {
    pub(in crate::boot) peers: PeerService,
    pub(in crate::boot) gate: TrustGate,
    pub(in crate::boot) hearing: FlowHearing,
    pub(in crate::boot) issuer: IssuerParts,
}

/// Makes the service of flows, and describes the actors of its sessions.
pub(in crate::boot) fn describe(
    open: &OpenParts,
    (settings, credentials): (FlowSettings, CredentialSettings),
    directory: &FlowDirectory,
    neighbours: FlowNeighbours,
) -> (FlowService, [ChildSpec; 2]) {
    let claims = ClaimSources { directory: settings.claims_directory.clone(), essential: settings.claims.clone() };
    let FlowNeighbours { peers, gate, hearing, issuer } = neighbours;
    let flows = FlowService::new(FlowParts {
        settings,
        claims,
        credentials,
        store: open.store.clone(),
        guard: open.guard.clone(),
        peers,
        gate,
        hearing,
        directory: directory.clone(),
        issuer,
    });
    let children = directory.child_specs(flows.to_work());
    (flows, children)
}
