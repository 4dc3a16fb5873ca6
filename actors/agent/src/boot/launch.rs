//! The start of an agent: the parts to open, then the actors in the order of their start.

use std::{sync::Arc, time::Duration};

use svc_agent_flows::FlowDirectory;
use svc_agent_identity::{
    chain_link::{ChainLinkHandle, ChainLinkState},
    token::TokenIssuerHandle,
};
use svc_kit::{
    supervision::{Supervisor, SupervisorSpec},
    wall_clock,
};

use super::{
    agent::{Agent, AgentTree, DROP_TIMEOUT},
    config::AgentConfig,
    error::AgentBootError,
    opening::{Opening, OpeningSettings, open},
    wiring::{
        events::EventParts,
        flows::{self, FlowNeighbours},
        identity::{self, IdentitySettings, IdentityWiring},
        peers,
    },
};

/// Time that the start waits for the node. A chain that is not the configured one stops the start.
const FIRST_SEARCH: Duration = Duration::from_secs(5);

impl Agent {
    /// Opens the store, loads or makes the DID, and starts the actors. A node that does not answer within a few seconds is asked again
    /// later; the rest works meanwhile.
    pub async fn launch(config: AgentConfig) -> Result<Self, AgentBootError> {
        let messaging = config.peers.endpoint_uris(config.location.base_url());
        let opening = OpeningSettings {
            store: config.store,
            head: config.head,
            method: config.method,
            location: config.location,
            pre_rotation: config.pre_rotation,
            hosts: config.hosts,
            admin_api: config.admin_api,
            messaging,
            access: config.access,
            corporation_id: config.chain.corporation_id,
        };
        let Opening { parts: open, access, children: opened } = open(opening).await?;
        let credential_settings = config.credentials.with_did(&open.did);
        let (tokens, token_child) = config.logins.map(TokenIssuerHandle::child_spec).unzip();
        let (events, courier_child) = EventParts::describe(&open, config.events)?;
        let identity_settings = IdentitySettings {
            credentials: &credential_settings,
            rotation_pauses: config.rotation_pauses,
            handles_events: events.withdraws_credentials(),
            resolves_changes: config.chain.resolves_changes,
        };
        let IdentityWiring { issuer, credentials, rotation, children: identity_children } =
            identity::describe(&open, identity_settings);
        open.store.settle_interrupted(None, wall_clock::now().seconds, age(config.peers.outbox_age)).await?;
        let chain = ChainLinkHandle::default();
        let (gate, gate_child) =
            peers::describe_gate(&open, &events, &chain, &credential_settings, config.peers.trust_ttl);
        let flow_directory = FlowDirectory::new(config.flows.actors);
        let hearing = flows::prepare_hearing(&open, &chain, &config.flows, &flow_directory).await?;
        let (peers, peer_children) =
            peers::describe(&open, &events, (config.peers, access), gate.clone(), hearing.clone())?;
        let neighbours = FlowNeighbours { peers: peers.clone(), gate, hearing, issuer };
        let (flows, flow_children) =
            flows::describe(&open, (config.flows, credential_settings), &flow_directory, neighbours);
        let (delivery, watcher) = (events.delivery(open.store.clone()), events.watcher.clone());
        let users = Box::new(events.into_users(&open, chain.clone(), credentials.clone(), flow_directory));
        let supervisor = Supervisor::new("agent");
        let own = (open.store.clone(), open.did.clone());
        let chain_child = chain.child_spec(config.chain, own, supervisor.clone(), users);

        // The order of the start. The chain link is last: it starts the write pipeline and the watcher itself.
        let mut children = Vec::from(opened);
        children.extend(token_child.into_iter().chain(courier_child));
        children.extend(identity_children);
        children.push(gate_child);
        children.extend(peer_children);
        children.extend(flow_children);
        children.push(chain_child);
        supervisor.start(SupervisorSpec::one_for_one(children)).await?;

        let (store, guard, keeper, resolution) = (open.store, open.guard, open.keeper, open.resolution);
        let handles = AgentTree {
            supervisor,
            store,
            guard,
            keeper,
            tokens,
            watcher,
            delivery,
            resolution,
            credentials,
            rotation,
            chain,
            peers,
            flows,
        };
        Self(Arc::new(handles)).search_chain().await
    }

    /// Waits for the first search of the chain. Stops the agent when the chain is refused.
    async fn search_chain(self) -> Result<Self, AgentBootError> {
        let searched = tokio::time::timeout(FIRST_SEARCH, self.chain().first_attempt()).await;
        if let Ok(ChainLinkState::Refused(error)) = searched {
            self.shutdown(DROP_TIMEOUT).await;
            return Err(AgentBootError::Chain(error));
        }
        Ok(self)
    }
}

/// A time in seconds.
fn age(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}
