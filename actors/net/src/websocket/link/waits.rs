//! The times of a connection. Pure, but for the wait.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::LinkConfig;
use crate::websocket::stream::Patience;

/// The times at which a connection ends, or is pinged.
pub(super) struct Waits {
    pub last_frame_at: Instant,
    /// Silence of the socket that ends the connection.
    pub liveness: Duration,
    pub next_ping: Instant,
    /// `None` once the subscription is confirmed.
    pub confirm_by: Option<Instant>,
    /// Patience with the stream; `None` while there is none.
    stream_patience: Option<Duration>,
    /// End of the patience with the stream.
    pub silent_at: Option<Instant>,
}

impl Waits {
    pub fn new(config: &LinkConfig, opened_at: Instant) -> Self {
        Self {
            last_frame_at: opened_at,
            liveness: config.liveness_timeout,
            next_ping: opened_at + config.liveness_timeout / 3,
            confirm_by: Some(opened_at + config.confirmation_timeout),
            stream_patience: config.stream_patience,
            silent_at: config.stream_patience.map(|patience| opened_at + patience),
        }
    }

    /// The server has announced a patience, or renewed it.
    pub fn announce(&mut self, patience: Option<Patience>, now: Instant) {
        match patience {
            Some(Patience::Socket(silence)) => self.liveness = silence,
            Some(Patience::Stream(silence)) => {
                self.stream_patience = Some(silence);
                self.be_patient_again(now);
            }
            None => {}
        }
    }

    /// Begins the patience with the stream again.
    pub fn be_patient_again(&mut self, now: Instant) {
        self.silent_at = self.stream_patience.map(|patience| now + patience);
    }
}

/// Waits until a time; for ever without one.
pub(super) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
