//! Reads about the indexer itself.

use serde_json::{Value, json};
use svc_wire::instant;

use super::{ReadError, Reader};
use crate::follower::{FollowerState, LastError};

impl Reader {
    pub(super) async fn block_height(&self) -> Result<Value, ReadError> {
        let checkpoint = self.store.checkpoint().await?;
        let stamp = instant::iso_seconds(&instant::from_nanos(checkpoint.time));
        Ok(json!({"type": "block-indexed", "height": checkpoint.height, "timestamp": stamp}))
    }

    /// Why blocks are not taken in just now; none while they are.
    pub fn last_error(&self) -> Option<LastError> {
        self.last_error.with(|error| error.clone())
    }

    /// What the follower says of itself; none while it is restarting.
    pub async fn follower(&self) -> Option<FollowerState> {
        self.follower.observe().await.and_then(|value| serde_json::from_value(value).ok())
    }

    pub(super) async fn status(&self) -> Result<Value, ReadError> {
        let state = self.follower().await.ok_or(ReadError::NotRunning)?;
        let mut status = json!({"is_running": true, "is_crawling": state.last_error.is_none()});
        if let Some(error) = state.last_error {
            status["last_error"] =
                json!({"message": error.message, "timestamp": error.timestamp, "service": "follower"});
        }
        let (judged, to_judge) = (self.store.trust_checkpoint().await?, self.store.trust_jobs().await?);
        status["trust"] = json!({"block_height": judged.height, "dids_to_judge": to_judge.len()});
        Ok(status)
    }

    pub(super) fn version(&self) -> Value {
        json!({
            "app_version": env!("CARGO_PKG_VERSION"),
            "environment": {"network": {
                "chain_id": self.node.network, "rpc_endpoint": &*self.rpc, "lcd_endpoint": "", "cosmos_sdk_version": "",
                "node_version": self.node.version, "app_name": self.namespace.as_str(),
            }},
        })
    }
}
