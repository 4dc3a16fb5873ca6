//! A PostgreSQL server of its own for a test, also one on a small disk.
// Only tests use it, and these may panic.
#![allow(clippy::expect_used)]

use std::{
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use rustix::process::{Pid, Signal, getuid, kill_process};
use tempfile::TempDir;

use crate::small_disk::SmallDisk;

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

    fn data(&self) -> PathBuf {
        match &self.disk {
            Some(disk) => Path::new(&disk.path("data")).to_owned(),
            None => self.home.path().join("data"),
        }
    }

    fn spawn(&self, port: u16) -> Child {
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
        let is_ready = |line: &String| line.contains("ready to accept connections");
        assert!(lines.by_ref().map_while(Result::ok).any(|line| is_ready(&line)), "it ended before it was ready");
        // The server blocks unless its log is read to the end.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        server
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
            return None;
        };
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
        Some(Self::start_at(port, programs, disk))
    }

    fn start_at(port: u16, programs: PathBuf, disk: Option<Arc<SmallDisk>>) -> Self {
        let place = ServerPlace { programs, home: tempfile::tempdir().expect("a directory"), disk };
        std::fs::set_permissions(place.home.path(), std::fs::Permissions::from_mode(0o777)).expect("open to its user");
        let made = place
            .command("initdb")
            .args(["--auth=trust", "--username=svc", "--encoding=UTF8", "--no-sync", "--wal-segsize=1", "-D"])
            .arg(place.data())
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self { server: place.spawn(port), port, place }
    }

    /// Ends this server, and starts another one with an empty database at the same port.
    ///
    /// # Panics
    /// When the other one does not start.
    pub fn replace(self) -> Self {
        let (port, programs) = (self.port, self.place.programs.clone());
        drop(self);
        Self::start_at(port, programs, None)
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
            self.server = self.place.spawn(self.port);
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
