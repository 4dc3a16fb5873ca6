//! The bytes of messages that are being received, of all connections together.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

/// Bytes that a connection may hold without a share: frames that are no message, and the heads of those that are.
const FREE_BYTES: usize = 4 * 1024;
/// Bytes of one step of a share.
pub(super) const STEP: usize = 64 * 1024;
/// Most bytes before the payload of a control frame of a client.
const CONTROL_HEAD: usize = 14;

/// A number of bytes that messages share.
#[derive(Debug, Clone)]
pub struct ByteBudget {
    permits: Arc<Semaphore>,
    bytes: usize,
}

/// A part of the budget, which is free again when it is dropped.
#[derive(Debug)]
pub struct BudgetShare(#[expect(dead_code, reason = "held while the message is in memory")] OwnedSemaphorePermit);

impl ByteBudget {
    /// A budget of a number of bytes.
    pub fn new(bytes: usize) -> Self {
        let bytes = bytes.min(Semaphore::MAX_PERMITS);
        Self { permits: Arc::new(Semaphore::new(bytes)), bytes }
    }

    /// Takes a share, if there is room for it now.
    pub fn try_take(&self, bytes: usize) -> Option<BudgetShare> {
        let bytes = u32::try_from(bytes).ok()?;
        Arc::clone(&self.permits).try_acquire_many_owned(bytes).ok().map(BudgetShare)
    }

    /// Bytes in use.
    pub fn in_use(&self) -> usize {
        self.bytes.saturating_sub(self.permits.available_permits())
    }
}

/// A stream whose reader holds all bytes until a message is complete. It takes shares of the budget as it grows, and fails when
/// there is none: many connections that each begin a large message cannot take more memory together than the budget.
pub(super) struct MeteredStream<S> {
    inner: S,
    budget: ByteBudget,
    held: usize,
    shares: Vec<BudgetShare>,
    /// Time at which the first share of the present message was taken.
    begun_at: Option<Instant>,
}

impl<S> MeteredStream<S> {
    pub fn new(inner: S, budget: ByteBudget) -> Self {
        Self { inner, budget, held: 0, shares: Vec::new(), begun_at: None }
    }

    /// A message was handled: its bytes are not held any more.
    pub fn release(&mut self) {
        self.held = 0;
        self.shares.clear();
        self.begun_at = None;
    }

    /// A control frame was handled. It may stand between the fragments of a message, whose bytes are still held.
    pub fn release_control(&mut self, payload: usize) {
        self.held = self.held.saturating_sub(payload + CONTROL_HEAD);
    }

    /// Reads on until the client ends, and keeps nothing. A socket that is closed with unread bytes takes its last frame with it.
    pub async fn discard(&mut self)
    where
        S: AsyncRead + Unpin,
    {
        self.release();
        let _ = tokio::io::copy(&mut self.inner, &mut tokio::io::sink()).await;
    }

    /// Time since a message of more than a few bytes was begun.
    pub fn message_age(&self) -> Option<Duration> {
        self.begun_at.map(|at| at.elapsed())
    }

    fn hold(&mut self, bytes: usize) -> io::Result<()> {
        self.held += bytes;
        while self.held > FREE_BYTES + self.shares.len() * STEP {
            let share = self.budget.try_take(STEP);
            self.shares.push(share.ok_or_else(|| io::Error::other("too many messages are being received"))?);
            self.begun_at.get_or_insert_with(Instant::now);
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MeteredStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.inner).poll_read(cx, buffer);
        match this.hold(buffer.filled().len() - before) {
            Ok(()) => polled,
            Err(error) => {
                buffer.set_filled(before);
                Poll::Ready(Err(error))
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MeteredStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, bytes)
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
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn connections_share_one_budget_and_give_it_back() {
        let budget = ByteBudget::new(4 * STEP);
        let reader = |length: usize| MeteredStream::new(std::io::Cursor::new(vec![0; length]), budget.clone());
        let (mut idle, mut first, mut second) = (reader(FREE_BYTES), reader(3 * STEP), reader(2 * STEP));
        let mut sink = Vec::new();
        idle.read_to_end(&mut sink).await.expect("it needs no share");
        assert_eq!(budget.in_use(), 0);
        first.read_to_end(&mut sink).await.expect("there is room");
        assert_eq!(budget.in_use(), 3 * STEP);
        second.read_to_end(&mut sink).await.expect_err("there is none");
        first.release();
        drop(second);
        assert_eq!(budget.in_use(), 0);
        reader(2 * STEP).read_to_end(&mut sink).await.expect("there is room again");
        // A ping between fragments gives back its own bytes and no others.
        let mut begun = reader(3 * STEP);
        begun.read_to_end(&mut sink).await.expect("there is room");
        begun.release_control(4);
        assert_eq!(budget.in_use(), 3 * STEP);
        assert!(begun.message_age().is_some());
    }
}
