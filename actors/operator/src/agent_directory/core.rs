//! The difference between the agents of a snapshot and the sessions that run. Pure.

use std::collections::BTreeSet;

/// Largest number of sessions. A corporation with more agents gets sessions for the first ones in the order of their DIDs.
const MAX_SESSIONS: usize = 1_024;

/// Sessions to end and to start.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SessionChanges {
    /// DIDs that are no agents any more.
    pub ended: Vec<String>,
    /// DIDs without a session.
    pub missing: Vec<String>,
}

/// Compares the DIDs of the snapshot's agents with the DIDs that have a session.
pub fn compare_sessions<'a>(
    agents: impl Iterator<Item = &'a str>,
    running: impl Iterator<Item = &'a str>,
) -> SessionChanges {
    let wanted: BTreeSet<&str> = agents.take(MAX_SESSIONS).collect();
    let running: BTreeSet<&str> = running.collect();
    let owned = |did: &&str| (*did).to_owned();
    SessionChanges {
        ended: running.difference(&wanted).map(owned).collect(),
        missing: wanted.difference(&running).map(owned).collect(),
    }
}
