//! The parts of the operator that a write works with.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prost_types::Timestamp;
use svc_kit::wall_clock;
use svc_pipeline::Pipeline;
use svc_wire::proto_registry::ProtoRegistry;
use tokio::time::Instant;

use super::{audit::AuditLog, receipt::fee_payer};
use crate::{
    barrier::BarrierHandle, clients::indexer::IndexerClient, refresher::RefresherHandle,
    snapshot::publisher::SnapshotPublisher,
};

/// The parts of the operator that a write works with. Cheap to clone.
#[derive(Clone)]
pub(crate) struct WriteContext {
    pub pipeline: Pipeline,
    pub registry: Arc<ProtoRegistry>,
    pub publisher: SnapshotPublisher,
    pub audit: AuditLog,
    pub barrier: BarrierHandle,
    pub refresher: RefresherHandle,
    pub indexer: IndexerClient,
    /// Longest wait of a write for the indexer.
    pub indexer_timeout: Duration,
    pub last_payer: LastPayer,
}

/// The payer of the last write. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct LastPayer(Arc<Mutex<Option<bool>>>);

impl LastPayer {
    /// Logs that another account pays than for the write before.
    pub fn note(&self, has_granter: bool, tx_hash: &str) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = last.replace(has_granter).filter(|before| *before != has_granter) {
            let (before, now) = (fee_payer(before), fee_payer(has_granter));
            tracing::warn!(tx_hash, before, now, "another account pays the fee than for the write before");
        }
    }
}

impl WriteContext {
    /// Time of the chain: expiries are judged by it, as the chain does.
    pub fn chain_time(&self) -> Timestamp {
        self.pipeline.clock().time(Instant::now()).unwrap_or_else(wall_clock::now)
    }
}
