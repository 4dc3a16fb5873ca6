//! Registry events: their delivery to the backend, and the watcher, which begins once the chain is known.

use std::sync::{Arc, OnceLock};

use svc_agent_core::notification::NotificationMaker;
use svc_agent_flows::FlowDirectory;
use svc_agent_identity::{
    chain_link::{ChainAccess, ChainLinkHandle, ChainUsers, OwnWrites},
    credentials::CredentialHandle,
    resolution::ResolutionHandle,
};
use svc_agent_peers::{CourierHandle, Delivery, DeliveryHandle};
use svc_agent_store::{AgentStore, guard::StoreGuardHandle};
use svc_kit::supervision::ChildSpec;
use svc_net::upstream::{UpstreamEndpoints, UpstreamError, UpstreamKind};
use svc_wire::block_subscription::SubscriptionScope;
use tokio::sync::Mutex;

use crate::{
    boot::{config::EventsConfig, opening::OpenParts},
    watcher::{WatcherArgs, WatcherHandle},
};

/// The parts of registry events.
pub(in crate::boot) struct EventParts {
    pub(in crate::boot) courier: Option<CourierHandle>,
    pub(in crate::boot) indexer: UpstreamEndpoints,
    pub(in crate::boot) watcher: WatcherHandle,
    config: EventsConfig,
    scope: SubscriptionScope,
    notifications: Arc<OnceLock<NotificationMaker>>,
}

impl EventParts {
    /// Describes the courier, which there is with a receiver only. Fails when the origins of the indexer cannot be used.
    pub(in crate::boot) fn describe(
        open: &OpenParts,
        mut config: EventsConfig,
    ) -> Result<(Self, Option<ChildSpec>), UpstreamError> {
        let receiver = config.receiver.take();
        let courier =
            receiver.map(|receiver| CourierHandle::child_spec(receiver, open.store.clone(), open.guard.clone()));
        let (courier, child) = courier.unzip();
        let scope = if config.covers_corporation {
            SubscriptionScope::Corporation(open.corporation_id)
        } else {
            SubscriptionScope::Did(open.did.clone())
        };
        let indexer = UpstreamEndpoints::new(UpstreamKind::Indexer, &config.indexer)?;
        let (watcher, notifications) = (WatcherHandle::new(), Arc::new(OnceLock::new()));
        Ok((Self { courier, indexer, watcher, config, scope, notifications }, child))
    }

    /// Most events that wait for the receiver; `None` without one.
    pub(in crate::boot) fn max_events(&self) -> Option<u64> {
        self.courier.is_some().then_some(self.config.max_stored)
    }

    /// Whether events of the registry withdraw credentials.
    pub(in crate::boot) fn withdraws_credentials(&self) -> bool {
        self.config.handled.withdraws_credentials()
    }

    /// The handle of the events that are to be delivered.
    pub(in crate::boot) fn delivery(&self, store: AgentStore) -> DeliveryHandle {
        DeliveryHandle::new(Delivery {
            store,
            courier: self.courier.clone(),
            indexer: self.indexer.clone(),
            scope: self.scope.clone(),
            notifications: Arc::clone(&self.notifications),
            max_stored: self.config.max_stored,
            refill: Mutex::new(()),
        })
    }

    /// The parts that begin once the chain is known.
    pub(in crate::boot) fn into_users(
        self,
        open: &OpenParts,
        chain: ChainLinkHandle,
        credentials: CredentialHandle,
        flows: FlowDirectory,
    ) -> EventUsers {
        EventUsers {
            config: self.config,
            scope: self.scope,
            indexer: self.indexer,
            store: open.store.clone(),
            guard: open.guard.clone(),
            courier: self.courier,
            resolution: open.resolution.clone(),
            credentials,
            flows,
            chain,
            watcher: self.watcher,
            notifications: self.notifications,
        }
    }
}

/// The parts that begin once the chain is known: the watcher, and the webhooks whose ids name the chain.
pub(in crate::boot) struct EventUsers {
    config: EventsConfig,
    scope: SubscriptionScope,
    indexer: UpstreamEndpoints,
    store: AgentStore,
    guard: StoreGuardHandle,
    courier: Option<CourierHandle>,
    resolution: ResolutionHandle,
    credentials: CredentialHandle,
    flows: FlowDirectory,
    chain: ChainLinkHandle,
    watcher: WatcherHandle,
    notifications: Arc<OnceLock<NotificationMaker>>,
}

impl ChainUsers for EventUsers {
    fn describe(&self, access: &ChainAccess, own_writes: OwnWrites) -> Vec<ChildSpec> {
        let notifications = *self.notifications.get_or_init(|| NotificationMaker::new(&access.chain.params.chain_id));
        vec![self.watcher.child_spec(WatcherArgs {
            indexer: self.indexer.clone(),
            scope: self.scope.clone(),
            start_height: self.config.start_height,
            silence: self.config.silence,
            store: self.store.clone(),
            guard: self.guard.clone(),
            courier: self.courier.clone(),
            notifications,
            max_stored: self.config.max_stored,
            handled: self.config.handled.clone(),
            resolution: self.resolution.clone(),
            credentials: self.credentials.clone(),
            flows: self.flows.clone(),
            own_writes,
            chain: self.chain.clone(),
            pipeline: access.pipeline.clone(),
        })]
    }

    fn started(&self, access: &ChainAccess) {
        self.resolution.chain_found(access.clone());
        self.credentials.chain_found(access.clone());
        self.flows.read_all();
    }
}
