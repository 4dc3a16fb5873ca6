//! The grants of the agent's account: a participant of its DID with a record that lets the account send a message, and the payer of the
//! fee. The node alone states them.

mod ends;
mod grant_reader;

pub(crate) use self::grant_reader::{read_authorizations, read_corporation_account};
pub use self::{
    ends::{RegistryEnd, read_ends},
    grant_reader::{AgentGrant, GrantError, read_grant},
};
