//! Connections of subscribers: the queue of frames between the hub and a front end.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use tokio::sync::mpsc;

/// Frames that may wait for one connection. The limit on bytes applies first, except while a stream has only small
/// frames.
const MAX_QUEUED_FRAMES: usize = 16_384;

/// Frames for one connection, ready to be sent.
#[derive(Debug)]
pub struct FrameReceiver {
    frames: mpsc::Receiver<Bytes>,
    queued_bytes: Arc<AtomicUsize>,
}

impl FrameReceiver {
    /// Returns the next frame. `None` after the last frame of a closed connection: its queue was full, or the hub died.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.frames.recv().await
    }

    /// Records that a frame was sent to the client.
    pub fn mark_sent(&self, frame: &Bytes) {
        self.queued_bytes.fetch_sub(frame.len(), Ordering::Relaxed);
    }
}

/// The hub's end of a connection.
pub(super) struct FrameSender {
    frames: mpsc::Sender<Bytes>,
    queued_bytes: Arc<AtomicUsize>,
}

impl FrameSender {
    /// Queues a frame. False when the queue is full or the client has left.
    pub fn try_send(&self, frame: &Bytes, max_buffered_bytes: usize) -> bool {
        // As in the reference the limit is checked before the frame is added, so the queue may exceed it by one frame.
        let has_room = self.queued_bytes.load(Ordering::Relaxed) <= max_buffered_bytes;
        // The receiver subtracts a frame that it takes, so the frame is added before it is queued.
        self.queued_bytes.fetch_add(frame.len(), Ordering::Relaxed);
        has_room && self.frames.try_send(frame.clone()).is_ok()
    }

    /// Whether the client has left.
    pub fn is_closed(&self) -> bool {
        self.frames.is_closed()
    }
}

/// A subscriber's end of a connection.
#[derive(Debug)]
pub struct HubConnection {
    /// Number of the connection.
    pub id: u64,
    /// Frames to send; `ready` is the first of them.
    pub frames: FrameReceiver,
}

#[cfg(test)]
impl HubConnection {
    /// Takes frames until the next block, at most 30 seconds each, and returns that block's message.
    #[allow(clippy::expect_used)]
    pub async fn next_block(&mut self) -> serde_json::Value {
        loop {
            let next = tokio::time::timeout(std::time::Duration::from_secs(30), self.frames.next());
            let frame = next.await.expect("in time").expect("open");
            self.frames.mark_sent(&frame);
            let text = String::from_utf8_lossy(&frame);
            let start = text.find('{').expect("JSON");
            let message: serde_json::Value = serde_json::from_str(&text[start..]).expect("JSON");
            if message["type"] == "block" {
                return message;
            }
        }
    }
}

/// Creates the two ends of a queue.
pub(super) fn frame_queue() -> (FrameSender, FrameReceiver) {
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_FRAMES);
    let queued_bytes = Arc::new(AtomicUsize::new(0));
    (
        FrameSender { frames: sender, queued_bytes: Arc::clone(&queued_bytes) },
        FrameReceiver { frames: receiver, queued_bytes },
    )
}
