//! The operator as its front end sees it: one handle over the supervised actors.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use svc_kit::{
    Handle, Retained,
    did::DidResolver,
    supervise::{ChildSpec, Supervisor, SupervisorSpec},
    upstream::NodeClient,
};
use svc_wire::key::AccountKey;
use tokio::sync::watch;

use crate::{
    agents::{self, Directory},
    audit::Audit,
    barrier::{self, BarrierHandle, Cursor},
    boot::{self, BootError},
    calls::{CALLS, Calls},
    chain::{ChainParams, Identity, OperatorConfig},
    confirmer::{self, ConfirmerHandle},
    graph_watch::{self, Graph},
    in_flight::{CallId, InFlight},
    indexer_client::IndexerClient,
    journal::{self, Journal, Recovered},
    node_link::{self, Clock},
    recovery,
    refresher::{self, RefresherHandle, Sources, Trigger},
    signer::{self, GasBook, SignerHandle},
    snapshot::{Board, Snapshot, Versions},
    subscription::{self, Position},
};

/// What a ledger call works with. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Parts {
    pub chain: ChainParams,
    pub node: NodeClient,
    pub board: Board,
    pub table: Retained<InFlight>,
    pub cursor: Retained<Cursor>,
    pub gas: Retained<GasBook>,
    pub journal: Journal,
    pub audit: Audit,
    pub recovered: Retained<Recovered>,
    pub calls_made: Arc<AtomicU64>,
    pub signer: SignerHandle,
    pub confirmer: ConfirmerHandle,
    pub barrier: BarrierHandle,
    pub refresher: RefresherHandle,
    pub tx_timeout: Duration,
    pub indexer_timeout: Duration,
}

impl Parts {
    /// A number for a call that is about to be submitted.
    pub(crate) fn next_call(&self) -> CallId {
        CallId(self.calls_made.fetch_add(1, Ordering::Relaxed))
    }
}

/// A running operator. Clones share it.
#[derive(Clone)]
pub struct Operator(Arc<Inner>);

struct Inner {
    parts: Parts,
    identity: Identity,
    corporation_id: u64,
    indexer: IndexerClient,
    clock: Retained<Clock>,
    position: Retained<Position>,
    graph: Option<Graph>,
    directory: Directory,
    root: Supervisor,
    calls: Calls,
}

/// Mailboxes: above the calls under way, so that the bound on calls is the one that is met.
const MAILBOX: usize = 2 * CALLS;

