//! The accepted WebSockets: their number, and the one that has been silent for longest.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Silence after which a socket makes room for another one.
const MIN_SILENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct OpenSocket {
    active_at: Instant,
    evict: CancellationToken,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: HashMap<u64, OpenSocket>,
}

/// The accepted sockets of a door.
#[derive(Debug, Clone)]
pub(super) struct SocketTable {
    table: Arc<Mutex<Table>>,
    limit: usize,
}

/// The place of one socket.
#[derive(Debug)]
pub(super) struct SocketPlace {
    table: SocketTable,
    number: u64,
    /// Is cancelled when the socket is to make room.
    pub evicted: CancellationToken,
}

impl SocketTable {
    pub fn new(limit: usize) -> Self {
        Self { table: Arc::default(), limit }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Table) -> T) -> T {
        work(&mut self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn len(&self) -> usize {
        self.with(|table| table.open.len())
    }

    /// Takes a place. In a full table the socket that has been silent for longest makes room; without one that has been silent for a
    /// while there is no place.
    pub fn enter(&self, now: Instant) -> Option<SocketPlace> {
        let (number, evicted) = self.with(|table| {
            if table.open.len() >= self.limit {
                let oldest = table.open.iter().min_by_key(|(_, socket)| socket.active_at)?;
                let (number, socket) = (*oldest.0, oldest.1);
                if now.saturating_duration_since(socket.active_at) < MIN_SILENCE {
                    return None;
                }
                socket.evict.cancel();
                table.open.remove(&number);
            }
            let number = table.next;
            table.next += 1;
            let evict = CancellationToken::new();
            table.open.insert(number, OpenSocket { active_at: now, evict: evict.clone() });
            Some((number, evict))
        })?;
        Some(SocketPlace { table: self.clone(), number, evicted })
    }
}

impl SocketPlace {
    /// A message was received.
    pub fn note_activity(&self, now: Instant) {
        self.table.with(|table| {
            if let Some(socket) = table.open.get_mut(&self.number) {
                socket.active_at = now;
            }
        });
    }
}

impl Drop for SocketPlace {
    fn drop(&mut self) {
        self.table.with(|table| table.open.remove(&self.number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_makes_room_for_the_next_at_the_cost_of_the_longest_silence() {
        let (table, start) = (SocketTable::new(2), Instant::now());
        let first = table.enter(start).expect("room");
        let second = table.enter(start).expect("room");
        assert!(table.enter(start + MIN_SILENCE / 2).is_none(), "both were active a moment ago");
        first.note_activity(start + MIN_SILENCE);
        let third = table.enter(start + MIN_SILENCE).expect("the second makes room");
        assert!(second.evicted.is_cancelled() && !first.evicted.is_cancelled());
        assert_eq!(table.len(), 2);
        drop((first, second, third));
        assert_eq!(table.len(), 0);
    }
}
