//! The lock of a database file: one process at a time, and a second memory of the newest commit.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};

/// The process that holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    /// Process id.
    pub pid: u32,
    /// Name of its machine.
    pub host: String,
    /// Time at which it took the lock, RFC 3339.
    pub since: String,
}

impl LockHolder {
    /// This process, as the holder of a lock since an instant.
    pub fn this_process(since: String) -> Self {
        Self { pid: std::process::id(), host: host_name(), since }
    }
}

/// The newest commit that the database has acknowledged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreHead {
    /// Identity of the database.
    pub identity: String,
    /// Number of the commit.
    pub commit: i64,
}

/// The content of the lock file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct LockContent {
    holder: LockHolder,
    head: StoreHead,
}

/// A database file cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds the lock.
    #[error("{path} is in use by {}", describe_holder(.holder.as_ref()))]
    Held {
        /// The lock file.
        path: String,
        /// The process, if the file names it.
        holder: Option<LockHolder>,
    },
    /// The lock file cannot be used.
    #[error("{path}: {reason}")]
    File {
        /// The lock file.
        path: String,
        /// Error of the operating system.
        reason: String,
    },
}

fn describe_holder(holder: Option<&LockHolder>) -> String {
    match holder {
        Some(LockHolder { pid, host, since }) => format!("process {pid} on {host} since {since}"),
        None => "another process".to_owned(),
    }
}

/// Length of the content: it is overwritten in place, which needs no space on a full disk.
const CONTENT_LENGTH: usize = 512;

/// A held lock. The operating system releases it when the process ends, however it ends; the file stays.
#[derive(Debug)]
pub struct StoreLock {
    path: PathBuf,
    holder: LockHolder,
    file: Mutex<File>,
}

impl StoreLock {
    /// Locks a database by the file `DATABASE.lock`, and yields the head that the holder before has left.
    ///
    /// # Errors
    /// When another process holds the lock, or the file cannot be used.
    pub fn acquire(database: &Path, since: String) -> Result<(Self, Option<StoreHead>), LockError> {
        let path = lock_path(database);
        let name = path.display().to_string();
        let failed = |error: std::io::Error| LockError::File { path: name.clone(), reason: error.to_string() };
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        let content = read_content(&mut file);
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held { path: name, holder: content.map(|content| content.holder) });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let holder = LockHolder::this_process(since);
        let head = content.map(|content| content.head).filter(|head| !head.identity.is_empty());
        let lock = Self { path, holder, file: Mutex::new(file) };
        lock.record(&head.clone().unwrap_or_default()).map_err(failed)?;
        Ok((lock, head))
    }

    /// Records the newest commit. The record survives the process; after a power failure it may be an older one.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn record(&self, head: &StoreHead) -> std::io::Result<()> {
        let content = LockContent { holder: self.holder.clone(), head: head.clone() };
        let mut text = serde_json::to_string(&content)?;
        text.push_str(&" ".repeat(CONTENT_LENGTH.saturating_sub(text.len() + 1)));
        text.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(0))?;
        file.write_all(text.as_bytes())
    }

    /// The lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for StoreLock {
    /// A child process that is just being started has the file open too, which would hold the lock until it runs its own program.
    fn drop(&mut self) {
        let _ = self.file.get_mut().unwrap_or_else(PoisonError::into_inner).unlock();
    }
}

pub(crate) fn lock_path(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// `None` for a new file, and for one with another content.
fn read_content(file: &mut File) -> Option<LockContent> {
    let mut text = String::new();
    file.take(CONTENT_LENGTH as u64 * 2).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    name.map_or_else(|| "an unnamed machine".to_owned(), |name| name.trim().chars().take(64).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_refused_and_the_head_survives_the_first() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = directory.path().join("journal.db");
        let (lock, head) = StoreLock::acquire(&database, "2026-01-01T00:00:00Z".to_owned()).expect("locked");
        assert_eq!(head, None);
        let newest = StoreHead { identity: "a".to_owned(), commit: 7 };
        lock.record(&StoreHead { identity: "a".to_owned(), commit: 1_000_000 }).expect("recorded");
        lock.record(&newest).expect("recorded");
        let refused = StoreLock::acquire(&database, "later".to_owned()).expect_err("held");
        let (pid, host) = (std::process::id(), host_name());
        let words =
            format!("{} is in use by process {pid} on {host} since 2026-01-01T00:00:00Z", lock.path().display());
        assert_eq!(refused.to_string(), words);
        drop(lock);
        let (_lock, head) = StoreLock::acquire(&database, "later".to_owned()).expect("locked");
        assert_eq!(head, Some(newest));
    }

    #[test]
    fn the_lock_ends_with_its_value_also_while_another_descriptor_of_the_file_is_open() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = directory.path().join("journal.db");
        let (lock, _) = StoreLock::acquire(&database, String::new()).expect("locked");
        let inherited = lock.file.lock().expect("not poisoned").try_clone().expect("a descriptor");
        assert!(StoreLock::acquire(&database, String::new()).is_err());
        drop(lock);
        let (_lock, _) = StoreLock::acquire(&database, String::new()).expect("locked");
        drop(inherited);
    }

    #[test]
    fn a_lock_file_with_another_content_is_taken_over() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = directory.path().join("journal.db");
        std::fs::write(lock_path(&database), [0xFF; 600]).expect("written");
        let (_lock, head) = StoreLock::acquire(&database, String::new()).expect("locked");
        assert_eq!(head, None);
    }
}
