//! Ports for programs that bind them later, or again after a restart.

use std::{
    fs::File,
    net::TcpListener,
    sync::{Mutex, PoisonError},
};

use rustix::fs::{FlockOperation, flock};

/// The system assigns none of these ports to a connection, or to a program that asks for any port.
const PORTS: std::ops::Range<u16> = 12_000..32_000;
/// Ports of this program. Their locks end with it.
static TAKEN: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Returns a port that is free, and that no other test gets while this program runs, also not one of another program.
///
/// # Panics
/// When the folder for temporary files cannot be written.
pub fn free_port() -> u16 {
    let folder = std::env::temp_dir().join("svc-test-ports");
    std::fs::create_dir_all(&folder).expect("a directory");
    loop {
        let port = fastrand::u16(PORTS);
        let Ok(claim) = File::create(folder.join(port.to_string())) else { continue };
        if flock(&claim, FlockOperation::NonBlockingLockExclusive).is_ok()
            && TcpListener::bind(("127.0.0.1", port)).is_ok()
        {
            TAKEN.lock().unwrap_or_else(PoisonError::into_inner).push(claim);
            return port;
        }
    }
}

/// Returns an address of this machine with a port of [`free_port`].
pub fn free_address() -> std::net::SocketAddr {
    ([127, 0, 0, 1], free_port()).into()
}
