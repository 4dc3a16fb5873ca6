//! The release of a node: its generation, and the messages of this program that it takes. A node is upgraded in place, and another one may
//! be chosen, so that it is known of one node for the time of one connection only.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use svc_net::upstream::{NodeClient, NodeDescriptors, NodeDescriptorsError, read_node_descriptors};
use svc_wire::proto_registry::{
    DescriptorComparison, DescriptorDifference, MessageProblem, NodeGeneration, ProtoRegistry, describe_differences,
};
use tokio::{
    sync::{Mutex, watch},
    time::{Instant, sleep},
};

use super::discovery::RegistryChain;
use crate::write::error::SubmitError;

/// The release of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeRelease {
    /// Its generation; `None` where neither descriptors nor answers show it.
    pub generation: Option<NodeGeneration>,
    /// The generation in words, with the way in which it was found.
    pub description: String,
    /// Version of the application, as the node states it. Another one may have other messages.
    pub version: Option<String>,
    /// Whether its descriptors were compared with the compiled-in ones.
    pub is_compared: bool,
    /// Differences in the parts that every signature covers: nothing can be signed for it.
    pub envelope: Vec<DescriptorDifference>,
    /// The messages that cannot be sent to it, as `module.v1.Message`.
    problems: BTreeMap<String, MessageProblem>,
}

impl NodeRelease {
    /// The reason for which a message cannot be sent to the node.
    pub fn problem_of(&self, type_url: &str) -> Option<String> {
        if !self.envelope.is_empty() {
            return Some(describe_differences(&self.envelope));
        }
        let (_, local) = type_url.trim_start_matches('/').split_once('.')?;
        self.problems.get(local).map(ToString::to_string)
    }

    /// The refusal of a message that the node does not take.
    pub(crate) fn refusal_of(&self, type_url: &str) -> Option<SubmitError> {
        let reason = self.problem_of(type_url)?;
        Some(SubmitError::NotTaken { msg_type: type_url.to_owned(), reason })
    }

    /// Whether the node's release has no such message.
    pub fn lacks(&self, type_url: &str) -> bool {
        let local = type_url.trim_start_matches('/').split_once('.').map(|(_, local)| local);
        local.and_then(|local| self.problems.get(local)) == Some(&MessageProblem::Absent)
    }

    /// Whether the rules of VS operators' records before the third generation hold: each record has a cap and an end of its own. They do
    /// where nothing else is known.
    pub fn has_own_record_limits(&self) -> bool {
        self.generation.is_none_or(NodeGeneration::has_own_record_limits)
    }
}

/// The release of a node, and its messages as it describes them.
pub(super) struct FoundRelease {
    pub served: Arc<ProtoRegistry>,
    pub release: NodeRelease,
}

/// Attempts to read version and descriptors of one release: behind one address may be several nodes.
const MAX_READS: usize = 3;

/// Compares the messages of the node with the compiled-in ones, and with the signed ones where the node's own are signed.
pub(super) async fn find_release(
    node: &NodeClient,
    signed: Option<&ProtoRegistry>,
) -> Result<FoundRelease, NodeDescriptorsError> {
    let node = node.pinned();
    let mut version = node.application_version().await?;
    let mut found = read_node_descriptors(&node).await?;
    for _ in 1..MAX_READS {
        let again = node.application_version().await?;
        if again == version {
            break;
        }
        (version, found) = (again, read_node_descriptors(&node).await?);
    }
    let description = found.describe_generation();
    let NodeDescriptors { registry: served, unusable, generation } = found;
    let served = Arc::new(served);
    let mut release = NodeRelease { generation, description, version, ..NodeRelease::default() };
    if unusable.is_some() {
        return Ok(FoundRelease { served, release });
    }
    let compiled = ProtoRegistry::compiled(served.namespace())?;
    let DescriptorComparison { mut envelope, mut messages, reads, unknown, .. } =
        served.compare_with_compiled(&compiled);
    if let Some(signed) = signed {
        // Those of a node may be signed: a later release of it has to mean the same by them, too.
        let also = served.compare_with_compiled(signed);
        for (name, problem) in also.messages {
            messages.entry(name).or_insert(problem);
        }
        if envelope.is_empty() {
            envelope = also.envelope;
        }
    }
    if !messages.is_empty() || !reads.is_empty() || !unknown.is_empty() {
        let not_taken = messages.iter().map(|(message, problem)| format!("{message}: {problem}"));
        let not_taken = not_taken.collect::<Vec<_>>().join("; ");
        let read_otherwise = reads.iter().map(|one| one.path.as_str()).collect::<Vec<_>>().join(", ");
        let unknown = unknown.join(", ");
        tracing::info!(not_taken, read_otherwise, unknown, "the node is of {}", release.description);
    }
    (release.is_compared, release.envelope, release.problems) = (true, envelope, messages);
    Ok(FoundRelease { served, release })
}

