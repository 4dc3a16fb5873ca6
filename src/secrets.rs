//! Removal of the secrets from the environment.
//!
//! The kernel shows the initial environment block of a process for as long as the process lives, and removing a variable does
//! not wipe the block. So the process re-executes itself, under the same pid, without the secrets in its environment; a pipe that
//! is read once passes them on. Afterwards the process is not dumpable: it leaves no core file, and other processes of the same
//! user cannot read its memory.

use std::{
    collections::BTreeMap,
    env,
    fs::File,
    io::{self, Read, Write},
    os::{fd::AsRawFd, unix::process::CommandExt},
    process::Command,
};

use svc_wire::secret::{SecretString, wipe_secret};

use crate::settings::{self, Setting};

/// Names the pipe's descriptor to the re-executed process.
const PIPE_VARIABLE: &str = "SVC_SECRETS_FD";

/// The secrets of the process. Each can be taken once.
#[derive(Default)]
pub struct ProcessSecrets(BTreeMap<String, SecretString>);

impl ProcessSecrets {
    /// Secrets from pairs of a variable and its value, for tests.
    pub fn from_pairs<const N: usize>(pairs: [(&str, &str); N]) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.to_owned(), SecretString::new(value.to_owned()))).collect())
    }

    /// Takes the value of a secret setting; `None` when it was not set or was taken before.
    pub fn take(&mut self, setting: &Setting) -> Option<SecretString> {
        self.0.remove(setting.name)
    }
}

/// Moves the secrets out of the environment. Re-executes the process when its environment holds a secret, and returns the secrets
/// in the re-executed process. Fails when the pipe or the re-execution fails.
///
/// The call must precede the first thread of the process.
pub fn extract_secrets() -> io::Result<ProcessSecrets> {
    if let Ok(descriptor) = env::var(PIPE_VARIABLE) {
        let secrets = read_pipe(&descriptor)?;
        forbid_dumps();
        return Ok(secrets);
    }
    let found: Vec<(&str, String)> =
        settings::secrets().filter_map(|row| env::var(row.name).ok().map(|value| (row.name, value))).collect();
    if found.is_empty() {
        forbid_dumps();
        return Ok(ProcessSecrets::default());
    }
    Err(reexecute_without_secrets(found))
}

/// Replaces the process; returns only on failure.
fn reexecute_without_secrets(secrets: Vec<(&str, String)>) -> io::Error {
    let (reader, writer) = match rustix::pipe::pipe() {
        Ok(ends) => ends,
        Err(error) => return error.into(),
    };
    let mut text = String::new();
    for (name, value) in secrets {
        // A pipe holds 64 KiB and secrets are far shorter. Each takes one line: no secret contains a newline.
        text.push_str(&format!("{name}={}\n", value.replace('\n', " ")));
        wipe_secret(value);
    }
    let written = File::from(writer).write_all(text.as_bytes());
    wipe_secret(text);
    if let Err(error) = written {
        return error;
    }
    // The descriptor is not close-on-exec, so the re-executed process inherits it.
    let descriptor = reader.as_raw_fd().to_string();
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let mut command = Command::new(program);
    command.args(env::args_os().skip(1)).env(PIPE_VARIABLE, descriptor);
    for setting in settings::secrets() {
        command.env_remove(setting.name);
    }
    command.exec()
}

fn read_pipe(descriptor: &str) -> io::Result<ProcessSecrets> {
    if descriptor.is_empty() || !descriptor.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(io::Error::other(format!("{PIPE_VARIABLE} is set by svc itself and must not be set from outside")));
    }
    // The capacity is that of a pipe: a growing string would leave a copy of the secrets in freed memory.
    let mut text = String::with_capacity(64 * 1024);
    // Opening the inherited descriptor by its path gives a second one that can be owned. The writer is closed, so the read ends.
    File::open(format!("/dev/fd/{descriptor}"))?.read_to_string(&mut text)?;
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let secrets = pairs.map(|(name, value)| (name.to_owned(), SecretString::new(value.to_owned()))).collect();
    wipe_secret(text);
    Ok(ProcessSecrets(secrets))
}

#[cfg(target_os = "linux")]
fn forbid_dumps() {
    use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
    // The calls fail only under a seccomp filter that forbids them; such a sandbox forbids dumps as well.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
}

#[cfg(not(target_os = "linux"))]
fn forbid_dumps() {}
