//! The lines of a file, each within a bound.

use std::io::{BufRead, BufReader, Read};

use super::error::ImportError;

/// Longest line, in bytes. The longest row is an event: it comes in a message of at most 16 MiB, and is JSON, so that the escapes of a
/// line double it at most.
pub(super) const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;

/// Reads a file line by line.
pub(super) struct LineReader<R> {
    source: BufReader<R>,
    line: Vec<u8>,
    number: u64,
}

impl<R: Read> LineReader<R> {
    /// Begins at the first line.
    pub fn new(source: R) -> Self {
        Self { source: BufReader::new(source), line: Vec::new(), number: 0 }
    }

    /// Number of the line that was read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The line that was read last, with its end.
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// Reads the next line, with its end; `None` behind the last one.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, ImportError> {
        self.line.clear();
        let limit = MAX_LINE_BYTES as u64;
        let read = (&mut self.source).take(limit).read_until(b'\n', &mut self.line).map_err(ImportError::File)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        match self.line.last() {
            Some(b'\n') => Ok(Some(&self.line)),
            _ if read == MAX_LINE_BYTES => Err(ImportError::LongLine { line: self.number, limit: MAX_LINE_BYTES }),
            _ => Err(ImportError::Incomplete { line: self.number }),
        }
    }

    /// Reads a line that must be there.
    pub fn require_line(&mut self) -> Result<&[u8], ImportError> {
        let line = self.number;
        self.next_line()?.ok_or(ImportError::Incomplete { line })
    }
}
