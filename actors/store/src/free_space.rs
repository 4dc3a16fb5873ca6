//! Free space on the file system of a file.

use std::path::Path;

/// Bytes that a process without privileges can still write to the file system of a file; `None` when the system does not say.
pub fn free_space(file: &Path) -> Option<u64> {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let status = rustix::fs::statvfs(directory).ok()?;
    Some(status.f_bavail.saturating_mul(status.f_frsize))
}