impl Operator {
    /// Learns the chain and the corporation, and starts the actors. The key goes to the signer and nowhere else.
    pub async fn boot(config: OperatorConfig, key: AccountKey) -> Result<Self, BootError> {
        let learnt = boot::learn(&config, &key).await?;
        let (node, indexer, chain) = (learnt.node, learnt.indexer, learnt.chain);
        let board = Board::new(learnt.snapshot);
        let mut clock = Clock::default();
        clock.block_seen(learnt.height, None);
        let (clock, position, cursor) = (Retained::new(clock), Retained::new(Position::default()), learnt.cursor);
        let past = recovery::learn(&config, &chain, &learnt.identity, &node).await?;
        let (table, gas) = (Retained::new(past.table), Retained::new(GasBook::default()));
        let (journal, journal_handle, journal_args) = Journal::new(past.store, MAILBOX);

        let signer = Handle::new("signer", "signer", MAILBOX);
        let confirmer = Handle::new("confirmer", "confirmer", MAILBOX);
        let node_link = Handle::new("node_link", "node_link", MAILBOX);
        let barrier = Handle::new("barrier", "barrier", MAILBOX);
        let refresher = Handle::new("refresher", "refresher", MAILBOX);
        let subscription = Handle::new("subscription", format!("subscription/{}", config.corporation_id), MAILBOX);
        let sources = Sources {
            corporation_id: config.corporation_id,
            identity: learnt.identity.clone(),
            chain: chain.clone(),
            node: node.clone(),
            indexer: indexer.clone(),
        };

        let subscriptions = Supervisor::new("subscriptions");
        let describe_subscriptions = {
            let (handle, indexer, position, cursor) = (subscription, indexer.clone(), position.clone(), cursor.clone());
            let (barrier, refresher, corporation_id) = (barrier.clone(), refresher.clone(), config.corporation_id);
            move || {
                let args = subscription::Args {
                    corporation_id,
                    indexer: indexer.clone(),
                    position: position.clone(),
                    cursor: cursor.clone(),
                    barrier: barrier.clone(),
                    refresher: refresher.clone(),
                };
                SupervisorSpec::one_for_one(vec![ChildSpec::worker::<subscription::Subscription>(&handle, args)])
            }
        };
        let signer_args = signer::Args {
            key,
            identity: learnt.identity.clone(),
            chain: chain.clone(),
            node: node.clone(),
            table: table.clone(),
            clock: clock.clone(),
            gas: gas.clone(),
            journal: journal.clone(),
            window: config.window,
            tx_timeout: config.tx_timeout,
        };
        let confirmer_args = confirmer::Args {
            node: node.clone(),
            address: learnt.identity.address.to_string(),
            table: table.clone(),
            clock: clock.clone(),
            gas: gas.clone(),
            journal: journal.clone(),
            signer: signer.clone(),
        };
        let link_args = node_link::Args {
            node: node.clone(),
            address: learnt.identity.address.to_string(),
            clock: clock.clone(),
            confirmer: confirmer.clone(),
            signer: signer.clone(),
        };
        let agents = Handle::new("agents", "agents", MAILBOX);
        let directory = Directory::new(board.clone());
        let agent_sessions = Supervisor::new("agent_sessions");
        let describe_sessions = {
            let (directory, agents) = (directory.clone(), agents.clone());
            move || {
                // A new supervisor has no children: they are started again from the snapshot.
                directory.with(BTreeMap::clear);
                agents::notify(&agents);
                SupervisorSpec::one_for_one(Vec::new())
            }
        };
        let agents_args = agents::Args {
            board: board.clone(),
            directory: directory.clone(),
            sessions: agent_sessions.clone(),
            account: learnt.identity.address.to_string(),
            resolver: DidResolver::new(config.hosts)?,
            signer: SignerHandle(signer.clone()),
            period: config.refresh_period,
        };
        let refresher_args =
            refresher::Args { sources, board: board.clone(), period: config.refresh_period, agents: agents.clone() };
        let mut children = vec![
            ChildSpec::worker::<journal::JournalActor>(&journal_handle, journal_args),
            ChildSpec::worker::<signer::Signer>(&signer, signer_args),
            ChildSpec::worker::<confirmer::Confirmer>(&confirmer, confirmer_args),
            ChildSpec::worker::<node_link::NodeLink>(&node_link, link_args),
            ChildSpec::worker::<barrier::Barrier>(
                &barrier,
                barrier::Args { cursor: cursor.clone(), is_measured: true },
            ),
            ChildSpec::worker::<refresher::Refresher>(&refresher, refresher_args),
            ChildSpec::supervisor(&subscriptions, describe_subscriptions),
            ChildSpec::supervisor(&agent_sessions, describe_sessions),
            ChildSpec::worker::<agents::Agents>(&agents, agents_args),
        ];
        let graph = match &config.graph {
            None => None,
            Some(origin) => {
                let (graph, specs) = graph_watch::children(origin, MAILBOX)?;
                children.extend(specs);
                Some(graph)
            }
        };
        let root = Supervisor::new("operator");
        root.start(SupervisorSpec::one_for_one(children)).await?;

        let parts = Parts {
            chain,
            node,
            board,
            table,
            cursor,
            gas,
            journal,
            audit: past.audit,
            recovered: Retained::new(past.recovered),
            calls_made: Arc::new(AtomicU64::new(past.next_call)),
            signer: SignerHandle(signer),
            confirmer: ConfirmerHandle(confirmer),
            barrier: BarrierHandle(barrier),
            refresher: RefresherHandle(refresher),
            tx_timeout: config.tx_timeout,
            indexer_timeout: config.indexer_timeout,
        };
        let operator = Self(Arc::new(Inner {
            parts,
            identity: learnt.identity,
            corporation_id: config.corporation_id,
            indexer,
            clock,
            position,
            graph,
            directory,
            root,
            calls: Calls::new(),
        }));
        operator.resume();
        operator.until_linked().await;
        Ok(operator)
    }

