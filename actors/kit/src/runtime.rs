//! Shutdown of a tokio runtime from any thread.

use std::time::Duration;

use tokio::runtime::Runtime;

/// Time that a task has to reach its next await point.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Drops every task of a runtime at its next await point, as the end of the process would, and returns when all tasks are
/// dropped: their ports are free and their files are closed.
pub fn shut_down(runtime: Runtime) {
    // The caller may run on a thread of another runtime, and such a thread must not block.
    let ended = std::thread::spawn(move || runtime.shutdown_timeout(SHUTDOWN_TIMEOUT));
    // The panic of a task is no error of the shutdown.
    let _ = ended.join();
}
