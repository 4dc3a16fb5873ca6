//! The last published version in a file beside the database: a restored backup of the database is older than its head.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};

use super::error::AgentStoreError;

/// The version of a document that was published last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedHead {
    /// DID.
    pub did: String,
    /// Number of the version, from 1.
    pub number: u64,
    /// Version id.
    pub version_id: String,
}

/// Length of the content, which is overwritten in place: that needs no space on a full disk.
const CONTENT_LENGTH: usize = 4_096;

/// The open file.
#[derive(Debug)]
pub struct HeadFile {
    path: PathBuf,
    file: Mutex<File>,
}

impl HeadFile {
    /// Opens or creates the file; returns the head that it has.
    pub fn open(path: &Path) -> Result<(Self, Option<PublishedHead>), AgentStoreError> {
        let failed = |error: std::io::Error| file_error(path, &error);
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
        let mut text = String::new();
        (&mut file).take(CONTENT_LENGTH as u64).read_to_string(&mut text).map_err(failed)?;
        let head = match text.trim() {
            "" => None,
            text => Some(serde_json::from_str(text).map_err(|error| file_error(path, &error.into()))?),
        };
        Ok((Self { path: path.to_owned(), file: Mutex::new(file) }, head))
    }

    /// Records the version that was published last.
    pub fn record(&self, head: &PublishedHead) -> Result<(), AgentStoreError> {
        let failed = |error: std::io::Error| file_error(&self.path, &error);
        let mut text = serde_json::to_string(head).map_err(|error| failed(error.into()))?;
        text.push_str(&" ".repeat(CONTENT_LENGTH.saturating_sub(text.len() + 1)));
        text.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        file.sync_data().map_err(failed)
    }
}

fn file_error(path: &Path, error: &std::io::Error) -> AgentStoreError {
    AgentStoreError::File { path: path.display().to_string(), reason: error.to_string() }
}
