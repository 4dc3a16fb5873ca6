//! The choice of a connection that makes room for the next one. Pure.

use super::{AddressKey, refusal::Refusal};

/// The use of an open connection, from the one that is given up first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ConnectionUse {
    /// It waits for its client.
    Waiting,
    /// It waits for a client that has proven itself.
    ProvenWaiting,
    /// A request is being answered.
    InUse,
}

/// An open connection, as the choice sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenConnection {
    /// Connections have growing numbers.
    pub number: u64,
    pub address: Option<AddressKey>,
    /// Connections of the same address: those that are not proven, or those that are, as this one is.
    pub address_count: usize,
    pub current_use: ConnectionUse,
}

/// The limits, and how much of them is used up without the new connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Occupancy {
    pub connections: usize,
    pub max_connections: usize,
    /// Connections of the new one's address that are not proven, and their limit; `None` where the address has no limit.
    pub of_address: Option<(usize, usize)>,
}

/// The decision about a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is served.
    Admitted,
    /// It is served, and the connection of this number is ended.
    Replaces(u64),
    /// It is closed.
    Refused(Refusal),
}

/// Decides about a new connection of an address. `open` is read when a limit is reached.
pub(super) fn decide(
    occupancy: Occupancy,
    address: Option<AddressKey>,
    open: impl Iterator<Item = OpenConnection>,
) -> Admission {
    let is_address_full = occupancy.of_address.is_some_and(|(used, limit)| used >= limit);
    let is_full = occupancy.connections >= occupancy.max_connections;
    if !is_address_full && !is_full {
        return Admission::Admitted;
    }
    // An address at its limit makes room itself, so that it takes no place of another one. The oldest of the address with most goes first: a
    // stranger that keeps many connections loses them, and a newcomer has the longest time to prove itself.
    let replaced = open
        .filter(|one| match (is_address_full, one.current_use) {
            (_, ConnectionUse::InUse) => false,
            // The limit of an address counts clients that are not proven.
            (true, ConnectionUse::ProvenWaiting) => false,
            (true, ConnectionUse::Waiting) => one.address == address,
            (false, _) => true,
        })
        .min_by_key(|one| (one.current_use, std::cmp::Reverse(one.address_count), one.number));
    match replaced {
        Some(one) => Admission::Replaces(one.number),
        None if is_address_full => Admission::Refused(Refusal::AddressConnections),
        None => Admission::Refused(Refusal::Connections),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(last: u8) -> AddressKey {
        std::net::IpAddr::from([192, 0, 2, last]).into()
    }

    fn open(number: u64, last: u8, address_count: usize, current_use: ConnectionUse) -> OpenConnection {
        OpenConnection { number, address: Some(key(last)), address_count, current_use }
    }

    #[test]
    fn a_full_listener_gives_up_the_connection_that_is_worth_least() {
        use ConnectionUse::{InUse, ProvenWaiting, Waiting};
        let crowd =
            [open(1, 1, 1, Waiting), open(2, 2, 2, Waiting), open(3, 2, 2, Waiting), open(4, 3, 3, ProvenWaiting)];
        let used = [open(1, 1, 1, InUse), open(2, 2, 1, InUse)];
        let full = |of_address| Occupancy { connections: 4, max_connections: 4, of_address };
        let free = |of_address| Occupancy { connections: 3, max_connections: 4, of_address };
        for (name, occupancy, address, open, expected) in [
            ("room", free(Some((1, 2))), 1, &crowd[..], Admission::Admitted),
            ("a proxy has no limit", free(None), 1, &crowd[..], Admission::Admitted),
            ("full: the oldest of the address with most", full(Some((0, 2))), 9, &crowd[..], Admission::Replaces(2)),
            (
                "full: a proven client only when no other is left",
                full(Some((0, 2))),
                9,
                &crowd[3..],
                Admission::Replaces(4),
            ),
            ("full and all in use", full(Some((0, 2))), 9, &used[..], Admission::Refused(Refusal::Connections)),
            ("an address makes room itself", free(Some((2, 2))), 2, &crowd[..], Admission::Replaces(2)),
            (
                "it gives up no proven client",
                free(Some((3, 3))),
                3,
                &crowd[..],
                Admission::Refused(Refusal::AddressConnections),
            ),
            ("an address in use", free(Some((1, 1))), 1, &used[..], Admission::Refused(Refusal::AddressConnections)),
        ] {
            assert_eq!(decide(occupancy, Some(key(address)), open.iter().copied()), expected, "{name}");
        }
    }
}
