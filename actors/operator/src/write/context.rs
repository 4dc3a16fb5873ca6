//! The parts of the operator that a write works with.

use std::{sync::Arc, time::Duration};

use prost_types::Timestamp;
use svc_kit::wall_clock;
use svc_pipeline::Pipeline;
use svc_wire::proto_registry::ProtoRegistry;
use tokio::time::Instant;

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

impl WriteContext {
    /// Time of the chain: expiries are judged by it, as the chain does.
    pub fn chain_time(&self) -> Timestamp {
        self.pipeline.clock().time(Instant::now()).unwrap_or_else(wall_clock::now)
    }
}
