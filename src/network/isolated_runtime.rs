//! A part of the network on a tokio runtime of its own, so that it can end like a killed process: listener, connections and tasks
//! end at once.

use std::{future::Future, io};

use tokio::runtime::Runtime;

/// A running part. Dropping it kills the part.
pub struct IsolatedRuntime {
    tokio_runtime: Option<Runtime>,
}

impl IsolatedRuntime {
    /// Starts a runtime and runs `start` on it to completion; the tasks that `start` spawned continue. Fails when the runtime
    /// cannot be started or `start` panics.
    pub async fn launch<F, T>(name: &str, start: F) -> io::Result<(Self, T)>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name(name).enable_all().build()?;
        let started = runtime.spawn(start).await.map_err(io::Error::other)?;
        Ok((Self { tokio_runtime: Some(runtime) }, started))
    }

    /// Ends the part without a drain.
    pub fn kill(&mut self) {
        if let Some(runtime) = self.tokio_runtime.take() {
            svc_kit::runtime::shut_down(runtime);
        }
    }
}

impl Drop for IsolatedRuntime {
    fn drop(&mut self) {
        self.kill();
    }
}
