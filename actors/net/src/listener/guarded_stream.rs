use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

use super::{connection::ClientConnection, descriptors::DescriptorPermit, progress::WriteOutcome};

/// The byte stream of an accepted connection, which reports its reads and writes.
#[derive(Debug)]
pub(super) struct GuardedStream<S> {
    inner: S,
    connection: ClientConnection,
    #[expect(dead_code, reason = "held as long as the socket is open")]
    descriptor: DescriptorPermit,
    patience: Duration,
    /// Ends the wait for a client that still sends while the connection closes.
    end_of_patience: Option<Pin<Box<Sleep>>>,
}

impl<S> GuardedStream<S> {
    pub fn new(inner: S, connection: ClientConnection, descriptor: DescriptorPermit, patience: Duration) -> Self {
        Self { inner, connection, descriptor, patience, end_of_patience: None }
    }

    /// Reads until the client ends, for a bounded time. A socket that is closed with unread bytes is reset, and the reset takes the
    /// answer from a client that has not read it.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<()>
    where
        S: AsyncRead + Unpin,
    {
        let end = self.end_of_patience.get_or_insert_with(|| Box::pin(sleep(self.patience)));
        if end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let mut bytes = [0; 8 * 1024];
        // The rest of a long body comes in turns with other work of the thread.
        for _ in 0..16 {
            let mut read = ReadBuf::new(&mut bytes);
            match ready!(Pin::new(&mut self.inner).poll_read(cx, &mut read)) {
                Ok(()) if !read.filled().is_empty() => {}
                Ok(()) | Err(_) => return Poll::Ready(()),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
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

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for GuardedStream<S> {
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
        if this.end_of_patience.is_none() {
            let polled = Pin::new(&mut this.inner).poll_shutdown(cx);
            let polled = this.record_write(polled, WriteOutcome::Flushed);
            if !matches!(polled, Poll::Ready(Ok(()))) || !this.connection.is_left_unread() {
                return polled;
            }
        }
        this.poll_discard(cx).map(Ok)
    }
}
