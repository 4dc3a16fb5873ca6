//! The supervision tree of an indexer, and its end.

use std::time::Duration;

use svc_kit::supervision::Supervisor;
use tokio::runtime::Handle;

use crate::store::IndexStore;

/// Time that the actors get to finish when the last handle is dropped.
const DROP_TIMEOUT: Duration = Duration::from_secs(3);

/// The running actors and their store. Its drop stops them.
pub(super) struct IndexerTree {
    pub supervisor: Supervisor,
    pub store: IndexStore,
}

/// Stops the actors, then closes the database.
pub(super) async fn shut_down(supervisor: &Supervisor, store: &IndexStore, wait_limit: Duration) {
    supervisor.shutdown(wait_limit).await;
    store.close().await;
}

impl Drop for IndexerTree {
    fn drop(&mut self) {
        // Without a runtime there is no actor: their tasks ended with it.
        let Ok(runtime) = Handle::try_current() else { return };
        let (supervisor, store) = (self.supervisor.clone(), self.store.clone());
        runtime.spawn(async move { shut_down(&supervisor, &store, DROP_TIMEOUT).await });
    }
}
