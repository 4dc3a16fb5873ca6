//! A PostgreSQL server of its own for a test, also one on a small disk.

use std::{
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use rustix::process::{Pid, Signal, getuid, kill_process};
use tempfile::TempDir;

use crate::{ports::free_port, skip, small_disk::SmallDisk};

/// A PostgreSQL server with its own directory and port and without a password, which ends with this value.
pub struct PostgresServer {
    server: Child,
    port: u16,
    place: ServerPlace,
}

struct ServerPlace {
    programs: PathBuf,
    home: TempDir,
    disk: Option<Arc<SmallDisk>>,
}

/// The directory of the server's programs: Debian installs them by version, outside the path.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> = versions.flatten().map(|version| version.path().join("bin")).collect();
    found.retain(|path| path.join("initdb").exists());
    found.sort();
    found.pop()
}

/// Copies a folder with its owner and rights.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
    assert!(copied.success(), "{} was not copied", from.display());
}

impl ServerPlace {
    /// The command of a program. PostgreSQL refuses to run as root, so root runs it as the user of its package.
    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        if let Some(disk) = &self.disk {
            return disk.command(&program.display().to_string());
        }
        if !getuid().is_root() {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(program);
        command
    }

    fn new(programs: PathBuf, disk: Option<Arc<SmallDisk>>) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o777)).expect("open to its user");
        Self { programs, home, disk }
    }

    /// Makes a cluster, which takes seconds of a core.
    fn init(&self) {
        let made = self
            .command("initdb")
            .args(["--auth=trust", "--username=svc", "--encoding=UTF8", "--no-sync", "--wal-segsize=1", "-D"])
            .arg(self.data())
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    /// A cluster that no server has used, beside the test programs. It is made once for each major version; it appears whole, since
    /// other programs may make it at the same time or be killed meanwhile.
    fn template(&self) -> PathBuf {
        let major = self.programs.parent().and_then(Path::file_name).expect("a version").to_string_lossy();
        let program = std::env::current_exe().expect("this program");
        let folder = program.parent().expect("its folder");
        let template = folder.join(format!("postgres-{major}"));
        if !template.exists() {
            let made = Self::new(self.programs.clone(), None);
            made.init();
            let aside = tempfile::tempdir_in(folder).expect("a directory");
            copy(&made.data(), &aside.path().join("data"));
            let renamed = std::fs::rename(aside.path().join("data"), &template);
            assert!(renamed.is_ok() || template.exists(), "{renamed:?}");
        }
        template
    }

    fn data(&self) -> PathBuf {
        match &self.disk {
            Some(disk) => Path::new(&disk.path("data")).to_owned(),
            None => self.home.path().join("data"),
        }
    }

    /// Starts the server. An error has its log.
    fn spawn(&self, port: u16) -> Result<Child, String> {
        let mut server = self
            .command("postgres")
            .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="])
            .args(["-c", "min_wal_size=2MB", "-c", "max_wal_size=4MB"])
            .arg("-D")
            .arg(self.data())
            .stderr(Stdio::piped())
            .spawn()
            .expect("postgres runs");
        let mut lines = BufReader::new(server.stderr.take().expect("its log")).lines();
        let mut log = String::new();
        while !log.contains("ready to accept connections") {
            let Some(Ok(line)) = lines.next() else {
                let _ = server.wait();
                return Err(log);
            };
            log += &line;
            log.push('\n');
        }
        // The server blocks unless its log is read to the end.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Ok(server)
    }
}

impl PostgresServer {
    /// Starts a server, on a disk of its own if one is given. `None` on a machine without PostgreSQL.
    ///
    /// # Panics
    /// When the server does not start, and on a continuous-integration machine without PostgreSQL.
    pub fn start(disk: Option<Arc<SmallDisk>>) -> Option<Self> {
        let Some(programs) = programs() else {
            assert!(std::env::var_os("CI").is_none(), "continuous integration installs PostgreSQL");
            skip("no PostgreSQL");
            return None;
        };
        let place = ServerPlace::new(programs, disk);
        if place.disk.is_some() {
            place.init();
        } else {
            copy(&place.template(), &place.data());
        }
        let port = free_port();
        let server = place.spawn(port).expect("postgres starts");
        Some(Self { server, port, place })
    }

    /// Ends this server, and starts another one with an empty database at the same port. Its system identifier is another one too.
    ///
    /// # Panics
    /// When the other one does not start.
    pub fn replace(self) -> Self {
        let (port, programs) = (self.port, self.place.programs.clone());
        drop(self);
        let place = ServerPlace::new(programs, None);
        place.init();
        Self { server: place.spawn(port).expect("postgres starts"), port, place }
    }

    /// Its database.
    pub fn url(&self) -> String {
        format!("postgres://svc@127.0.0.1:{}/postgres", self.port)
    }

    /// Starts the server again if it has ended by itself, as it does on a full disk.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_if_ended(&mut self) {
        if self.server.try_wait().expect("its state").is_some() {
            self.server = self.place.spawn(self.port).expect("postgres starts");
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // SIGINT is PostgreSQL's fast shutdown, which ends its child processes.
        let _ = kill_process(Pid::from_child(&self.server), Signal::INT);
        let _ = self.server.wait();
    }
}
