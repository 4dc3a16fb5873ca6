//! Access of peers to endpoints, in the store: the grants, the keys of tokens, and the time from which tokens are valid.

mod grants;
mod keys;
#[cfg(test)]
mod tests;
mod types;

pub use self::grants::RevokedGrants;
pub use self::{grants::AccessGrantFilter, keys::AccessKeyTime};
pub use self::{
    keys::void_tokens,
    types::{COLUMNS, insert_grant, read_grant},
};
