//! x/group: the group of each corporation, its proposals and votes.

mod admin;
mod create;
mod error;
mod policy;
mod proposal;
mod store;
mod tally;

pub use admin::{leave, update_decision_policy, update_members, update_metadata, update_policy_metadata};
pub use create::{NewMember, create_with_policy};
pub use policy::{PERCENTAGE, is_decision_policy};
pub use proposal::{close_expired_proposals, exec, submit, validate_submit, vote, withdraw};
pub use tally::tally;
