//! Access of peers to endpoints, in the store: the grants, the keys of tokens, and the time from which tokens are valid.

mod grants;
mod keys;
mod requests;
#[cfg(test)]
mod tests;
mod types;

pub use self::{grants::AccessGrantFilter, keys::AccessKeyTime};
pub use self::{
    grants::RevokedGrants,
    requests::{AccessPart, OfferedGrant, grant_of_message},
};
pub use self::{keys::void_tokens, requests::answer_request, types::insert_grant};
