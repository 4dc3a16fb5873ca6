use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{AddressKey, connection_table::ConnectionTable, progress::Progress, refusal::Refusal};

/// The connection that a request came over. Each request has it as an extension.
#[derive(Debug, Clone)]
pub struct ClientConnection(Arc<ConnectionState>);

#[derive(Debug)]
struct ConnectionState {
    number: u64,
    ends: ConnectionEnds,
    address: Option<AddressKey>,
    is_proven: AtomicBool,
    is_left_unread: AtomicBool,
    progress: Mutex<Progress>,
    replaced: CancellationToken,
    table: Weak<ConnectionTable>,
}

/// Both ends of a connection; a local socket has no addresses.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ConnectionEnds {
    pub peer: Option<SocketAddr>,
    pub local: Option<SocketAddr>,
    pub is_encrypted: bool,
}

impl ClientConnection {
    pub(super) fn new(
        number: u64,
        ends: ConnectionEnds,
        address: Option<AddressKey>,
        table: Weak<ConnectionTable>,
    ) -> Self {
        Self(Arc::new(ConnectionState {
            number,
            ends,
            address,
            is_proven: AtomicBool::new(false),
            is_left_unread: AtomicBool::new(false),
            progress: Mutex::new(Progress::new(Instant::now())),
            replaced: CancellationToken::new(),
            table,
        }))
    }

    /// Address of the client; `None` for a local socket.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.0.ends.peer
    }

    /// Address that the client has connected to; `None` for a local socket.
    pub fn local_address(&self) -> Option<IpAddr> {
        self.0.ends.local.map(|local| local.ip().to_canonical())
    }

    /// Whether the connection is encrypted by this listener.
    pub fn is_encrypted(&self) -> bool {
        self.0.ends.is_encrypted
    }

    /// Records that the client has proven itself, for example by a right token: its connection makes room for others last, and does not
    /// count for its address.
    pub fn trust(&self) {
        if !self.is_trusted()
            && let Some(table) = self.0.table.upgrade()
        {
            table.set_proven(self, true);
        }
    }

    /// Records that the client has not proven itself, for example by a wrong token: the connection is like any other one.
    pub fn doubt(&self) {
        if self.is_trusted()
            && let Some(table) = self.0.table.upgrade()
        {
            table.set_proven(self, false);
        }
    }

    pub(super) fn mark_proven(&self, is_proven: bool) {
        self.0.is_proven.store(is_proven, Ordering::Relaxed);
    }

    /// Whether the client has proven itself.
    pub fn is_trusted(&self) -> bool {
        self.0.is_proven.load(Ordering::Relaxed)
    }

    /// Counts a request that the service has refused, and logs it, folded.
    pub fn record_refusal(&self, refusal: Refusal, detail: &str) {
        if let Some(table) = self.0.table.upgrade() {
            table.record_refusal(refusal, self.peer(), detail);
        }
    }

    /// Waits before a refusal is answered. Meanwhile the connection makes room for others first.
    pub async fn hold_back(&self, delay: Duration) {
        self.hold_during(tokio::time::sleep(delay)).await;
    }

    /// Does some work before the client is known. Meanwhile the connection makes room for others first.
    pub async fn hold_during<T>(&self, work: impl Future<Output = T>) -> T {
        self.with_progress(|progress| progress.record_hold(true));
        let done = work.await;
        self.with_progress(|progress| progress.record_hold(false));
        done
    }

    /// The part of the address that one client has; `None` for a local socket, and for a proxy, behind which there are many.
    pub fn client_key(&self) -> Option<AddressKey> {
        self.address()
    }

    pub(super) fn number(&self) -> u64 {
        self.0.number
    }

    /// The address that the connection counts for; `None` where it counts for none.
    pub(super) fn address(&self) -> Option<AddressKey> {
        self.0.address
    }

    /// Records that the connection ends while its client may still send.
    pub(super) fn leave_unread(&self) {
        self.0.is_left_unread.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_left_unread(&self) -> bool {
        self.0.is_left_unread.load(Ordering::Relaxed)
    }

    /// Cancelled when the connection makes room for another one.
    pub(super) fn replaced(&self) -> &CancellationToken {
        &self.0.replaced
    }

    pub(super) fn with_progress<R>(&self, work: impl FnOnce(&mut Progress) -> R) -> R {
        work(&mut self.0.progress.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
