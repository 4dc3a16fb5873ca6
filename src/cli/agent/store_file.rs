//! `svc agent export` and `svc agent import`: the store as a file.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use svc_agent::{has_export_end, import_store};

use crate::config::StoppedAgent;
use svc_peer::AgentApi;

/// Bytes of the end of a file that are kept to look at; the last line is shorter.
const TAIL_BYTES: usize = 256;

/// Writes an export of the running agent to a file. The file appears whole or not at all.
pub(super) async fn export(api: &AgentApi, file: &Path, overwrites: bool) -> anyhow::Result<Value> {
    refuse_existing(file, overwrites)?;
    let mut partial = PartialFile::create(file)?;
    let mut response = api.download("/v2/agent/export").await?;
    while let Some(chunk) = response.chunk().await.context("the export broke off: nothing was written")? {
        partial.write(&chunk)?;
    }
    if !has_export_end(&partial.tail) {
        bail!("the export broke off before its end: nothing was written");
    }
    // Another program may have made the file meanwhile.
    refuse_existing(file, overwrites)?;
    let bytes = partial.keep(file)?;
    Ok(json!({"file": file.display().to_string(), "bytes": bytes}))
}

/// Writes a file into the empty store of an agent that does not run.
pub(super) async fn import(stopped: StoppedAgent, file: &Path) -> anyhow::Result<Value> {
    let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    let report = import_store(stopped.store, &stopped.paths.head, opened).await;
    Ok(serde_json::to_value(report.with_context(|| format!("{} is not imported", file.display()))?)?)
}

fn refuse_existing(file: &Path, overwrites: bool) -> anyhow::Result<()> {
    match std::fs::symlink_metadata(file) {
        Ok(found) if found.is_dir() => bail!("{} is a directory: name a file", file.display()),
        Ok(_) if !overwrites => bail!("{} is there already: name another file, or add --force", file.display()),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot write {}", file.display())),
    }
}

/// A file under another name beside its later place, which the drop removes unless it was kept.
struct PartialFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    tail: Vec<u8>,
    is_kept: bool,
}

impl PartialFile {
    /// Makes the file, for its owner alone.
    fn create(target: &Path) -> anyhow::Result<Self> {
        let mut path = target.as_os_str().to_owned();
        path.push(format!(".{}.part", uuid::Uuid::new_v4().simple()));
        let path = PathBuf::from(path);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path, file, bytes: 0, tail: Vec::new(), is_kept: false })
    }

    fn write(&mut self, chunk: &[u8]) -> anyhow::Result<()> {
        self.file.write_all(chunk).with_context(|| format!("cannot write {}", self.path.display()))?;
        self.bytes += chunk.len() as u64;
        self.tail.extend_from_slice(&chunk[chunk.len().saturating_sub(TAIL_BYTES)..]);
        self.tail.drain(..self.tail.len().saturating_sub(TAIL_BYTES));
        Ok(())
    }

    /// Puts the file at its place once it is on disk; returns its length.
    fn keep(mut self, target: &Path) -> anyhow::Result<u64> {
        let failed = || format!("cannot write {}", target.display());
        self.file.sync_all().with_context(failed)?;
        std::fs::rename(&self.path, target).with_context(failed)?;
        self.is_kept = true;
        let directory = target.parent().filter(|parent| !parent.as_os_str().is_empty());
        // The name is on disk once its directory is.
        File::open(directory.unwrap_or(Path::new("."))).and_then(|opened| opened.sync_all()).with_context(failed)?;
        Ok(self.bytes)
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_appears_whole_with_its_mode_or_not_at_all() {
        let directory = tempfile::tempdir().expect("a directory");
        let target = directory.path().join("agent.export");
        let names = || std::fs::read_dir(directory.path()).expect("readable").count();
        let mut partial = PartialFile::create(&target).expect("created");
        partial.write(&[b'a'; 1_000]).expect("written");
        assert!(!target.exists() && names() == 1);
        drop(partial);
        assert_eq!(names(), 0, "the part is removed");
        let mut partial = PartialFile::create(&target).expect("created");
        partial.write(&[b'a'; 1_000]).expect("written");
        partial.write(b"bc").expect("written");
        assert!(partial.tail.len() == TAIL_BYTES && partial.tail.ends_with(b"aabc"));
        assert_eq!(partial.keep(&target).expect("kept"), 1_002);
        assert_eq!(target.metadata().expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(names(), 1);
        assert!(refuse_existing(&target, false).is_err() && refuse_existing(&target, true).is_ok());
        assert!(refuse_existing(directory.path(), true).is_err());
    }
}
