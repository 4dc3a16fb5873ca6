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
    /// Connections of each address whose clients are not proven, and of those that are.
    unproven: HashMap<AddressKey, usize>,
    proven: HashMap<AddressKey, usize>,
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
        self.count(&connection, false);
        Some(connection)
    }

    /// Counts a connection for its address, or counts it no more.
    fn count(&mut self, connection: &ClientConnection, is_there: bool) {
        let Some(address) = connection.address() else { return };
        let counts = if connection.is_trusted() { &mut self.proven } else { &mut self.unproven };
        let count = counts.entry(address).or_default();
        *count = if is_there { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            counts.remove(&address);
        }
    }

    fn count_of(&self, address: Option<AddressKey>, is_proven: bool) -> usize {
        let counts = if is_proven { &self.proven } else { &self.unproven };
        address.and_then(|address| counts.get(&address)).copied().unwrap_or(0)
    }

    fn describe(&self, connection: &ClientConnection) -> OpenConnection {
        let progress = connection.with_progress(|progress| progress.current_use());
        let is_proven = connection.is_trusted();
        OpenConnection {
            number: connection.number(),
            address: connection.address(),
            address_count: self.count_of(connection.address(), is_proven),
            current_use: match progress {
                ConnectionUse::Waiting if is_proven => ConnectionUse::ProvenWaiting,
                other => other,
            },
        }
    }
}

impl ConnectionTable {
    pub fn new(listener: &'static str, settings: Arc<ListenerSettings>) -> Arc<Self> {
        // A part of the budget stays for other listeners of the process.
        let max_connections = settings.max_connections.min(descriptor_budget() / 4 * 3);
        let refusals = RefusalLog::new(listener, settings.names.clone());
        Arc::new(Self { settings, max_connections, refusals, open: Mutex::default() })
    }

    /// Decides about a new connection. Another one may have to make room for it.
    pub fn admit(self: &Arc<Self>, ends: ConnectionEnds) -> Result<(ConnectionSlot, Option<Refusal>), Refusal> {
        let counted = ends.peer.map(|peer| peer.ip()).filter(|address| !self.settings.is_proxy(*address));
        let address = counted.map(AddressKey::from);
        self.with_open(|open| {
            let occupancy = Occupancy {
                connections: open.by_number.len(),
                max_connections: self.max_connections,
                of_address: address.map(|_| (open.count_of(address, false), self.settings.max_per_address)),
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
            open.count(&connection, true);
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

    /// Notes whether the client of a connection has proven itself. One that has left the table meanwhile stays as it is.
    pub fn set_proven(&self, connection: &ClientConnection, is_proven: bool) {
        self.with_open(|open| {
            if connection.is_trusted() != is_proven && open.by_number.contains_key(&connection.number()) {
                open.count(connection, false);
                connection.mark_proven(is_proven);
                open.count(connection, true);
            }
        });
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
        let (proven, _) = table.admit(ends(1)).expect("room");
        proven.connection.trust();
        proven.connection.trust();
        let (first, none) = table.admit(ends(1)).expect("room");
        let (_second, _) = table.admit(ends(1)).expect("room: the proven one does not count");
        assert!(none.is_none() && table.len() == 3);
        let (_third, replaced) = table.admit(ends(2)).expect("another one makes room");
        assert_eq!(replaced, Some(Refusal::Replaced));
        assert!(first.connection.replaced().is_cancelled() && !proven.connection.replaced().is_cancelled());
        drop(first);
        assert_eq!(table.len(), 3, "a replaced connection has left already");
        assert_eq!(table.with_open(|open| open.proven.values().sum::<usize>()), 1);
        proven.connection.doubt();
        assert_eq!(table.with_open(|open| open.proven.len()), 0, "a wrong token ends it");
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
        let slots: Vec<_> = (0..20).map(|_| table.admit(ends(1)).expect("room")).collect();
        assert!(slots.iter().all(|(_, replaced)| replaced.is_none()));
    }
}
