//! The Unix socket of the admin API.

use std::{
    io::ErrorKind,
    os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt},
    path::Path,
};

/// The paths that a socket can have, for messages.
pub const SOCKET_PATH: &str = "a path that the system takes for a socket (at most 107 bytes on Linux, 103 on macOS)";

/// Returns whether the system takes a path of this length for a socket.
pub fn is_short_enough(path: &Path) -> bool {
    std::os::unix::net::SocketAddr::from_pathname(path).is_ok()
}

/// Makes a Unix socket that only the user of the process can open. It does not replace another kind of file, or the socket of a running
/// process. A path that the system does not take for a socket is an error that says its length.
pub fn bind_socket(path: &Path) -> std::io::Result<tokio::net::UnixListener> {
    if !is_short_enough(path) {
        let length = path.as_os_str().len();
        return Err(std::io::Error::new(ErrorKind::InvalidInput, format!("{length} bytes; allowed: {SOCKET_PATH}")));
    }
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(std::io::Error::new(ErrorKind::AlreadyExists, "a file that is no socket is there"));
        }
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
            return Err(std::io::Error::new(ErrorKind::AddrInUse, "another process serves it"));
        }
        Ok(_) => std::fs::remove_file(path)?,
    }
    // The socket is made in a directory of its own, so that it is never open to others. The system bounds the length of a socket's path: this
    // one is no longer than that of a file with eight characters.
    let directory = path.with_file_name(format!(".{:05x}", uuid::Uuid::new_v4().as_u128() >> 108));
    std::fs::DirBuilder::new().mode(0o700).create(&directory)?;
    let hidden = directory.join("s");
    let made = tokio::net::UnixListener::bind(&hidden).and_then(|listener| {
        std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(&hidden, path)?;
        Ok(listener)
    });
    std::fs::remove_dir(&directory)?;
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path in the directory that is as long as it may be, and one that is longer by a byte.
    fn longest(directory: &Path, name: &str) -> (std::path::PathBuf, std::path::PathBuf) {
        let of_length = |length: usize| directory.join("d".repeat(length)).join(name);
        let length = (1..200).take_while(|length| is_short_enough(&of_length(*length))).last().expect("a short one");
        (of_length(length), of_length(length + 1))
    }

    #[tokio::test]
    async fn a_socket_can_have_every_path_that_the_system_takes() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, too_long) = longest(directory.path(), "agent.sock");
        for made in [&path, &too_long] {
            std::fs::create_dir(made.parent().expect("a parent")).expect("made");
        }
        let _socket = bind_socket(&path).expect("a socket");
        assert!(tokio::net::UnixStream::connect(&path).await.is_ok());
        assert_eq!(std::fs::read_dir(path.parent().expect("a parent")).expect("read").count(), 1, "nothing else stays");
        let refused = bind_socket(&too_long).expect_err("too long").to_string();
        let length = too_long.as_os_str().len();
        assert_eq!(refused, format!("{length} bytes; allowed: {SOCKET_PATH}"));
        assert_eq!(std::fs::read_dir(too_long.parent().expect("a parent")).expect("read").count(), 0);
    }
}
