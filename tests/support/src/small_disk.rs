//! A small file system of its own for a test: a tmpfs in a user namespace.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::{own_process, skip};

const NO_NAMESPACE: &str = "no user namespace with a file system of its own";
const DIRECTORY_VARIABLE: &str = "SVC_TEST_SMALL_DISK";
/// The size of a small disk.
pub const SIZE: &str = "size=2m";

/// Runs a test with a directory on a file system of 2 MiB. The test runs in a process of its own: `test_name` is its full name.
/// On a machine without user namespaces nothing runs.
///
/// # Panics
/// When the test fails, or does not exist.
pub fn run(test_name: &str, test: impl FnOnce(&Path)) {
    if own_process::is_own(test_name) {
        let directory = std::env::var_os(DIRECTORY_VARIABLE).expect("a directory");
        return test(Path::new(&directory));
    }
    let directory = tempfile::tempdir().expect("a directory");
    let script = "mount -t tmpfs -o \"$1\" tmpfs \"$2\" || exit 1; shift 2; exec \"$@\"";
    let mut launcher = Command::new("unshare");
    launcher
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", SIZE])
        .arg(directory.path())
        .arg(std::env::current_exe().expect("this program"))
        .env(DIRECTORY_VARIABLE, directory.path());
    if let Err(problem) = own_process::run_with(launcher, test_name) {
        skip(&format!("{problem}: {NO_NAMESPACE}"));
    }
}

/// Fills the file system and yields the file that does so.
///
/// # Panics
/// When the file cannot be created.
pub fn fill(directory: &Path) -> PathBuf {
    let path = directory.join("filler");
    let mut file = std::fs::File::create(&path).expect("a file");
    let mut size = 1 << 16;
    while size > 0 {
        if file.write_all(&vec![0; size]).is_err() {
            size /= 2;
        }
    }
    path
}

/// A small file system that outlives the programs that use it. It ends with this value.
pub struct SmallDisk {
    holder: Child,
    directory: tempfile::TempDir,
}

impl SmallDisk {
    /// Mounts a file system; `size` is an option of tmpfs, such as `size=2m`. `None` on a machine without user namespaces.
    ///
    /// # Panics
    /// When no temporary directory can be made.
    pub fn mount(size: &str) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        let script = "mount -t tmpfs -o \"$1\" tmpfs \"$2\" && echo mounted && exec sleep 3600";
        // Some programs refuse to run as root, such as PostgreSQL.
        let mut holder = Command::new("unshare")
            .args(["--user", "--map-user=daemon", "--map-group=daemon", "--keep-caps", "--mount"])
            .args(["sh", "-c", script, "sh", size])
            .arg(directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut line = String::new();
        BufReader::new(holder.stdout.take()?).read_line(&mut line).ok()?;
        if line.trim() == "mounted" {
            return Some(Self { holder, directory });
        }
        skip(NO_NAMESPACE);
        holder.wait().ok()?;
        None
    }

    /// Its directory, for a program that [`SmallDisk::command`] starts.
    pub fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Its directory for this process. SQLite does not find its way through it.
    pub fn outside(&self) -> PathBuf {
        let directory = self.directory.path();
        Path::new(&format!("/proc/{}/root", self.holder.id())).join(directory.strip_prefix("/").unwrap_or(directory))
    }

    /// The command that starts a program which sees the file system.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args([
            "--user",
            "--mount",
            "--preserve-credentials",
            "--target",
            &self.holder.id().to_string(),
            program,
        ]);
        command
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
