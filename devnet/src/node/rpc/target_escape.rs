//! Escapes in the target of a request: servers in Go take characters there that a URI may not have, such as quotes, and clients of a node
//! send them.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that are read at once.
const READ_BYTES: usize = 8 * 1024;

/// The part of a request that comes next.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// A head, of which these bytes have come.
    Head(Vec<u8>),
    /// A body of this many bytes.
    Body(u64),
    /// Everything else is passed on: chunks, another protocol, or a head that is too long.
    Rest,
}

/// Rewrites the first lines of the requests of one connection. Pure.
#[derive(Debug)]
struct TargetEscapes {
    next: Part,
    max_head: usize,
}

impl TargetEscapes {
    fn new(max_head: usize) -> Self {
        Self { next: Part::Head(Vec::new()), max_head }
    }

    /// Takes bytes of the client; appends those for the server.
    fn take(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            match &mut self.next {
                Part::Rest => {
                    out.extend_from_slice(bytes);
                    return;
                }
                Part::Body(left) => {
                    let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    out.extend_from_slice(&bytes[..taken]);
                    bytes = &bytes[taken..];
                    *left -= taken as u64;
                    if *left == 0 {
                        self.next = Part::Head(Vec::new());
                    }
                }
                Part::Head(head) => {
                    head.push(bytes[0]);
                    bytes = &bytes[1..];
                    if head.ends_with(b"\r\n\r\n") {
                        let next = following(head);
                        escape_target(head, out);
                        self.next = next;
                    } else if head.len() >= self.max_head {
                        out.append(head);
                        self.next = Part::Rest;
                    }
                }
            }
        }
    }
}

/// The part behind a head.
fn following(head: &[u8]) -> Part {
    let text = String::from_utf8_lossy(head).to_ascii_lowercase();
    let header = |name: &str| {
        let of_line = |line: &str| {
            line.split_once(':').filter(|(found, _)| *found == name).map(|(_, value)| value.trim().to_owned())
        };
        text.lines().find_map(of_line)
    };
    if header("upgrade").is_some() || header("transfer-encoding").is_some() {
        return Part::Rest;
    }
    match header("content-length").map(|length| length.parse()) {
        None | Some(Ok(0)) => Part::Head(Vec::new()),
        Some(Ok(length)) => Part::Body(length),
        Some(Err(_)) => Part::Rest,
    }
}

/// Appends a head whose target has no characters that a URI may not have.
fn escape_target(head: &[u8], out: &mut Vec<u8>) {
    let line = head.iter().position(|byte| *byte == b'\r').unwrap_or(head.len());
    let first = head[..line].iter().position(|byte| *byte == b' ').map_or(line, |space| space + 1);
    let last = head[..line].iter().rposition(|byte| *byte == b' ').unwrap_or(line).max(first);
    out.extend_from_slice(&head[..first]);
    for byte in &head[first..last] {
        match byte {
            b' ' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | 0x80.. => {
                out.extend_from_slice(format!("%{byte:02X}").as_bytes());
            }
            other => out.push(*other),
        }
    }
    out.extend_from_slice(&head[last..]);
}

/// A stream of a client whose targets are escaped.
#[derive(Debug)]
pub(super) struct EscapedStream<S> {
    inner: S,
    escapes: TargetEscapes,
    /// Bytes for the server, and the number of those that it has.
    ready: Vec<u8>,
    taken: usize,
}

impl<S> EscapedStream<S> {
    pub fn new(inner: S, max_head: usize) -> Self {
        Self { inner, escapes: TargetEscapes::new(max_head), ready: Vec::new(), taken: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for EscapedStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.taken < this.ready.len() {
                let count = buffer.remaining().min(this.ready.len() - this.taken);
                buffer.put_slice(&this.ready[this.taken..this.taken + count]);
                this.taken += count;
                return Poll::Ready(Ok(()));
            }
            this.ready.clear();
            this.taken = 0;
            let mut bytes = [0; READ_BYTES];
            let mut read = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.escapes.take(read.filled(), &mut this.ready);
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for EscapedStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes for the server, which are the same however those of the client are cut.
    fn escaped(bytes: &[u8], max_head: usize) -> String {
        let whole = {
            let (mut escapes, mut out) = (TargetEscapes::new(max_head), Vec::new());
            escapes.take(bytes, &mut out);
            out
        };
        for size in [1, 2, 7] {
            let (mut escapes, mut out) = (TargetEscapes::new(max_head), Vec::new());
            bytes.chunks(size).for_each(|part| escapes.take(part, &mut out));
            assert_eq!(out, whole, "in parts of {size}");
        }
        String::from_utf8(whole).expect("a text")
    }

    #[test]
    fn targets_are_escaped_and_bodies_are_not() {
        let get = "GET /tx_search?query=\"tx.height>5 AND a='b'\"&page=1 HTTP/1.1\r\nhost: a\r\n\r\n";
        let safe = "GET /tx_search?query=%22tx.height%3E5%20AND%20a='b'%22&page=1 HTTP/1.1\r\nhost: a\r\n\r\n";
        assert_eq!(escaped(get.as_bytes(), 4_096), safe);
        let body = "{\"query\": \"GET /\\\"\"}\r\n\r\n";
        let post = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        assert_eq!(escaped(format!("{post}{get}{post}").as_bytes(), 4_096), format!("{post}{safe}{post}"));
        // Nothing behind an upgrade or chunks is a head.
        for header in ["upgrade: websocket", "Transfer-Encoding: chunked", "content-length: many"] {
            let head = format!("GET /websocket HTTP/1.1\r\n{header}\r\n\r\n");
            let bytes = format!("{head}{get}");
            assert_eq!(escaped(bytes.as_bytes(), 4_096), bytes, "{header}");
        }
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "\"".repeat(100));
        assert_eq!(escaped(long.as_bytes(), 64), long, "a head that is too long is left to the server");
        for odd in ["\r\n\r\n", "GET\r\n\r\n", "GET /a\r\n\r\n", "x"] {
            let expected = if odd == "x" { "" } else { odd };
            assert_eq!(escaped(odd.as_bytes(), 4_096), expected, "{odd:?}");
        }
    }
}
