//! Counts the calls of this process that wait for a disk.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::NamedTempFile;

/// A running count.
pub struct SyncCounter {
    tracer: Child,
    calls: NamedTempFile,
}

impl SyncCounter {
    /// Begins to count; `None` on a machine where strace cannot attach to this process.
    pub fn start() -> Option<Self> {
        let calls = NamedTempFile::new().expect("a file");
        let mut tracer = Command::new("strace")
            .args(["-f", "-e", "trace=fsync,fdatasync", "-p", &std::process::id().to_string(), "-o"])
            .arg(calls.path())
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        let mut line = String::new();
        let mut told = BufReader::new(tracer.stderr.take()?);
        told.read_line(&mut line).ok()?;
        if line.contains("attached") {
            // strace says so of every later thread too.
            std::thread::spawn(move || told.lines().map_while(Result::ok).for_each(drop));
            return Some(Self { tracer, calls });
        }
        eprintln!("syncs are not counted: {line}");
        let _ = tracer.kill();
        let _ = tracer.wait();
        None
    }

    /// Ends the count.
    pub fn stop(mut self) -> usize {
        let _ = kill_process(Pid::from_child(&self.tracer), Signal::INT);
        let _ = self.tracer.wait();
        let calls = std::fs::read_to_string(self.calls.path()).unwrap_or_default();
        // A call that another thread interrupts has a second line.
        calls.lines().filter(|line| line.contains("sync(")).count()
    }
}
