//! The modules of the chain: those of the SDK that the registry needs, and the registry's own. Each is a file or a folder with
//! the stateless checks and the handlers of its messages. Quirks of the chain are reproduced, and marked with "Quirk".
//!
//! [`routes`] maps each message type to its check and its handler. A module that runs the messages of a proposal calls the
//! routes through a [`router::MessageRouter`].

pub mod auth;
pub mod authority;
pub mod bank;
pub mod co;
pub mod council;
pub mod cs;
pub mod de;
pub mod di;
mod did_owner;
pub mod ec;
pub mod feegrant;
pub mod gf;
pub mod gov;
pub mod group;
pub mod pp;
pub mod renumbered;
pub mod router;
pub mod routes;
pub mod td;
pub mod xr;
