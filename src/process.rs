//! A part of the network on a runtime of its own, so that it can end as a killed process ends: listener, connections and tasks
//! at once.

use std::{
    future::Future,
    io,
    net::{SocketAddr, TcpListener},
};

use tokio::runtime::Runtime;

/// A running part.
pub struct Process {
    runtime: Option<Runtime>,
}

impl Process {
    /// Makes the runtime and runs `start` on it to its end; what it spawned goes on.
    pub async fn launch<F, T>(name: &str, start: F) -> io::Result<(Self, T)>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name(name).enable_all().build()?;
        let started = runtime.spawn(start).await.map_err(io::Error::other)?;
        Ok((Self { runtime: Some(runtime) }, started))
    }

    /// Ends it as a kill would.
    pub fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            svc_kit::runtime::end(runtime);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A listener for a tokio runtime, bound before the runtime exists.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
