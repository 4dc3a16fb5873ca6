//! The cursor of the store, where a watcher begins.

use std::time::Duration;

use svc_agent_store::{AgentStore, AgentStoreError};
use svc_kit::ActorFailure;
use tokio::time::sleep;

/// Reads of the cursor before a start fails.
const MAX_CURSOR_READS: u32 = 10;
/// Pause after a failure of the store.
pub(super) const STORE_PAUSE: Duration = Duration::from_secs(1);

/// Reads the cursor. A first start that fails is not repeated by a supervisor, and a database may be away for a moment.
pub(super) async fn read_cursor(store: &AgentStore) -> Result<(Option<u64>, Vec<String>), ActorFailure> {
    let mut attempts = 0;
    loop {
        let read = async { Ok::<_, AgentStoreError>((store.event_cursor().await?, store.ids_at_cursor().await?)) };
        match read.await {
            Ok(read) => return Ok(read),
            Err(error) if attempts == MAX_CURSOR_READS => return Err(ActorFailure(error.to_string())),
            Err(error) => {
                tracing::warn!(%error, "the cursor of the events cannot be read");
                attempts += 1;
                sleep(STORE_PAUSE).await;
            }
        }
    }
}
