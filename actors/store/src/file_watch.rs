//! Watches that the files of an SQLite database stay those that were opened.
//!
//! SQLite writes on into a file that was removed or replaced, and acknowledges every commit: the file at the path has none of them.

use std::{
    fs::Metadata,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The database file and its write-ahead log.
#[derive(Debug)]
pub struct FileWatch {
    database: WatchedFile,
    write_ahead_log: WatchedFile,
    /// Connection for which the write-ahead log was seen: the last connection to close removes it, and the next creates another.
    connection_number: u64,
}

#[derive(Debug)]
struct WatchedFile {
    path: PathBuf,
    seen: Option<FileState>,
}

/// Identity and length of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileState {
    identity: (u64, u64),
    length: u64,
}

impl FileWatch {
    /// Watches a database that is open.
    pub fn new(path: &Path) -> Self {
        let mut write_ahead_log = path.as_os_str().to_owned();
        write_ahead_log.push("-wal");
        let watch = |path: PathBuf| WatchedFile { path, seen: None };
        Self { database: watch(path.into()), write_ahead_log: watch(write_ahead_log.into()), connection_number: 0 }
    }

    /// Compares the files with those that were seen before. `connection_number` changes with each new connection.
    pub fn check(&mut self, connection_number: u64) -> Result<(), String> {
        if connection_number != self.connection_number {
            (self.connection_number, self.write_ahead_log.seen) = (connection_number, None);
        }
        self.database.check()?;
        self.write_ahead_log.check()
    }
}

impl WatchedFile {
    fn check(&mut self) -> Result<(), String> {
        let path = self.path.display();
        let now = match std::fs::metadata(&self.path) {
            Ok(metadata) => Some(FileState { identity: identity(&metadata), length: metadata.len() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(format!("{path} cannot be looked at: {error}")),
        };
        match (self.seen, now) {
            (Some(_), None) => return Err(format!("{path} was removed while it was open")),
            (Some(seen), Some(now)) if seen.identity != now.identity => {
                return Err(format!("{path} was replaced while it was open"));
            }
            (Some(seen), Some(now)) if now.length < seen.length => {
                return Err(format!(
                    "{path} was shortened from {} to {} bytes while it was open",
                    seen.length, now.length
                ));
            }
            _ => {}
        }
        self.seen = now;
        Ok(())
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
