//! Free space on the file system of a file.

use std::{fmt, path::Path};

/// Bytes that a process without privileges can still write to the file system of a file; `None` when the system does not say.
pub fn free_space(file: &Path) -> Option<u64> {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let status = rustix::fs::statvfs(directory).ok()?;
    Some(status.f_bavail.saturating_mul(status.f_frsize))
}

/// Free bytes that a disk must have, under the name that its reader knows. The program that has the settings gives the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinFreeSpace {
    /// The bytes; 0 asks for none.
    pub bytes: u64,
    /// Name of the setting.
    pub name: &'static str,
}

impl MinFreeSpace {
    /// Free bytes on the disk of a file, when they are fewer than these.
    pub fn shortage(self, file: &Path) -> Option<u64> {
        free_space(file).filter(|free| *free < self.bytes)
    }
}

impl From<u64> for MinFreeSpace {
    fn from(bytes: u64) -> Self {
        Self { bytes, name: "min_free_space" }
    }
}

impl Default for MinFreeSpace {
    fn default() -> Self {
        0.into()
    }
}

impl fmt::Display for MinFreeSpace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}", self.name, self.bytes)
    }
}