/// Reads in a row without usable descriptors, of a node that had some, after which messages are signed uncompared, and the shortest time of
/// these reads: a node that has just been upgraded may answer wrongly some times within a second.
const MAX_UNUSABLE: u32 = 5;
const MIN_UNUSABLE_TIME: Duration = Duration::from_secs(20);
/// Longest time between two such reads that count together.
const MAX_UNUSABLE_GAP: Duration = Duration::from_secs(15);
/// Pause between two attempts to find the release.
const RETRY_PAUSE: Duration = Duration::from_millis(250);
/// Time after which a release is read again that shows no change by itself: its node states no version, or its descriptors could not be used.
pub(crate) const UNSURE_TIME: Duration = Duration::from_secs(55);

/// The release of the node in use. Clones share it. The node link keeps it current.
#[derive(Debug, Clone)]
pub struct ReleaseWatch {
    watched: watch::Sender<WatchedRelease>,
    /// Held by the one verification that runs.
    verifying: Arc<Mutex<()>>,
}

#[derive(Debug, Clone)]
struct WatchedRelease {
    release: Arc<NodeRelease>,
    /// The messages as the node describes them, once they are read.
    served: Option<Arc<ProtoRegistry>>,
    /// The messages that are signed; `None` for the compiled-in ones.
    signed: Option<Arc<ProtoRegistry>>,
    /// Origin of the node whose release it is, while nothing has happened to its connection since; `None` in doubt.
    origin: Option<String>,
    /// Grows with each doubt: a verification that began before says nothing about the connection behind it.
    doubts: u64,
    /// Reads in a row without usable descriptors, the time of the first, and that of the last.
    unusable: u32,
    unusable_since: Instant,
    unusable_at: Instant,
    read_at: Instant,
}

/// A node, by a client of it alone, and its release.
#[derive(Clone)]
pub(crate) struct ComparedNode {
    pub node: NodeClient,
    pub release: Arc<NodeRelease>,
    doubts: u64,
}

impl ReleaseWatch {
    /// Begins with the release of the discovery, which was that of the node at `origin`.
    pub fn new(chain: &RegistryChain, origin: &str) -> Self {
        Self::with(WatchedRelease {
            release: Arc::clone(&chain.release),
            served: Some(Arc::clone(&chain.served)),
            signed: Some(Arc::clone(&chain.registry)),
            origin: Some(origin.to_owned()),
            doubts: 0,
            unusable: 0,
            unusable_since: Instant::now(),
            unusable_at: Instant::now(),
            read_at: Instant::now(),
        })
    }

    fn with(watched: WatchedRelease) -> Self {
        Self { watched: watch::Sender::new(watched), verifying: Arc::default() }
    }

    /// The release, as it was last read.
    pub fn get(&self) -> Arc<NodeRelease> {
        Arc::clone(&self.watched.borrow().release)
    }

    /// Waits until another release than `known` was read.
    pub(crate) async fn await_other(&self, known: &NodeRelease) -> Arc<NodeRelease> {
        let mut watched = self.watched.subscribe();
        match watched.wait_for(|watched| *watched.release != *known).await {
            Ok(watched) => Arc::clone(&watched.release),
            // The sender is in `self`.
            Err(_) => self.get(),
        }
    }

    /// The messages as the node describes them, as they were last read.
    pub(crate) fn served(&self) -> Option<Arc<ProtoRegistry>> {
        self.watched.borrow().served.clone()
    }

    /// Whether it is the release of the node in use.
    pub(crate) fn is_current(&self, node: &NodeClient) -> bool {
        self.watched.borrow().origin.as_deref() == Some(node.origin())
    }

