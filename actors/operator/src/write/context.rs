//! The parts of the operator that a write works with.

use std::{sync::Arc, time::Duration};

use svc_pipeline::Pipeline;
use svc_wire::proto_registry::ProtoRegistry;

use super::audit::AuditLog;
use crate::{barrier::BarrierHandle, refresher::RefresherHandle, snapshot::publisher::SnapshotPublisher};

/// The parts of the operator that a write works with. Cheap to clone.
#[derive(Clone)]
pub(crate) struct WriteContext {
    pub pipeline: Pipeline,
    pub registry: Arc<ProtoRegistry>,
    pub publisher: SnapshotPublisher,
    pub audit: AuditLog,
    pub barrier: BarrierHandle,
    pub refresher: RefresherHandle,
    /// Longest wait of a write for the indexer.
    pub indexer_timeout: Duration,
}
