use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

use super::{connection::ClientConnection, descriptors::DescriptorPermit, progress::WriteOutcome};

/// The byte stream of an accepted connection, which reports its reads and writes.
#[derive(Debug)]
pub(super) struct GuardedStream<S> {
    inner: S,
    connection: ClientConnection,
    #[expect(dead_code, reason = "held as long as the socket is open")]
    descriptor: DescriptorPermit,
}

impl<S> GuardedStream<S> {
    pub fn new(inner: S, connection: ClientConnection, descriptor: DescriptorPermit) -> Self {
        Self { inner, connection, descriptor }
    }

    fn record_write<T>(&self, polled: Poll<T>, done: WriteOutcome) -> Poll<T> {
        let outcome = if polled.is_pending() { WriteOutcome::Blocked } else { done };
        self.connection.with_progress(|progress| progress.record_write(outcome, Instant::now()));
        polled
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for GuardedStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let filled = buffer.filled().len();
        let polled = Pin::new(&mut this.inner).poll_read(cx, buffer);
        if buffer.filled().len() > filled {
            this.connection.with_progress(|progress| progress.record_read(Instant::now()));
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GuardedStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_write(cx, bytes);
        this.record_write(polled, WriteOutcome::Taken)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_write_vectored(cx, slices);
        this.record_write(polled, WriteOutcome::Taken)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The library flushes when its own buffer is empty: a flush that is ready means that every byte was taken.
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_flush(cx);
        this.record_write(polled, WriteOutcome::Flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_shutdown(cx);
        this.record_write(polled, WriteOutcome::Flushed)
    }
}
