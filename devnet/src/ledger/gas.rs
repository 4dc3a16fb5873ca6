//! Gas, accounted in kind: bytes of the transaction, signatures, and every read and write of state.

use std::cell::Cell;

/// What store access costs, as the SDK's key-value store prices it.
const READ_FLAT: u64 = 1_000;
const READ_PER_BYTE: u64 = 3;
const WRITE_FLAT: u64 = 2_000;
const WRITE_PER_BYTE: u64 = 30;
const DELETE: u64 = 1_000;

/// Counts gas against a limit. Exceeding it is noticed after the step that did, and then undoes all of it.
#[derive(Debug)]
pub struct Gas {
    used: Cell<u64>,
    limit: u64,
}

impl Gas {
    pub fn new(limit: u64) -> Self {
        Self { used: Cell::new(0), limit }
    }

    /// Without a limit: simulation and queries.
    pub fn unlimited() -> Self {
        Self::new(u64::MAX)
    }

    pub fn used(&self) -> u64 {
        self.used.get()
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub fn consume(&self, amount: u64) {
        self.used.set(self.used.get().saturating_add(amount));
    }

    pub fn is_exceeded(&self) -> bool {
        self.used.get() > self.limit
    }

    pub fn read(&self, bytes: usize) {
        self.consume(READ_FLAT + READ_PER_BYTE * bytes as u64);
    }

    pub fn write(&self, bytes: usize) {
        self.consume(WRITE_FLAT + WRITE_PER_BYTE * bytes as u64);
    }

    pub fn delete(&self) {
        self.consume(DELETE);
    }
}
