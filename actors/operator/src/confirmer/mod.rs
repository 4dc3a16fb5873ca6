//! The confirmer: follows every transaction in flight from hand-over to a final outcome.
//!
//! It hears of inclusions from the node link, and looks a hash up when it may have missed one: after a reconnect, every few
//! blocks, and past the timeout height. An outcome is decided once and never changes; absence decides only when the node that
//! does not have the transaction has all the blocks it could be in. The table of transactions in flight outlives the actor, so
//! a new incarnation continues with every one of them.

mod actor;
mod core;

pub(crate) use actor::facts;
#[cfg(test)]
pub(crate) use core::{Absence, Facts};
pub(crate) use core::{Looks, Pending, judge};
use std::time::Duration;

use svc_kit::{AskError, Handle};

pub use actor::{Args, Confirmer, Msg};

use crate::in_flight::Outcome;

/// The way to the confirmer.
#[derive(Clone)]
pub struct ConfirmerHandle(pub(crate) Handle<Msg>);

impl ConfirmerHandle {
    /// Waits for the outcome of a transaction; `None` when no such transaction is known.
    pub async fn outcome(&self, hash: &str, patience: Duration) -> Result<Option<Outcome>, AskError> {
        self.0.ask_within(patience, |reply| Msg::Await { hash: hash.to_owned(), reply }).await
    }
}

/// The way in, for neighbours that only notify.
pub(crate) fn notify(handle: &Handle<Msg>, message: Msg) {
    // A confirmer that is restarting looks every pending hash up when it is back.
    let _ = handle.tell(message);
}
