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

/// A change of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileChange {
    /// The commits since are in no file at the path.
    Lost(String),
    /// Another program may have merged the write-ahead log. A new connection shows whether commits are lost.
    Unclear(String),
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
    pub fn check(&mut self, connection_number: u64) -> Result<(), FileChange> {
        if connection_number != self.connection_number {
            (self.connection_number, self.write_ahead_log.seen) = (connection_number, None);
        }
        self.database.check()?;
        self.write_ahead_log.check()
    }
}

impl WatchedFile {
    fn check(&mut self) -> Result<(), FileChange> {
        let path = self.path.display();
        let now = match std::fs::metadata(&self.path) {
            Ok(metadata) => Some(FileState { identity: identity(&metadata), length: metadata.len() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(FileChange::Unclear(format!("{path} cannot be looked at: {error}"))),
        };
        match (self.seen, now) {
            (Some(_), None) => return Err(FileChange::Lost(format!("{path} was removed while it was open"))),
            (Some(seen), Some(now)) if seen.identity != now.identity => {
                return Err(FileChange::Lost(format!("{path} was replaced while it was open")));
            }
            (Some(seen), Some(now)) if now.length < seen.length => {
                self.seen = Some(now);
                let (before, now) = (seen.length, now.length);
                return Err(FileChange::Unclear(format!(
                    "{path} was shortened from {before} to {now} bytes while it was open"
                )));
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
