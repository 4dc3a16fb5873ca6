//! Gas metering: transaction bytes, signatures, and every read and write of state cost gas.

use std::cell::Cell;

use crate::error::LedgerError;

/// Prices of the SDK's key-value store. A read is dearer than its 1,000 there: a node also reads indexes, counters and parameters, as
/// its gas for each message shows.
const READ_FLAT: u64 = 3_500;
const READ_PER_BYTE: u64 = 3;
const WRITE_FLAT: u64 = 2_000;
const WRITE_PER_BYTE: u64 = 30;
const DELETE_FLAT: u64 = 1_000;

/// A gas counter with a limit. The caller checks [`GasMeter::is_exceeded`] after a step and discards the effects of the step.
#[derive(Debug)]
pub struct GasMeter {
    used: Cell<u64>,
    limit: u64,
}

impl GasMeter {
    pub fn new(limit: u64) -> Self {
        Self { used: Cell::new(0), limit }
    }

    /// Creates a meter without a limit, for simulation and queries.
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

    /// Returns the SDK's out-of-gas error; `location` names the step that exceeded the limit.
    pub fn out_of_gas_error(&self, location: &str) -> LedgerError {
        let (wanted, used) = (self.limit(), self.used());
        LedgerError::sdk(11, format!("out of gas in location: {location}; gasWanted: {wanted}, gasUsed: {used}"))
    }

    pub fn charge_read(&self, bytes: usize) {
        self.consume(READ_FLAT + READ_PER_BYTE * bytes as u64);
    }

    pub fn charge_write(&self, bytes: usize) {
        self.consume(WRITE_FLAT + WRITE_PER_BYTE * bytes as u64);
    }

    pub fn charge_delete(&self) {
        self.consume(DELETE_FLAT);
    }
}
