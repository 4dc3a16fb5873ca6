//! The file of the audit: one writer, readable by its owner alone, every line whole.

use std::{
    fs::{File, OpenOptions, Permissions},
    io::{BufRead, BufReader, Read, Seek, SeekFrom, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use serde_json::{Value, json};
use svc_kit::wall_clock;
use svc_store::StoreLock;

use super::chain::{AuditChain, chained_line, line_hash};

/// The audit log cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {reason}")]
pub struct AuditError {
    /// File of the audit log.
    pub location: String,
    /// Error of the operating system.
    pub reason: String,
}

/// An audit file that is open for appending.
pub(super) struct AuditFile {
    path: String,
    file: File,
    _lock: StoreLock,
    head: String,
    length: u64,
    /// Whether the last line could neither be finished nor removed.
    is_torn: bool,
}

impl AuditFile {
    /// Opens a file, follows its chain and hands each record to `read`.
    pub fn open(
        path: &str,
        known_head: Option<&str>,
        read: impl FnMut(&[u8]),
    ) -> Result<(Self, AuditChain), AuditError> {
        let failed = failure(path);
        let (lock, _) = StoreLock::acquire(Path::new(path), wall_clock::now_rfc3339())
            .map_err(|error| AuditError { location: path.to_owned(), reason: error.to_string() })?;
        let (mut file, length) = open_for_appending(path).map_err(&failed)?;
        let followed = follow_file(&mut file, known_head, read).map_err(&failed)?;
        let FollowedFile { chain, whole_head, whole_length } = followed;
        let is_torn = whole_length < length;
        let mut opened =
            Self { path: path.to_owned(), file, _lock: lock, head: whole_head, length: whole_length, is_torn };
        opened.close_torn_line()?;
        Ok((opened, chain))
    }

    /// Appends a record. After an error the file ends with a whole line, as soon as it can be written.
    pub fn append(&mut self, content: &Value) -> Result<(), AuditError> {
        self.close_torn_line()?;
        let line = chained_line(content, &self.head);
        if let Err(error) = self.file.write_all(format!("{line}\n").as_bytes()) {
            // A part of the line may be in the file. Nothing else has been appended since, so that only this part is removed.
            self.is_torn = self.file.set_len(self.length).is_err();
            return Err(failure(&self.path)(error));
        }
        (self.head, self.length) = (line_hash(line.as_bytes()), self.length + line.len() as u64 + 1);
        Ok(())
    }

    /// Continues in the file that is at the path now. A new file begins with the head of the one before it; a file that was not moved
    /// away is continued. True for a new file.
    pub fn reopen(&mut self) -> Result<bool, AuditError> {
        self.close_torn_line()?;
        let failed = failure(&self.path);
        let (file, length) = open_for_appending(&self.path).map_err(&failed)?;
        let identity = |file: &File| file.metadata().map(|metadata| (metadata.dev(), metadata.ino()));
        if identity(&file).map_err(&failed)? == identity(&self.file).map_err(&failed)? {
            return Ok(false);
        }
        if length > 0 {
            let reason = "another file with lines is at the path".to_owned();
            return Err(AuditError { location: self.path.clone(), reason });
        }
        (self.file, self.length) = (file, 0);
        self.append(&json!({"record": "rotated", "at": wall_clock::now_rfc3339()}))?;
        Ok(true)
    }

    /// Hash of the last line.
    pub fn head(&self) -> &str {
        &self.head
    }

    /// Ends the part of a line that could not be removed. The next line follows from that part.
    fn close_torn_line(&mut self) -> Result<(), AuditError> {
        if !self.is_torn {
            return Ok(());
        }
        let failed = failure(&self.path);
        let mut part = Vec::new();
        self.file.seek(SeekFrom::Start(self.length)).map_err(&failed)?;
        self.file.read_to_end(&mut part).map_err(&failed)?;
        if !part.is_empty() {
            self.file.write_all(b"\n").map_err(&failed)?;
            (self.head, self.length) = (line_hash(&part), self.length + part.len() as u64 + 1);
        }
        self.is_torn = false;
        Ok(())
    }
}

fn failure(path: &str) -> impl Fn(std::io::Error) -> AuditError + use<> {
    let location = path.to_owned();
    move |error| AuditError { location: location.clone(), reason: error.to_string() }
}

fn open_for_appending(path: &str) -> std::io::Result<(File, u64)> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    // A file of an earlier release may be readable by others.
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    let length = file.seek(SeekFrom::End(0))?;
    Ok((file, length))
}

/// The result of reading a file.
struct FollowedFile {
    chain: AuditChain,
    /// Hash of the last whole line.
    whole_head: String,
    /// Length of the whole lines.
    whole_length: u64,
}

/// Follows the chain through a file, and hands each line to `read`.
fn follow_file(
    file: &mut File,
    known_head: Option<&str>,
    mut read: impl FnMut(&[u8]),
) -> std::io::Result<FollowedFile> {
    file.seek(SeekFrom::Start(0))?;
    let mut reader = BufReader::new(file);
    let mut followed = FollowedFile { chain: AuditChain::new(known_head), whole_head: String::new(), whole_length: 0 };
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line)?;
        if length == 0 {
            return Ok(followed);
        }
        let content = line.strip_suffix(b"\n").unwrap_or(&line);
        followed.chain.follow(content);
        read(content);
        if line.len() > content.len() {
            (followed.whole_head, followed.whole_length) =
                (followed.chain.head.clone(), followed.whole_length + length as u64);
        }
    }
}

/// Follows the chain through an audit file.
///
/// # Errors
/// When the file cannot be read.
pub fn verify_audit(path: &str) -> Result<AuditChain, AuditError> {
    let mut file = File::open(path).map_err(failure(path))?;
    follow_file(&mut file, None, |_| {}).map(|followed| followed.chain).map_err(failure(path))
}
