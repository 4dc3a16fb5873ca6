//! The refresher: reads the bound corporation, the operator's authorizations and its fee allowance, and publishes them as one
//! immutable snapshot.
//!
//! It reads on events of the corporation, on a period, and when a write met an authorization that is not what the snapshot
//! says. One read at a time; what is asked meanwhile is read once more. The last snapshot stays published while it is dead.

mod actor;
mod read;

use std::time::Duration;

use svc_kit::{AskError, Handle};

pub use actor::{Args, Msg, Refresher};
pub use read::{Sources, is_unknown_corporation, read};

/// Why it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// A registry event of the corporation.
    Event,
    /// The period is over.
    Period,
    /// A write met something unexpected.
    Write,
}

impl Trigger {
    /// Bounded label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Period => "period",
            Self::Write => "write",
        }
    }
}

/// The way to the refresher.
#[derive(Clone)]
pub struct RefresherHandle(pub(crate) Handle<Msg>);

impl RefresherHandle {
    /// Reads now and waits until the result is published; false when it could not be read.
    pub async fn refresh(&self, trigger: Trigger, patience: Duration) -> Result<bool, AskError> {
        self.0.ask_within(patience, |reply| Msg::RefreshAndTell(trigger, reply)).await
    }
}

/// The way in, for neighbours that only notify.
pub(crate) fn notify(handle: &Handle<Msg>, message: Msg) {
    // A refresher that is restarting reads everything when it is back.
    let _ = handle.tell(message);
}
