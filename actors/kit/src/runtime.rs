//! Ending a runtime as a killed process ends, from wherever one is.

use std::time::Duration;

use tokio::runtime::Runtime;

/// How long a task may take to its next point of rest.
const PATIENCE: Duration = Duration::from_secs(2);

/// Drops every task of a runtime at its next point of rest, and returns when they are gone: their ports are free, their files
/// closed.
pub fn end(runtime: Runtime) {
    // Waiting is forbidden to threads of a runtime, and who ends one may be on another.
    let ended = std::thread::spawn(move || runtime.shutdown_timeout(PATIENCE));
    // A panic of a task is no concern of whoever ends it.
    let _ = ended.join();
}
