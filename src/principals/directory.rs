//! The principals with static tokens: the one of MCP_BEARER_TOKEN, and those of the file of SVC_PRINCIPALS, which is watched.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use svc_kit::wall_clock;
use svc_net::listener::LogFold;
use svc_wire::secret::SecretString;
use tokio::{sync::watch, time::Instant};
use tokio_util::task::AbortOnDropHandle;

use super::{
    authenticator::{TokenVerdict, TokenVerifier},
    file::{self, FilePrincipal, PEERS_LINE, TokenDigest, token_digest},
    principal::Principal,
};
use crate::tools::ToolNames;

/// Time between looks at the file. Every file system has the state of a file, and not every one reports changes.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Longest file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The principals that can prove themselves now.
pub struct PrincipalDirectory {
    default: Option<(TokenDigest, Arc<Principal>)>,
    file: Option<PathBuf>,
    names: ToolNames,
    principals: ArcSwap<Vec<FilePrincipal>>,
    /// Number of changes so far.
    changes: watch::Sender<u64>,
    /// Failed readings, which are repeated every second.
    problems: Mutex<LogFold>,
}

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", .path.display(), .problems.join("; "))]
pub struct DirectoryError {
    path: PathBuf,
    problems: Vec<String>,
}

impl PrincipalDirectory {
    /// Reads the file. Fails with all of its problems.
    pub fn open(bearer: &SecretString, file: Option<PathBuf>, names: ToolNames) -> Result<Arc<Self>, DirectoryError> {
        let default = Some((token_digest(bearer.expose_secret()), Principal::default_one()));
        let principals = match &file {
            Some(path) => read(path, &names)?,
            None => Vec::new(),
        };
        let principals = ArcSwap::from_pointee(principals);
        Ok(Arc::new(Self {
            default,
            file,
            names,
            principals,
            changes: watch::channel(0).0,
            problems: Mutex::default(),
        }))
    }

    /// Watches the file until the handle is dropped. A file that becomes unusable changes nothing.
    pub fn spawn_watch(self: &Arc<Self>) -> AbortOnDropHandle<()> {
        let directory = Arc::downgrade(self);
        AbortOnDropHandle::new(tokio::spawn(watch_file(directory)))
    }

    /// Changes with every change of the principals.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Whether a principal still has the token and the rights that it had.
    pub fn is_current(&self, principal: &Principal) -> bool {
        let now = wall_clock::now().seconds;
        if principal.rights.is_peer {
            let generation = self.peers_row().map_or(0, |row| row.generation);
            return principal.generation == generation && !principal.rights.has_expired(now);
        }
        let is_same = |one: &FilePrincipal| {
            let current = &one.principal;
            current.name == principal.name
                && current.generation == principal.generation
                && !current.rights.has_expired(now)
        };
        principal.is_default() || self.principals.load().iter().any(is_same)
    }

    /// The line that narrows the rights of all peers.
    pub(super) fn peers_row(&self) -> Option<Arc<Principal>> {
        let principals = self.principals.load();
        principals.iter().find(|one| *one.principal.name == *PEERS_LINE).map(|one| Arc::clone(&one.principal))
    }

    /// The principal of the first scope that is one's; with it, all scopes that are.
    pub(super) fn find_by_scope(&self, scopes: &[&str]) -> Result<Arc<Principal>, String> {
        let principals = self.principals.load();
        let of_scope = |one: &&FilePrincipal| one.oauth_scope.as_deref().is_some_and(|scope| scopes.contains(&scope));
        let now = wall_clock::now().seconds;
        match principals.iter().filter(of_scope).find(|one| !one.principal.rights.has_expired(now)) {
            Some(one) => Ok(Arc::clone(&one.principal)),
            None => Err(self.scopes().join(" ")),
        }
    }

    /// The scopes that are a principal's.
    pub fn scopes(&self) -> Vec<String> {
        self.principals.load().iter().filter_map(|one| one.oauth_scope.clone()).collect()
    }

    fn find_by_token(&self, token: &SecretString) -> Option<Arc<Principal>> {
        let presented = token_digest(token.expose_secret());
        let principals = self.principals.load();
        let of_file = principals.iter().filter_map(|one| Some((one.token.as_ref()?, &one.principal)));
        let of_default = self.default.iter().map(|(digest, principal)| (digest, principal));
        // The time does not depend on the place of the token, nor on whether there is one.
        let (mut found, mut place, mut all) = (Choice::from(0), 0_u64, Vec::new());
        for (number, (digest, principal)) in of_default.chain(of_file).enumerate() {
            let is_equal = digest.ct_eq(&presented);
            place.conditional_assign(&(number as u64), is_equal);
            found |= is_equal;
            all.push(principal);
        }
        let position = usize::try_from(place).ok().filter(|_| bool::from(found))?;
        let principal = all.get(position)?;
        (!principal.rights.has_expired(wall_clock::now().seconds)).then(|| Arc::clone(principal))
    }

