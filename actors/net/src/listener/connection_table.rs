//! The open connections of one listener.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    AddressKey,
    admission::{Admission, ConnectionUse, Occupancy, OpenConnection, decide},
    connection::{ClientConnection, ConnectionEnds},
    descriptors::descriptor_budget,
    refusal::Refusal,
    refusal_log::RefusalLog,
    settings::ListenerSettings,
};

#[derive(Debug)]
pub(super) struct ConnectionTable {
    settings: Arc<ListenerSettings>,
    max_connections: usize,
    refusals: RefusalLog,
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    last_number: u64,
    by_number: HashMap<u64, ClientConnection>,
    /// Connections of each address whose clients are not proven.
    unproven: HashMap<AddressKey, usize>,
}

/// The place of a connection in the table. Dropping it frees the place.
pub(super) struct ConnectionSlot {
    pub connection: ClientConnection,
    table: Arc<ConnectionTable>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.table.with_open(|open| open.remove(self.connection.number()));
    }
}

impl OpenConnections {
    fn remove(&mut self, number: u64) -> Option<ClientConnection> {
        let connection = self.by_number.remove(&number)?;
        if !connection.is_trusted() {
            self.release(connection.address());
        }
        Some(connection)
    }

    fn release(&mut self, address: Option<AddressKey>) {
        if let Some(address) = address
            && let Some(count) = self.unproven.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                self.unproven.remove(&address);
            }
        }
    }

    fn count_of(&self, address: Option<AddressKey>) -> usize {
        address.and_then(|address| self.unproven.get(&address)).copied().unwrap_or(0)
    }

    fn describe(&self, connection: &ClientConnection) -> OpenConnection {
        let progress = connection.with_progress(|progress| progress.current_use());
        OpenConnection {
            number: connection.number(),
            address: connection.address(),
            address_count: self.count_of(connection.address()),
            current_use: if connection.is_trusted() { ConnectionUse::InUse } else { progress },
        }
    }
}

impl ConnectionTable {
    pub fn new(listener: &'static str, settings: Arc<ListenerSettings>) -> Arc<Self> {
        // A part of the budget stays for other listeners of the process.
        let max_connections = settings.max_connections.min(descriptor_budget() / 4 * 3);
        Arc::new(Self { settings, max_connections, refusals: RefusalLog::new(listener), open: Mutex::default() })
    }

    /// Decides about a new connection. Another one may have to make room for it.
    pub fn admit(self: &Arc<Self>, ends: ConnectionEnds) -> Result<(ConnectionSlot, Option<Refusal>), Refusal> {
        let counted = ends.peer.map(|peer| peer.ip()).filter(|address| !self.settings.is_proxy(*address));
        let address = counted.map(AddressKey::from);
        self.with_open(|open| {
            let occupancy = Occupancy {
                connections: open.by_number.len(),
                max_connections: self.max_connections,
                of_address: address.map(|_| (open.count_of(address), self.settings.max_per_address)),
            };
            let described = open.by_number.values().map(|one| open.describe(one));
            let replaced = match decide(occupancy, address, described) {
                Admission::Admitted => None,
                Admission::Replaces(number) => open.remove(number),
                Admission::Refused(refusal) => return Err(refusal),
            };
            open.last_number += 1;
            let connection = ClientConnection::new(open.last_number, ends, address, Arc::downgrade(self));
            open.by_number.insert(open.last_number, connection.clone());
            if let Some(address) = address {
                *open.unproven.entry(address).or_default() += 1;
            }
            if let Some(replaced) = &replaced {
                replaced.replaced().cancel();
            }
            let slot = ConnectionSlot { connection, table: Arc::clone(self) };
            Ok((slot, replaced.map(|_| Refusal::Replaced)))
        })
    }

    /// Ends the connection that is worth least, since the process has no descriptor for another one.
    pub fn give_one_up(&self) {
        self.with_open(|open| {
            let full = Occupancy { connections: 1, max_connections: 0, of_address: None };
            let described = open.by_number.values().map(|one| open.describe(one));
            if let Admission::Replaces(number) = decide(full, None, described)
                && let Some(replaced) = open.remove(number)
            {
                replaced.replaced().cancel();
            }
        });
    }

    /// A connection of the address does not count for it any more.
    pub fn release_address(&self, address: Option<AddressKey>) {
        self.with_open(|open| open.release(address));
    }

    /// Counts a refusal and logs it, folded.
    pub fn record_refusal(&self, refusal: Refusal, peer: Option<SocketAddr>, detail: &str) {
        self.refusals.record(refusal, peer, detail);
    }

    /// Number of open connections.
    pub fn len(&self) -> usize {
        self.with_open(|open| open.by_number.len())
    }

    fn with_open<R>(&self, work: impl FnOnce(&mut OpenConnections) -> R) -> R {
        work(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(last: u8) -> ConnectionEnds {
        ConnectionEnds { peer: Some(([192, 0, 2, last], 9).into()), ..ConnectionEnds::default() }
    }

    #[test]
    fn a_proven_client_keeps_its_connection_and_does_not_count_for_its_address() {
        let settings = ListenerSettings { max_connections: 3, max_per_address: 2, ..ListenerSettings::default() };
        let table = ConnectionTable::new("test", Arc::new(settings));
        let (proven, _) = table.admit(ends(1)).ok().expect("room");
        proven.connection.trust();
        proven.connection.trust();
        let (first, none) = table.admit(ends(1)).ok().expect("room");
        let (_second, _) = table.admit(ends(1)).ok().expect("room: the proven one does not count");
        assert!(none.is_none() && table.len() == 3);
        let (_third, replaced) = table.admit(ends(2)).ok().expect("another one makes room");
        assert_eq!(replaced, Some(Refusal::Replaced));
        assert!(first.connection.replaced().is_cancelled() && !proven.connection.replaced().is_cancelled());
        drop(first);
        assert_eq!(table.len(), 3, "a replaced connection has left already");
        drop(proven);
        assert_eq!(table.len(), 2);
        let left = table.with_open(|open| open.unproven.clone());
        assert_eq!(left.values().sum::<usize>(), 2, "{left:?}");
    }

    #[test]
    fn the_address_of_a_proxy_has_no_limit_of_its_own() {
        let proxies = vec!["192.0.2.0/24".parse().expect("a network")];
        let settings = ListenerSettings { max_per_address: 1, proxies, ..ListenerSettings::default() };
        let table = ConnectionTable::new("test", Arc::new(settings));
        let slots: Vec<_> = (0..20).map(|_| table.admit(ends(1)).ok().expect("room")).collect();
        assert!(slots.iter().all(|(_, replaced)| replaced.is_none()));
    }
}
