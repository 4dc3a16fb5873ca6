//! The events that the agent delivers, as its owner sees them: how many wait, which could not be delivered, which were dropped.

#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use svc_agent_core::{
    error::{AgentPart, Refusal, RefusalCode},
    notification::{Notification, NotificationMaker},
};
use svc_agent_store::{AgentStore, AgentStoreError, DeadLetter, EventGap, OutboxSizes};
use svc_kit::wall_clock;
use svc_net::upstream::{UpstreamEndpoints, find_better_indexer, read_event_page, read_indexed_height};
use svc_wire::block_subscription::{SubscriptionScope, is_full_page};
use tokio::sync::Mutex;

use crate::courier::CourierHandle;

/// Gaps that one refill looks at.
const MAX_GAPS: usize = 1_000;

/// The outbox, for its owner. Clones share it.
#[derive(Clone)]
pub struct DeliveryHandle(Arc<Delivery>);

/// Everything that a refill needs.
pub struct Delivery {
    /// Has the outbox, its gaps and its dead letters.
    pub store: AgentStore,
    /// Delivers the events; `None` without a receiver.
    pub courier: Option<CourierHandle>,
    /// Reads the events of a gap.
    pub indexer: UpstreamEndpoints,
    /// The corporation and the DID whose events the agent receives.
    pub scope: SubscriptionScope,
    /// Known once the chain is.
    pub notifications: Arc<OnceLock<NotificationMaker>>,
    /// Events that the outbox takes.
    pub max_stored: u64,
    /// One refill at a time.
    pub refill: Mutex<()>,
}

impl Delivery {
    /// Whether a block fits into the outbox. An empty outbox takes one of any size.
    fn has_room(&self, events: u64, room: u64) -> bool {
        events <= room || room == self.max_stored
    }
}

fn store_failed(error: &AgentStoreError) -> Refusal {
    tracing::error!(%error, "the outbox cannot be used");
    Refusal::not_ready(AgentPart::Store, "the store cannot be used now", 5)
}

fn unreadable(error: &str) -> Refusal {
    tracing::warn!(error, "the events of a gap cannot be read");
    Refusal::not_ready(AgentPart::Indexer, "the indexer does not give the events of a gap now", 5)
}

fn no_letter(id: &str) -> Refusal {
    Refusal::new(RefusalCode::UnknownId, format!("no dead letter has the id {id:?}"))
}

impl DeliveryHandle {
    /// The handle of these parts.
    pub fn new(delivery: Delivery) -> Self {
        Self(Arc::new(delivery))
    }

    /// Ends the deliveries in order, see [`CourierHandle::finish`].
    pub async fn finish(&self, wait_limit: Duration) {
        if let Some(courier) = &self.0.courier {
            courier.finish(wait_limit).await;
        }
    }

    /// Returns the numbers of the outbox.
    pub async fn sizes(&self) -> Result<OutboxSizes, Refusal> {
        self.0.store.outbox_sizes().await.map_err(|error| store_failed(&error))
    }

    /// Returns dead letters in the order of their ids, behind one of them.
    pub async fn dead_letters(&self, after: Option<&str>, limit: usize) -> Result<Vec<DeadLetter>, Refusal> {
        self.0.store.dead_letters(after, limit).await.map_err(|error| store_failed(&error))
    }

    /// Queues a dead letter behind the newest event; returns it as it was.
    pub async fn retry(&self, id: &str) -> Result<DeadLetter, Refusal> {
        let queued = self.0.store.retry_dead_letter(id, wall_clock::now().seconds).await;
        let letter = queued.map_err(|error| store_failed(&error))?.ok_or_else(|| no_letter(id))?;
        self.notify_courier();
        Ok(letter)
    }

    /// Removes a dead letter.
    pub async fn remove(&self, id: &str) -> Result<(), Refusal> {
        let is_removed = self.0.store.remove_dead_letter(id).await.map_err(|error| store_failed(&error))?;
        if is_removed { Ok(()) } else { Err(no_letter(id)) }
    }

    /// Returns gaps in the order of their heights, behind one that begins at `after`.
    pub async fn gaps(&self, after: Option<u64>, limit: usize) -> Result<Vec<EventGap>, Refusal> {
        self.0.store.event_gaps(after, limit).await.map_err(|error| store_failed(&error))
    }

