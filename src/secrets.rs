//! Taking the secrets out of the environment.
//!
//! The kernel shows a process's initial environment block for as long as the process lives, and removing a variable does not
//! wipe it. So the process starts itself anew, under the same pid, without the secrets in its environment; they pass through a
//! pipe that is read once. Afterwards the process is not dumpable: no core file, no reading of its memory by other processes of
//! the same user.

use std::{
    collections::BTreeMap,
    env,
    fs::File,
    io::{self, Read, Write},
    os::{fd::AsRawFd, unix::process::CommandExt},
    process::Command,
};

use svc_wire::secret::{Secret, wipe};

/// Variables that are secrets; the URL of a database may hold a password.
pub const SECRET_VARIABLES: [&str; 3] = ["MCP_SVC_MNEMONIC", "MCP_BEARER_TOKEN", "SVC_INDEXER_DB"];

/// Names the pipe's descriptor to the process started anew.
const PIPE_VARIABLE: &str = "SVC_SECRETS_FD";

/// Secrets of the process, each to be taken once.
#[derive(Default)]
pub struct Secrets(BTreeMap<String, Secret>);

impl Secrets {
    /// From pairs, for tests.
    pub fn from_pairs<const N: usize>(pairs: [(&str, &str); N]) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.to_owned(), Secret::new(value.to_owned()))).collect())
    }

    /// Takes a secret out.
    pub fn take(&mut self, name: &str) -> Option<Secret> {
        self.0.remove(name)
    }
}

/// Moves the secrets out of the environment. Either yields them, or does not return: the process starts itself anew.
///
/// Must run before any thread is started.
pub fn extract() -> io::Result<Secrets> {
    if let Ok(descriptor) = env::var(PIPE_VARIABLE) {
        let secrets = read_pipe(&descriptor)?;
        forbid_dumps();
        return Ok(secrets);
    }
    let found: Vec<(&str, String)> =
        SECRET_VARIABLES.iter().filter_map(|name| env::var(name).ok().map(|value| (*name, value))).collect();
    if found.is_empty() {
        forbid_dumps();
        return Ok(Secrets::default());
    }
    Err(start_anew(found))
}

/// Returns only on failure.
fn start_anew(secrets: Vec<(&str, String)>) -> io::Error {
    let (reader, writer) = match rustix::pipe::pipe() {
        Ok(ends) => ends,
        Err(error) => return error.into(),
    };
    let mut text = String::new();
    for (name, value) in secrets {
        // A pipe holds 64 KiB; secrets are far shorter. One line each: a newline in a value is no part of any secret.
        text.push_str(&format!("{name}={}\n", value.replace('\n', " ")));
        wipe(value);
    }
    let written = File::from(writer).write_all(text.as_bytes());
    wipe(text);
    if let Err(error) = written {
        return error;
    }
    // The descriptor is not close-on-exec, so the next image inherits it.
    let descriptor = reader.as_raw_fd().to_string();
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let mut command = Command::new(program);
    command.args(env::args_os().skip(1)).env(PIPE_VARIABLE, descriptor);
    for name in SECRET_VARIABLES {
        command.env_remove(name);
    }
    command.exec()
}

fn read_pipe(descriptor: &str) -> io::Result<Secrets> {
    if descriptor.is_empty() || !descriptor.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(io::Error::other(format!("{PIPE_VARIABLE} is set by svc itself and must not be set from outside")));
    }
    // As large as a pipe can be full, so that no growing leaves a copy behind.
    let mut text = String::with_capacity(64 * 1024);
    // Opening the inherited descriptor by its path makes a second one that can be owned; the writer is gone, so reading ends.
    File::open(format!("/dev/fd/{descriptor}"))?.read_to_string(&mut text)?;
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let secrets = pairs.map(|(name, value)| (name.to_owned(), Secret::new(value.to_owned()))).collect();
    wipe(text);
    Ok(Secrets(secrets))
}

#[cfg(target_os = "linux")]
fn forbid_dumps() {
    use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
    // Failing is possible only under a seccomp filter that forbids the call, which forbids dumps elsewhere as well.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
}

#[cfg(not(target_os = "linux"))]
fn forbid_dumps() {}
