//! Reads of the indexer's own state.

use serde_json::{Value, json};
use svc_wire::timestamp;

use super::{
    error::ReadError,
    reader::{IndexReader, ReadRequest},
};
use crate::store::iso_millis;

impl IndexReader {
    pub(super) async fn block_height(&self) -> Result<Value, ReadError> {
        let checkpoint = self.store.checkpoint().await?;
        let stamp = timestamp::iso_seconds(&timestamp::from_unix_nanos(checkpoint.time));
        Ok(json!({"type": "block-indexed", "height": checkpoint.height, "timestamp": stamp}))
    }

    pub(super) async fn status(&self) -> Result<Value, ReadError> {
        let state = self.follower_state().await.ok_or(ReadError::NotRunning)?;
        let mut status = json!({"is_running": true, "is_crawling": state.last_error.is_none()});
        if let Some(error) = state.last_error {
            status["last_error"] =
                json!({"message": error.message, "timestamp": error.timestamp, "service": "follower"});
        }
        if let Some(age) = state.block_age_seconds {
            status["block_age_seconds"] = age.into();
        }
        // The store knows nothing of the heights below.
        if let Some((oldest, _)) = self.store.oldest_and_newest_block().await?.first() {
            status["oldest_block_height"] = (*oldest).into();
        }
        let (checkpoint, pending) = (self.store.trust_checkpoint().await?, self.store.list_pending_dids().await?);
        let open = self.store.open_summary().await?;
        status["trust"] =
            json!({"block_height": checkpoint.height, "dids_to_judge": pending.len(), "open": open.count});
        if let Some(oldest) = open.oldest {
            status["trust"]["oldest_open_since"] = iso_millis(i128::from(oldest) * 1_000_000).into();
        }
        Ok(status)
    }

    pub(super) async fn version(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let subject = &self.subject;
        let mut version = json!({
            "app_version": env!("CARGO_PKG_VERSION"),
            "environment": {"network": {
                "chain_id": subject.node.network, "rpc_endpoint": subject.rpc, "lcd_endpoint": "", "cosmos_sdk_version": "",
                "node_version": subject.node.version, "app_name": subject.namespace.as_str(),
            }},
        });
        let heights = self.store.oldest_and_newest_block().await?;
        let (oldest, newest) = (heights.first().copied(), heights.last().copied());
        version["newest_block"] = newest.map_or(Value::Null, |(height, time)| show_block(height, time));
        let Some(height) = request.params.number("block_height") else { return Ok(version) };
        let newest = newest.map_or(0, |(newest, _)| newest);
        if height > newest {
            let text = format!("block_height: {height} is above the newest indexed height {newest}");
            return Err(ReadError::InvalidParameter(text));
        }
        let Some(time) = self.store.block_time(height).await? else {
            return Err(match oldest {
                Some((oldest, _)) => ReadError::block_not_indexed(height, oldest),
                None => ReadError::InvalidParameter("block_height: no block is indexed yet".to_owned()),
            });
        };
        version["block"] = show_block(height, time);
        Ok(version)
    }
}

/// A block as the version shows it. The store has no hashes.
fn show_block(height: u64, time: i128) -> Value {
    json!({"height": height, "hash": null, "time": timestamp::rfc3339_nanos(&timestamp::from_unix_nanos(time))})
}
