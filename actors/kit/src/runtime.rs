//! Shutdown of a tokio runtime from any thread.

use std::time::Duration;

use tokio::runtime::Runtime;

/// Longest wait for tasks to reach their next await points. A thread of a busy machine may not run for seconds, and a port that is still
/// taken fails the next start.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);

/// Drops every task of a runtime at its next await point, as the end of the process would, and returns when all tasks are
/// dropped: their ports are free and their files are closed.
pub fn shut_down(runtime: Runtime) {
    // The caller may run on a thread of another runtime, and such a thread must not block.
    let ended = std::thread::spawn(move || runtime.shutdown_timeout(SHUTDOWN_TIMEOUT));
    // The panic of a task is no error of the shutdown.
    let _ = ended.join();
}
