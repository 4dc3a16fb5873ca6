//! The processes that are killed and started again, each on a port of its own.

use std::{
    fs::OpenOptions,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{ExitStatus, Output, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use svc_test_support::small_disk::SmallDisk;
use tokio::{
    process::{Child, Command},
    time::{sleep, timeout},
};

const PROGRAM: &str = "svc";
/// A server drains for 25 seconds and a few more.
const STOP_TIMEOUT: Duration = Duration::from_secs(45);
/// How soon a server that has ended by itself is started again, as an init system would.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A free port below the range of outgoing connections: one of those could connect to itself while the server is down.
pub fn free_port(rng: &mut fastrand::Rng) -> u16 {
    let ports = std::iter::repeat_with(|| rng.u16(15_000..30_000));
    let mut free = ports.take(100).filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.next().expect("a free port")
}

/// Copies the program, so that a restarted server is the same build even if the program is compiled in the meantime.
pub fn copy_program(home: &Path) {
    std::fs::copy(env!("CARGO_BIN_EXE_svc"), home.join(PROGRAM)).expect("room for a copy of svc");
}

pub fn remove_program(home: &Path) {
    // The logs and databases stay, for people to read.
    let _ = std::fs::remove_file(home.join(PROGRAM));
}

/// A server as a process.
pub struct ServerProcess {
    program: PathBuf,
    /// File system of its records; `None` where the machine has no user namespaces.
    disk: Option<Arc<SmallDisk>>,
    command: &'static str,
    port: u16,
    environment: Vec<(&'static str, String)>,
    log: PathBuf,
    child: tokio::sync::Mutex<Option<Child>>,
    notes: Mutex<Vec<String>>,
    http: reqwest::Client,
}

impl ServerProcess {
    pub fn new(
        word: &'static str,
        port: u16,
        environment: Vec<(&'static str, String)>,
        home: &Path,
        disk: Option<Arc<SmallDisk>>,
    ) -> Arc<Self> {
        let (program, log) = (home.join(PROGRAM), home.join(format!("{word}.log")));
        let http = reqwest::Client::builder().timeout(Duration::from_secs(2)).build().expect("a client");
        let (child, notes) = (tokio::sync::Mutex::default(), Mutex::default());
        Arc::new(Self { program, disk, command: word, port, environment, log, child, notes, http })
    }

    pub fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The server's answer at a path; null without an answer.
    pub async fn get_json(&self, path: &str) -> Value {
        match self.http.get(format!("{}{path}", self.origin())).send().await {
            Ok(answer) => answer.json().await.unwrap_or_default(),
            Err(_) => Value::Null,
        }
    }

    /// The status of its answer at a path; `None` without an answer.
    pub async fn status(&self, path: &str) -> Option<u16> {
        Some(self.http.get(format!("{}{path}", self.origin())).send().await.ok()?.status().as_u16())
    }

    /// A command of the program with the settings of this server.
    pub fn command_with_settings(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.program_command();
        command.args(arguments).env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The command of the program, which sees the disk.
    pub fn program_command(&self) -> std::process::Command {
        match &self.disk {
            Some(disk) => disk.command(&self.program.display().to_string()),
            None => std::process::Command::new(&self.program),
        }
    }

    /// The disk of its records.
    pub fn disk(&self) -> Option<&Arc<SmallDisk>> {
        self.disk.as_ref()
    }

    fn spawn(&self) -> Child {
        let log = OpenOptions::new().append(true).create(true).open(&self.log).expect("a log");
        let mut command = Command::from(self.program_command());
        command.arg(self.command).env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        command.spawn().expect("svc starts")
    }

    pub async fn start(&self) {
        *self.child.lock().await = Some(self.spawn());
    }

    /// Ends it by a signal, leaves it down for a while, and starts it again. False when that is under way already.
    pub async fn restart(&self, signal: Signal, down: Duration) -> bool {
        let Ok(mut child) = self.child.try_lock() else { return false };
        if let Some(running) = child.take() {
            self.signal_and_wait(running, signal).await;
        }
        sleep(down).await;
        *child = Some(self.spawn());
        true
    }

    /// Ends it by a signal, runs a command that needs it down, and starts it again.
    pub async fn run_while_down(&self, signal: Signal, mut command: std::process::Command) -> Output {
        let mut child = self.child.lock().await;
        if let Some(running) = child.take() {
            self.signal_and_wait(running, signal).await;
        }
        let ended = command.output().expect("svc runs");
        *child = Some(self.spawn());
        ended
    }

    /// Ends it in order and for good.
    pub async fn stop(&self) -> Option<String> {
        let running = self.child.lock().await.take()?;
        let status = self.signal_and_wait(running, Signal::TERM).await;
        status.filter(|status| !status.success()).map(|status| format!("the last end of {}: {status}", self.command))
    }

    async fn signal_and_wait(&self, mut child: Child, signal: Signal) -> Option<ExitStatus> {
        if let Some(pid) = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            let _ = kill_process(pid, signal);
        }
        match timeout(STOP_TIMEOUT, child.wait()).await {
            Ok(status) => {
                let status = status.ok()?;
                if signal == Signal::TERM && !status.success() {
                    self.note(format!("{} ended with {status} after SIGTERM", self.command));
                }
                Some(status)
            }
            Err(_) => {
                self.note(format!("{} has not ended {STOP_TIMEOUT:?} after a signal", self.command));
                let _ = child.kill().await;
                None
            }
        }
    }

    /// Starts it again whenever it has ended by itself.
    pub async fn restart_when_ended(self: Arc<Self>) {
        loop {
            sleep(POLL_INTERVAL).await;
            let Ok(mut child) = self.child.try_lock() else { continue };
            if let Some(running) = child.as_mut()
                && let Ok(Some(status)) = running.try_wait()
            {
                self.note(format!("{} ended by itself with {status}", self.command));
                *child = Some(self.spawn());
            }
        }
    }

    /// Lines of its log that contain a text.
    pub fn count_in_log(&self, text: &str) -> usize {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|line| line.contains(text)).count()
    }

    fn note(&self, text: String) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    /// Ends of the process that the fault injector did not cause.
    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
