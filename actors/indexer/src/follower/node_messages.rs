//! The messages of the node as it describes them. An upgrade in place changes them while the indexer runs.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use svc_net::upstream::{NodeClient, NodeDescriptors, NodeDescriptorsError, read_node_descriptors};
use svc_wire::proto_registry::ProtoRegistry;

/// Time after which the messages of a node are read again that states no version, or whose descriptors could not be used. With the time
/// between two looks it is below a minute, within which an upgrade is noticed.
pub(super) const UNSURE_TIME: Duration = Duration::from_secs(45);

/// The messages of a node.
pub struct NodeMessages(Mutex<Known>);

struct Known {
    registry: Arc<ProtoRegistry>,
    /// Version of the application that has them.
    version: Option<String>,
    is_unsure: bool,
    read_at: Instant,
    /// Whether records of VS operators have neither a cap of fees nor an end of their own.
    has_spend_cycles: bool,
    /// The parameters are read once with a block after this height: no event announces the parameters of another release.
    params_behind: Option<u64>,
}

impl NodeMessages {
    /// Reads the messages of a node.
    pub async fn read(node: &NodeClient) -> Result<Self, NodeDescriptorsError> {
        Ok(Self(Mutex::new(read_known(node).await?)))
    }

    /// The messages, as they were last read.
    pub fn get(&self) -> Arc<ProtoRegistry> {
        self.with(|known| Arc::clone(&known.registry))
    }

    /// Reads them again when the node states another version, and behind a new connection: a node can be replaced by another build under
    /// the same version. Without an answer they stay as they are.
    pub async fn refresh(&self, node: &NodeClient, has_new_connection: bool) {
        let Ok(version) = node.application_version().await else { return };
        let is_same = self.with(|known| {
            let is_unsure = known.is_unsure || version.is_none();
            let is_due = known.read_at.elapsed() >= UNSURE_TIME;
            known.version == version && !has_new_connection && !(is_unsure && is_due)
        });
        if is_same {
            return;
        }
        match read_known(node).await {
            Ok(read) => self.with(|known| {
                let has_others = known.registry.file_descriptors() != read.registry.file_descriptors();
                if known.version == read.version && !has_others {
                    // Its parameters are those that events have announced.
                    *known = Known { params_behind: known.params_behind, ..read };
                    return;
                }
                let (from, to) = (known.version.as_deref(), read.version.as_deref());
                tracing::info!(from, to, has_others, "the node runs another release: its messages are read again");
                *known = read;
            }),
            Err(error) => tracing::warn!(%error, "the messages of the node cannot be read again yet"),
        }
    }

    /// Whether records of VS operators have neither a cap of fees nor an end of their own.
    pub fn has_spend_cycles(&self) -> bool {
        self.with(|known| known.has_spend_cycles)
    }

    /// Whether the parameters are to be read with a block.
    pub fn reads_params(&self, height: u64) -> bool {
        self.with(|known| known.params_behind.is_some_and(|behind| height > behind))
    }

    /// Blocks up to this height are in the store.
    pub fn blocks_written(&self, height: u64) {
        self.with(|known| {
            known.params_behind = known.params_behind.filter(|behind| height <= *behind);
        });
    }

    fn with<R>(&self, change: impl FnOnce(&mut Known) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn read_known(node: &NodeClient) -> Result<Known, NodeDescriptorsError> {
    let node = &node.pinned();
    // The version comes first: a node that is replaced meanwhile is read again.
    let version = node.application_version().await?;
    let found = read_node_descriptors(node).await?;
    // The parameters of earlier heights are those of the releases of their time.
    let params_behind = Some(node.status().await?.sync_info.latest_block_height);
    let is_unsure = found.unusable.is_some();
    let description = found.describe_generation();
    if found.unusable.is_some() {
        tracing::warn!("the node is of {description}: its messages are read as they were compiled in");
    } else {
        tracing::info!("the node is of {description}");
    }
    let NodeDescriptors { registry, generation, .. } = found;
    let has_spend_cycles = generation.is_some_and(|generation| !generation.has_own_record_limits());
    let registry = Arc::new(registry);
    Ok(Known { registry, version, is_unsure, read_at: Instant::now(), has_spend_cycles, params_behind })
}
