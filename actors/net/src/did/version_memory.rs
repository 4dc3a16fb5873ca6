//! The newest version of each did:webvh that was seen. A server that shows an older log, or another history, is not believed: keys that
//! the controller has withdrawn would count again.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};

/// DIDs that are remembered. A caller resolves few; beyond this number the first in order is forgotten.
const MAX_DIDS: usize = 10_000;

/// Remembers versions, in a file or in memory. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct VersionMemory(Arc<VersionMemoryInner>);

#[derive(Debug, Default)]
struct VersionMemoryInner {
    file: Option<PathBuf>,
    known: Mutex<KnownVersions>,
}

#[derive(Debug, Default)]
struct KnownVersions {
    of_dids: BTreeMap<String, KnownVersion>,
    /// Whether the file is older: it could not be written.
    is_unwritten: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownVersion {
    /// Number of the entry.
    number: NonZeroUsize,
    /// `versionId` of the entry, which commits to all before it.
    id: String,
}

impl VersionMemory {
    /// Opens the memory in a file, which need not exist.
    ///
    /// # Errors
    /// When the file cannot be read, or is none of these.
    pub fn open(file: &Path) -> io::Result<Self> {
        let of_dids = match std::fs::read(file) {
            Ok(text) => serde_json::from_slice(&text).map_err(io::Error::other)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        let known = Mutex::new(KnownVersions { of_dids, is_unwritten: false });
        Ok(Self(Arc::new(VersionMemoryInner { file: Some(file.to_owned()), known })))
    }

    /// Accepts the versions of a verified log, the oldest first, and remembers the newest one.
    ///
    /// # Errors
    /// With the violated rule, when the log ends before a version that was seen, or has another entry in its place.
    pub(super) fn accept(&self, did: &str, version_ids: &[String]) -> Result<(), String> {
        let (Some(newest), Some(number)) = (version_ids.last(), NonZeroUsize::new(version_ids.len())) else {
            return Ok(());
        };
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = known.of_dids.get(did);
        if let Some(seen) = seen {
            match version_ids.get(seen.number.get() - 1) {
                None => return Err(format!("it ends at version {number}, and version {} was seen before", seen.id)),
                Some(id) if *id != seen.id => {
                    return Err(format!("its version {} is {id}, and {} was seen before", seen.number, seen.id));
                }
                Some(_) => {}
            }
        }
        if seen.is_none_or(|seen| seen.number < number) {
            known.of_dids.insert(did.to_owned(), KnownVersion { number, id: newest.clone() });
            if known.of_dids.len() > MAX_DIDS {
                known.of_dids.pop_first();
            }
            known.is_unwritten = true;
        }
        if known.is_unwritten {
            match self.0.write(&known.of_dids) {
                Ok(()) => known.is_unwritten = false,
                // The process remembers it, and tries again with the next log.
                Err(error) => tracing::warn!(%error, did, "the version of a DID was not stored"),
            }
        }
        Ok(())
    }
}

impl VersionMemoryInner {
    /// Replaces the file as a whole.
    fn write(&self, known: &BTreeMap<String, KnownVersion>) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut next = file.as_os_str().to_owned();
        next.push(".next");
        let next = PathBuf::from(next);
        let mut written = std::fs::File::create(&next)?;
        written.write_all(&serde_json::to_vec(known)?)?;
        written.sync_all()?;
        std::fs::rename(next, file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_goes_back_or_forks_is_refused_also_by_the_next_process() {
        let home = tempfile::tempdir().expect("a directory");
        let file = home.path().join("journal.db.dids");
        let ids = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let memory = VersionMemory::open(&file).expect("a new file");
        let did = "did:webvh:q:a.example";
        assert_eq!(memory.accept(did, &ids(&["1-a", "2-b", "3-c"])), Ok(()));
        assert_eq!(memory.accept(did, &ids(&["1-a", "2-b", "3-c"])), Ok(()), "the same again");
        let memory = VersionMemory::open(&file).expect("the file");
        assert!(memory.accept(did, &ids(&["1-a", "2-b"])).is_err_and(|reason| reason.contains("3-c was seen")));
        assert!(memory.accept(did, &ids(&["1-a", "2-b", "3-x", "4-y"])).is_err_and(|reason| reason.contains("3-x")));
        assert_eq!(memory.accept("did:webvh:q:b.example", &ids(&["1-a"])), Ok(()), "another DID");
        assert_eq!(memory.accept(did, &ids(&["1-a", "2-b", "3-c", "4-d"])), Ok(()));
        assert!(memory.accept(did, &ids(&["1-a", "2-b", "3-c"])).is_err(), "it was the newest before");
        for invalid in ["{}{", r#"{"did:webvh:q:a.example":{"number":0,"id":"0-a"}}"#] {
            std::fs::write(&file, invalid).expect("written");
            assert!(VersionMemory::open(&file).is_err(), "{invalid}");
        }
    }

    #[test]
    fn a_version_that_was_not_stored_is_stored_with_the_next_log() {
        let home = tempfile::tempdir().expect("a directory");
        let file = home.path().join("later").join("dids");
        let memory = VersionMemory::open(&file).expect("a new file");
        let ids = ["1-a".to_owned(), "2-b".to_owned()];
        assert_eq!(memory.accept("did:webvh:q:a.example", &ids), Ok(()), "there is no directory yet");
        std::fs::create_dir(home.path().join("later")).expect("a directory");
        assert_eq!(memory.accept("did:webvh:q:a.example", &ids), Ok(()), "the same again");
        let memory = VersionMemory::open(&file).expect("the file");
        assert!(memory.accept("did:webvh:q:a.example", &ids[..1]).is_err());
    }
}
