//! The supervision tree of an operator.
//!
//! ```text
//! operator (one-for-one, gives up after 10 restarts in 10 s)
//! ├── journal, signer, confirmer, node_link   the write pipeline (svc-pipeline)
//! ├── barrier         callers that wait for a height of the indexer
//! ├── refresher       publishes the snapshot of the corporation
//! ├── subscriptions
//! │   └── subscription/<corporation>
//! ├── agent_sessions
//! │   └── agent_session/<DID>   one agent: its endpoint, and the login there
//! ├── agents          starts and ends the sessions as the snapshot says
//! ├── graph_barrier   callers that wait for a height of the graph (with a graph only)
//! └── graph_watch     the height of the graph
//! ```

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use svc_kit::{
    Handle, RetainedState,
    supervision::{ChildSpec, Supervisor, SupervisorSpec},
};
use svc_net::did::{DidResolver, VersionMemory};
use svc_pipeline::{JournalPlace, Pipeline, PipelineConfig, PipelineParts, RecoveredJournal, ReleaseWatch};
use svc_wire::account_key::AccountKey;

use super::{Operator, OperatorRuntime};
use crate::{
    agent_directory::{self, AgentDirectory, AgentReconciler, AgentReconcilerHandle},
    agent_session::{AgentAuthority, LOGIN_PREFIX},
    barrier::{Barrier, BarrierHandle},
    boot::{config::OperatorConfig, discovery::discover, error::BootError},
    graph_watch,
    refresher::{self, Refresher, RefresherHandle},
    snapshot::publisher::SnapshotPublisher,
    subscription::{self, IndexerSubscription, SubscriptionPosition},
    write::{
        admission::{ActiveWrites, MAX_ACTIVE_WRITES},
        audit::{AuditLog, AuditPlace, AuditRecord},
        context::{LastPayer, WriteContext},
        recovery::complete_audit,
    },
};

/// Capacity of a mailbox: above the active writes, so that the bound on writes is met first.
const MAILBOX_SIZE: usize = 2 * MAX_ACTIVE_WRITES;

/// Opens the versions of the agents' DIDs in a file beside the journal, or in memory without one.
fn open_versions(journal: Option<&str>) -> Result<VersionMemory, BootError> {
    let Some(journal) = journal else { return Ok(VersionMemory::default()) };
    let file = PathBuf::from(format!("{journal}.dids"));
    VersionMemory::open(&file).map_err(|error| BootError::DidVersions { file, reason: error.to_string() })
}

