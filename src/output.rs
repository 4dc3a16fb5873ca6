//! What people read on standard output. Logs go to standard error.

use std::io::{self, Write};

/// Prints a line; a reader that has gone away is not an error.
pub fn line(text: impl AsRef<str>) {
    let _ = writeln!(io::stdout().lock(), "{}", text.as_ref());
}
