//! The releases of the node: a message that one does not take, the next one may.

use std::sync::Arc;

use svc_kit::ActorContext;

use super::{Args, Msg};

/// Has everything looked at again that is blocked by the messages of a release, whenever the node runs another one.
pub(super) fn watch(context: &ActorContext<Msg>, args: &Arc<Args>) {
    let args = Arc::clone(args);
    context.spawn(async move {
        let watcher = &args.watcher;
        let mut known = watcher.pipeline.release();
        loop {
            known = watcher.pipeline.await_other_release(&known).await;
            watcher.resolution.registry_changed();
            watcher.flows.grants_changed();
            watcher.credentials.registry_changed();
        }
    });
}