    /// Whether the node in use is still the compared one, and nothing has happened to its connection since.
    pub(crate) fn is_still(&self, compared: &ComparedNode, node: &NodeClient) -> bool {
        let watched = self.watched.borrow();
        watched.doubts == compared.doubts
            && watched.origin.as_deref() == Some(compared.node.origin())
            && node.origin() == compared.node.origin()
    }

    /// The connection to the node has ended: another release may run behind the next one.
    pub(crate) fn doubt(&self) {
        self.watched.send_modify(|watched| {
            watched.origin = None;
            watched.doubts += 1;
        });
    }

    /// Waits until the release is that of the node in use, and returns both: another node may be chosen meanwhile, or another release run.
    pub(crate) async fn await_current(&self, node: &NodeClient) -> ComparedNode {
        loop {
            let pinned = node.pinned();
            let watched = self.watched.borrow().clone();
            if watched.origin.as_deref() == Some(pinned.origin()) {
                return ComparedNode { node: pinned, release: watched.release, doubts: watched.doubts };
            }
            self.verify(node).await;
            if !self.is_current(node) {
                sleep(RETRY_PAUSE).await;
            }
        }
    }

    /// Compares the messages of the node again where it may have others: behind a new connection, since a node can be replaced by another
    /// build under the same version, and where it states another version. Without an answer the doubt stays. While one verification runs,
    /// another one ends at once.
    pub(crate) async fn verify(&self, node: &NodeClient) {
        let Ok(_running) = self.verifying.try_lock() else { return };
        let (node, known) = (node.pinned(), self.watched.borrow().clone());
        let (origin, is_doubted) = (node.origin().to_owned(), !self.is_current(&node));
        let Ok(version) = node.application_version().await else { return };
        let is_unsure = version.is_none() || !known.release.is_compared;
        let is_due = known.unusable > 0 || known.read_at.elapsed() >= UNSURE_TIME;
        let is_same = version == known.release.version && !is_doubted && !(is_unsure && is_due);
        if is_same {
            self.settle(&known, origin, None);
            return;
        }
        if version != known.release.version {
            // Nothing is signed until the comparison has ended.
            self.watched.send_modify(|watched| watched.origin = None);
        }
        match find_release(&node, known.signed.as_deref()).await {
            Ok(found) => self.settle(&known, origin, Some(found)),
            Err(error) => tracing::warn!(%error, "the messages of the node cannot be compared yet"),
        }
    }

    /// Takes the result of a verification that began with `known`.
    fn settle(&self, known: &WatchedRelease, origin: String, found: Option<FoundRelease>) {
        self.watched.send_modify(|watched| {
            let is_lost = found.as_ref().is_some_and(|found| !found.release.is_compared && known.release.is_compared);
            // One bad answer does not end the comparison for good.
            if is_lost {
                if watched.unusable == 0 || watched.unusable_at.elapsed() > MAX_UNUSABLE_GAP {
                    (watched.unusable, watched.unusable_since) = (0, Instant::now());
                }
                watched.unusable_at = Instant::now();
                watched.unusable = watched.unusable.saturating_add(1);
                if watched.unusable < MAX_UNUSABLE || watched.unusable_since.elapsed() < MIN_UNUSABLE_TIME {
                    return;
                }
            }
            watched.unusable = 0;
            if let Some(FoundRelease { release, served }) = found {
                if release != *known.release {
                    let (from, to) = (known.release.version.as_deref(), release.version.as_deref());
                    tracing::warn!(from, to, "the node runs another release, of {}", release.description);
                }
                (watched.release, watched.served) = (Arc::new(release), Some(served));
                watched.read_at = Instant::now();
            }
            if watched.doubts == known.doubts {
                watched.origin = Some(origin);
            }
        });
    }
}

impl Default for ReleaseWatch {
    /// Nothing is known; the node link asks at its first connection.
    fn default() -> Self {
        Self::with(WatchedRelease {
            release: Arc::default(),
            served: None,
            signed: None,
            origin: None,
            doubts: 0,
            unusable: 0,
            unusable_since: Instant::now(),
            unusable_at: Instant::now(),
            read_at: Instant::now(),
        })
    }
}