/// Discovers chain and corporation, recovers journal and audit, and describes the tree.
pub async fn build(config: OperatorConfig, key: AccountKey) -> Result<(Operator, SupervisorSpec), BootError> {
    let discovery = discover(&config, &key).await?;
    let sources = discovery.sources(config.corporation_id);
    let (chain, indexer, node) = (discovery.chain, discovery.indexer, discovery.node);
    let address = discovery.identity.address.to_string();
    let journal = JournalPlace { file: config.journal.clone(), min_free_space: config.min_free_disk };
    let recovered = RecoveredJournal::open(&journal, &chain.params, &discovery.identity, &node, None).await?;
    let audit = AuditPlace { file: config.audit.clone(), min_free_space: config.min_free_disk };
    let (audit, open_records) = AuditLog::open(&audit, recovered.audit_head().await?.as_deref())?;
    complete_records(&audit, &recovered, open_records).await?;
    log_recovery(&recovered);
    let authority = AgentAuthority {
        node: node.clone(),
        registry: Arc::clone(&chain.registry),
        corporation_id: config.corporation_id,
    };
    let pipeline_config = PipelineConfig {
        release: ReleaseWatch::new(&chain, node.origin()),
        prices: chain.prices.clone(),
        tx_timeout: config.tx_timeout,
        window: config.window,
        journal,
        text_prefixes: vec![LOGIN_PREFIX],
        mailbox_limit: MAILBOX_SIZE,
        ..PipelineConfig::new(chain.params.clone())
    };
    let PipelineParts { pipeline, mut children } =
        Pipeline::embed(pipeline_config, key, discovery.identity, node, discovery.head, recovered);

    let publisher = SnapshotPublisher::new(discovery.snapshot);
    let barrier = BarrierHandle::new("barrier", MAILBOX_SIZE, discovery.indexed_height);
    let refresher = RefresherHandle::new(MAILBOX_SIZE);
    let agents = AgentReconcilerHandle::new(MAILBOX_SIZE);
    let directory = AgentDirectory::new(publisher.clone());
    let agent_sessions = Supervisor::new("agent_sessions");
    let position = RetainedState::new(SubscriptionPosition::default());
    let refresher_args = refresher::Args {
        sources,
        publisher: publisher.clone(),
        period: config.refresh_period,
        agents: agents.clone(),
    };
    let agents_args = agent_directory::Args {
        publisher: publisher.clone(),
        directory: directory.clone(),
        sessions: agent_sessions.clone(),
        account: address,
        resolver: DidResolver::with_versions(config.hosts, open_versions(config.journal.as_deref())?)?,
        authority,
        unbound_logins: config.unbound_logins.clone(),
        signer: pipeline.signer().clone(),
        period: config.refresh_period,
    };
    let subscription_args = subscription::Args {
        corporation_id: config.corporation_id,
        indexer: indexer.clone(),
        clock: pipeline.shared_clock(),
        position: position.clone(),
        barrier: barrier.clone(),
        refresher: refresher.clone(),
    };
    children.extend([
        ChildSpec::worker::<Barrier>(barrier.actor(), barrier.args(true)),
        ChildSpec::worker::<Refresher>(refresher.actor(), refresher_args),
        subscriptions(subscription_args),
        sessions(&agent_sessions, &directory, &agents),
        ChildSpec::worker::<AgentReconciler>(agents.actor(), agents_args),
    ]);
    let graph = config.graph.as_deref().map(|origin| graph_watch::build(origin, MAILBOX_SIZE)).transpose()?;
    let graph = graph.map(|(graph, specs)| {
        children.extend(specs);
        graph
    });
    // A journal in memory ends with the process, and the next one has the file alone.
    if config.journal.is_some() {
        audit.keep_head_in(pipeline.journal().clone());
    }
    let context = WriteContext {
        pipeline,
        registry: Arc::clone(&chain.registry),
        publisher,
        audit,
        barrier,
        refresher,
        indexer: indexer.clone(),
        indexer_timeout: config.indexer_timeout,
        last_payer: LastPayer::default(),
    };
    let runtime = OperatorRuntime {
        context,
        chain,
        corporation_id: config.corporation_id,
        indexer,
        position,
        graph,
        directory,
        supervisor: Supervisor::new("operator"),
        writes: ActiveWrites::new(),
    };
    Ok((Operator(Arc::new(runtime)), SupervisorSpec::one_for_one(children)))
}

/// Completes the audit records that an earlier process left open.
async fn complete_records(
    audit: &AuditLog,
    recovered: &RecoveredJournal,
    open: Vec<AuditRecord>,
) -> Result<(), BootError> {
    let Some(change) = recovered.chain_change() else {
        return Ok(complete_audit(audit, recovered, open).await?);
    };
    // The journal says nothing of a write before a person has decided which of its records count.
    tracing::error!(
        height = change.height,
        pinned = change.pinned,
        found = change.found,
        agreed = change.agreed,
        "the chain has another history than the journal: reads are served, and nothing is signed until a person rebases the journal"
    );
    Ok(())
}

fn log_recovery(recovered: &RecoveredJournal) {
    let summary = recovered.summary();
    if summary.found > 0 {
        tracing::warn!(
            found = summary.found,
            included = summary.included,
            failed = summary.failed,
            expired = summary.expired,
            "transactions of an earlier process are resumed"
        );
    }
}

/// The supervisor of the subscription.
fn subscriptions(args: subscription::Args) -> ChildSpec {
    let name = format!("subscription/{}", args.corporation_id);
    let (args, handle) = (Arc::new(args), Handle::new("subscription", name, MAILBOX_SIZE));
    ChildSpec::supervisor(&Supervisor::new("subscriptions"), move || {
        let args = subscription::Args::clone(&args);
        SupervisorSpec::one_for_one(vec![ChildSpec::worker::<IndexerSubscription>(&handle, args)])
    })
}

/// The supervisor of the agent sessions. A restarted one has no children: the reconciler starts them from the snapshot.
fn sessions(supervisor: &Supervisor, directory: &AgentDirectory, agents: &AgentReconcilerHandle) -> ChildSpec {
    let (directory, agents) = (directory.clone(), agents.clone());
    ChildSpec::supervisor(supervisor, move || {
        directory.with_entries(BTreeMap::clear);
        agents.snapshot_changed();
        SupervisorSpec::one_for_one(Vec::new())
    })
}
