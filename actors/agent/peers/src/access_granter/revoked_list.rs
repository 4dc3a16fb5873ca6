//! The file of revoked grants, made again after each revocation and every few seconds.

use std::time::Duration;

use svc_agent_identity::keeper::PublishedFile;
use svc_agent_store::AgentStoreError;
use tokio::{sync::Mutex, time::Instant};

use crate::access::AccessOwner;

/// Time for which a file is served. Strangers read it, and must not make the store work for each reading.
const KEPT: Duration = Duration::from_secs(5);

/// The newest file.
#[derive(Default)]
pub(super) struct RevokedListCache(Mutex<Option<(Instant, PublishedFile)>>);

impl RevokedListCache {
    /// Returns the file.
    pub async fn file(&self, owner: &AccessOwner) -> Result<PublishedFile, AgentStoreError> {
        let mut cached = self.0.lock().await;
        if let Some((made_at, file)) = cached.as_ref()
            && made_at.elapsed() < KEPT
        {
            return Ok(file.clone());
        }
        let file = owner.revoked_file().await?;
        *cached = Some((Instant::now(), file.clone()));
        Ok(file)
    }

    /// Forgets the file: it lacks a revocation.
    pub async fn forget(&self) {
        *self.0.lock().await = None;
    }
}