    /// Waits until the links are up, at most the boot budget: a server with a link down serves, and says so in its status.
    async fn until_linked(&self) {
        let deadline = tokio::time::Instant::now() + boot::BOOT_BUDGET;
        let is_linked = || {
            let [node, indexer, graph] = self.links();
            node && indexer && (graph || !self.has_graph())
        };
        while !is_linked() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if !is_linked() {
            tracing::warn!("a link is still down after the boot budget; serving all the same");
        }
    }

    /// What an earlier process left open is followed to its end.
    fn resume(&self) {
        let parts = self.parts();
        let open: Vec<_> = parts.table.with(|table| table.all().cloned().collect());
        for entry in &open {
            if let Some(outcome) = &entry.outcome {
                parts.journal.decided(entry, outcome);
            }
            self.0.calls.resume(parts, entry);
        }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.0.clock.with(|clock| clock.clone())
    }

    pub(crate) fn position(&self) -> Position {
        self.0.position.with(|position| position.clone())
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.0.calls
    }

    /// Corporation this operator acts for.
    pub fn corporation_id(&self) -> u64 {
        self.0.corporation_id
    }

    /// Who the operator is.
    pub fn identity(&self) -> &Identity {
        &self.0.identity
    }

    /// What the chain is.
    pub fn chain(&self) -> &ChainParams {
        &self.0.parts.chain
    }

    /// What is known of the corporation now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.parts.board.current()
    }

    /// Changes of the snapshot.
    pub fn changes(&self) -> watch::Receiver<Versions> {
        self.0.parts.board.changes()
    }

    /// Reads the snapshot anew.
    pub async fn refresh(&self) {
        let _ = self.0.parts.refresher.refresh(Trigger::Write, Duration::from_secs(10)).await;
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.0.parts
    }

    pub(crate) fn node(&self) -> &NodeClient {
        &self.0.parts.node
    }

    pub(crate) fn indexer(&self) -> &IndexerClient {
        &self.0.indexer
    }

    pub(crate) fn graph(&self) -> Option<&Graph> {
        self.0.graph.as_ref()
    }

    pub(crate) fn timeout_height(&self, tx_timeout: Duration) -> u64 {
        self.0.clock.with(|clock| clock.timeout_height(tx_timeout))
    }

    /// Whether there is a graph.
    pub fn has_graph(&self) -> bool {
        self.0.graph.is_some()
    }

    /// Where the agents are.
    pub fn directory(&self) -> &Directory {
        &self.0.directory
    }

    pub(crate) fn node_height(&self) -> u64 {
        self.0.clock.with(|clock| clock.height)
    }

    /// Whether the links to node, indexer and graph are up.
    pub fn links(&self) -> [bool; 3] {
        let graph = self.0.graph.as_ref();
        [
            self.0.clock.with(|clock| clock.is_connected),
            self.0.position.with(|position| position.is_live),
            graph.is_some_and(|graph| graph.position.with(|position| position.is_live)),
        ]
    }

    /// Hashes of transactions of this process that are still known.
    pub fn recent_hashes(&self) -> Vec<String> {
        self.0.parts.table.with(|table| table.hashes())
    }

    /// Whether both links are up.
    pub fn is_healthy(&self) -> bool {
        self.0.clock.with(|clock| clock.is_connected) && self.0.position.with(|position| position.is_live)
    }

    /// The supervision tree, for embedding and for tests that crash actors.
    pub fn supervisor(&self) -> &Supervisor {
        &self.0.root
    }

    /// Refuses new writes, lets running ones end, stops the actors.
    pub async fn shutdown(&self, patience: Duration) {
        self.0.calls.drain(patience).await;
        self.0.parts.journal.flush(Duration::from_secs(2)).await;
        self.0.root.shutdown(Duration::from_secs(2)).await;
    }
}