    /// Reads the events of the gaps from the indexer again, as many as there is room for; returns the number of queued events.
    pub async fn refill(&self) -> Result<u64, Refusal> {
        if self.0.courier.is_none() {
            return Err(Refusal::new(RefusalCode::InvalidState, "EVENTS_WEBHOOK_URL is not set: nothing is delivered"));
        }
        let no_chain = || Refusal::not_ready(AgentPart::Node, "the chain of the events is not known yet", 5);
        let notifications = *self.0.notifications.get().ok_or_else(no_chain)?;
        let _one = self.0.refill.lock().await;
        // The watcher chooses the indexer in use; a better one is used here alone.
        let better = find_better_indexer(&self.0.indexer, 0, None).await;
        let indexer = better.unwrap_or_else(|| self.0.indexer.pinned());
        let newest = read_indexed_height(indexer.current()).await;
        let newest = newest.map_err(|error| unreadable(&error.to_string()))?;
        let mut queued = 0;
        for gap in self.gaps(None, MAX_GAPS).await? {
            if gap.to_height > newest {
                return Err(unreadable(&format!(
                    "it has the blocks up to {newest}, and a gap ends with {}",
                    gap.to_height
                )));
            }
            let room = self.0.max_stored.saturating_sub(self.sizes().await?.stored);
            let (count, is_finished) = self.refill_gap(&indexer, gap, room, notifications).await?;
            queued += count;
            if !is_finished {
                break;
            }
        }
        self.notify_courier();
        Ok(queued)
    }

    /// Refills one gap, block by block while there is room. Returns the number of queued events, and whether the gap is closed.
    async fn refill_gap(
        &self,
        indexer: &UpstreamEndpoints,
        mut gap: EventGap,
        mut room: u64,
        notifications: NotificationMaker,
    ) -> Result<(u64, bool), Refusal> {
        let (delivery, last) = (&self.0, gap.to_height);
        let (mut after, mut cursor) = (gap.from_height.saturating_sub(1), None);
        let (mut queued, mut block): (u64, Vec<Notification>) = (0, Vec::new());
        loop {
            let page = read_event_page(indexer.current(), &delivery.scope, after, cursor.as_deref()).await;
            let page = page.map_err(|error| unreadable(&error.to_string()))?;
            let newest = page.events.last().map_or(last, |event| event.block_height);
            for event in page.events.iter().filter(|event| event.block_height <= last) {
                if block.first().is_some_and(|first| first.height != event.block_height) {
                    let count = block.len() as u64;
                    if !delivery.has_room(count, room) {
                        return Ok((queued, false));
                    }
                    (room, queued) = (room.saturating_sub(count), queued + count);
                    gap = self.store_block(gap, &mut block, event.block_height).await?;
                }
                block.push(notifications.make(event));
            }
            if is_full_page(&page) && newest <= last {
                match page.next_cursor {
                    Some(next) if cursor.as_ref() != Some(&next) => {
                        cursor = Some(next);
                        continue;
                    }
                    // Without cursors the block in which the page ends is read again, from its begin.
                    None if newest > after + 1 => {
                        (after, block) = (newest - 1, Vec::new());
                        continue;
                    }
                    // The indexer cannot continue inside of this block.
                    _ if newest > after => {
                        tracing::error!(
                            height = newest,
                            "the indexer gives a page of this block only: its other events are lost"
                        );
                        (after, cursor) = (newest, None);
                        continue;
                    }
                    _ => return Err(unreadable("its pages of events repeat")),
                }
            }
            let count = block.len() as u64;
            if !delivery.has_room(count, room) {
                return Ok((queued, false));
            }
            self.store_block(gap, &mut block, last + 1).await?;
            return Ok((queued + count, true));
        }
    }

    /// Queues the events of a block; the gap begins with the next one afterwards.
    async fn store_block(
        &self,
        gap: EventGap,
        block: &mut Vec<Notification>,
        next_height: u64,
    ) -> Result<EventGap, Refusal> {
        let (events, now) = (std::mem::take(block), wall_clock::now().seconds);
        let refilled = self.0.store.refill_gap(&gap, &events, next_height, now).await;
        refilled.map_err(|error| store_failed(&error))?;
        let count = gap.count.saturating_sub(events.len() as u64);
        Ok(EventGap { from_height: next_height, count, ..gap })
    }

    fn notify_courier(&self) {
        if let Some(courier) = &self.0.courier {
            courier.events_stored();
        }
    }
}