    /// Replaces the principals by those of the file. Returns whether the file could be used.
    fn reload(&self, path: &Path) -> bool {
        match read(path, &self.names) {
            Ok(principals) => {
                let former = self.principals.load_full();
                let generation = *self.changes.borrow() + 1;
                let principals: Vec<FilePrincipal> =
                    principals.into_iter().map(|one| one.after(&former, generation)).collect();
                if *former == principals {
                    return true;
                }
                tracing::info!(file = %path.display(), principals = principals.len(), "the principals have changed");
                self.principals.store(Arc::new(principals));
                self.changes.send_modify(|number| *number += 1);
                true
            }
            Err(error) => {
                if self.problems.lock().unwrap_or_else(PoisonError::into_inner).record(Instant::now()).is_some() {
                    tracing::error!(%error, "SVC_PRINCIPALS cannot be used; the principals stay as they were");
                }
                false
            }
        }
    }
}

#[async_trait]
impl TokenVerifier for PrincipalDirectory {
    async fn verify(&self, token: &SecretString) -> TokenVerdict {
        self.find_by_token(token).map_or(TokenVerdict::Unknown, TokenVerdict::Accepted)
    }
}

fn read(path: &Path, names: &ToolNames) -> Result<Vec<FilePrincipal>, DirectoryError> {
    let failed = |problems: Vec<String>| DirectoryError { path: path.to_owned(), problems };
    let metadata = std::fs::metadata(path).map_err(|error| failed(vec![error.to_string()]))?;
    if metadata.len() > MAX_FILE_BYTES {
        return Err(failed(vec![format!("the file is longer than {MAX_FILE_BYTES} bytes")]));
    }
    // A token of their own would give others every right.
    if metadata.mode() & 0o022 != 0 {
        return Err(failed(vec!["others than the owner may write the file; chmod go-w".to_owned()]));
    }
    let text = std::fs::read_to_string(path).map_err(|error| failed(vec![error.to_string()]))?;
    file::parse(&text, names).map_err(failed)
}

/// The state of a file that shows a change.
fn state_of(path: &Path) -> Option<[i128; 6]> {
    let metadata = std::fs::metadata(path).ok()?;
    let changed = i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec());
    Some([
        metadata.ino().into(),
        metadata.len().into(),
        metadata.mtime().into(),
        metadata.mtime_nsec().into(),
        metadata.mode().into(),
        changed,
    ])
}

async fn watch_file(directory: Weak<PrincipalDirectory>) {
    let Some(path) = directory.upgrade().and_then(|directory| directory.file.clone()) else { return };
    let (mut known, mut seen) = (None, None);
    let mut next_end = None;
    loop {
        let Some(directory) = directory.upgrade() else { return };
        let state = state_of(&path);
        // A file that is being written may be a valid one with more rights: it is read when it was the same in two looks.
        if state != known && state == seen && directory.reload(&path) {
            known = state;
        }
        seen = state;
        // A token that expires changes the principals too.
        let now = wall_clock::now().seconds;
        if next_end.is_some_and(|end| now >= end) {
            directory.changes.send_modify(|number| *number += 1);
        }
        let principals = directory.principals.load();
        next_end = principals.iter().filter_map(|one| one.principal.rights.expires_at).filter(|end| *end > now).min();
        drop(principals);
        drop(directory);
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn secret(text: &str) -> SecretString {
        SecretString::new(text.to_owned())
    }

    fn row(name: &str, token: &str, more: &str) -> String {
        format!("[[principal]]\nname = \"{name}\"\ntoken_sha256 = \"{}\"\n{more}\n", hex::encode(token_digest(token)))
    }

    #[tokio::test(start_paused = true)]
    async fn the_file_is_followed_and_a_bad_one_changes_nothing() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("principals.toml");
        let write = |text: &str| std::fs::write(&path, text).expect("written");
        write(&(row("a", "token a", "") + &row("over", "token over", "expires = \"2020-01-01T00:00:00Z\"")));
        let names = ToolNames::load().expect("the tables");
        let directory = PrincipalDirectory::open(&secret("default token"), Some(path.clone()), names).expect("usable");
        let _watch = directory.spawn_watch();
        let name_of = |token: &str| directory.find_by_token(&secret(token)).map(|found| found.name.to_string());
        assert_eq!(name_of("default token").as_deref(), Some("default"));
        assert_eq!(name_of("token a").as_deref(), Some("a"));
        assert_eq!((name_of("token over"), name_of("token b")), (None, None));
        let former = directory.find_by_token(&secret("token a")).expect("known");
        let mut changes = directory.changes();
        write("no principals");
        tokio::time::sleep(WATCH_INTERVAL * 4).await;
        assert!(name_of("token a").is_some() && !changes.has_changed().expect("open"));
        write(&row("b", "token b", ""));
        changes.changed().await.expect("open");
        assert_eq!((name_of("token a"), name_of("token b").as_deref()), (None, Some("b")));
        assert!(!directory.is_current(&former));
        let kept = directory.find_by_token(&secret("token b")).expect("known");
        write(&(row("b", "token b", "") + &row("c", "token c", "")));
        changes.changed().await.expect("open");
        assert!(directory.is_current(&kept), "a row that stays keeps its sessions");
        write(&(row("b", "token b", "read_only = true") + &row("c", "token c", "")));
        changes.changed().await.expect("open");
        assert!(!directory.is_current(&kept), "a changed one does not");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).expect("set");
        tokio::time::sleep(WATCH_INTERVAL * 4).await;
        assert!(name_of("token b").is_some(), "a file that others may write is not read");
    }
}
