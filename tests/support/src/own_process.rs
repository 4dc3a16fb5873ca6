//! A process for one test: the global subscriber of `tracing`, for example, exists once in a process.

use std::process::Command;

const NAME_VARIABLE: &str = "SVC_TEST_OWN_PROCESS";
const BEGUN_VARIABLE: &str = "SVC_TEST_BEGUN";

/// Runs a test in a process where no other test runs. `test_name` is its full name.
///
/// # Panics
/// When the test fails, or does not exist.
pub fn run(test_name: &str, test: impl FnOnce()) {
    if is_own(test_name) {
        return test();
    }
    let program = Command::new(std::env::current_exe().expect("this program"));
    if let Err(problem) = run_with(program, test_name) {
        panic!("{problem}");
    }
}

/// Returns whether this process was started for the test.
pub(crate) fn is_own(test_name: &str) -> bool {
    let is_own = std::env::var(NAME_VARIABLE).is_ok_and(|name| name == test_name);
    if is_own {
        let begun = std::env::var_os(BEGUN_VARIABLE).expect("a path");
        std::fs::write(begun, "").expect("the test has begun");
    }
    is_own
}

/// Runs a test by a command that executes this program with further arguments. An error says why the test did not begin.
///
/// # Panics
/// When the test fails, or does not exist.
pub(crate) fn run_with(mut launcher: Command, test_name: &str) -> Result<(), String> {
    let directory = tempfile::tempdir().expect("a directory");
    let begun = directory.path().join("begun");
    let ended = launcher
        .args([test_name, "--exact", "--nocapture", "--include-ignored"])
        .env(NAME_VARIABLE, test_name)
        .env(BEGUN_VARIABLE, &begun)
        .status();
    match ended {
        Ok(status) if begun.exists() => assert!(status.success(), "{test_name} failed in its own process: {status}"),
        Ok(status) if status.success() => panic!("this program has no test {test_name}"),
        Ok(status) => return Err(format!("{test_name} did not begin: {status}")),
        Err(error) => return Err(format!("{test_name} did not begin: {error}")),
    }
    Ok(())
}
