//! Access to endpoints: the decisions of the owner, and those of the asker. Pure.

mod asking;
mod granting;
#[cfg(test)]
mod model;

pub use self::{
    asking::{AskerTable, DropReason, HeardAnswer, OpenRequest, TooManyRequests},
    granting::{
        AllowedPeers, Denied, EndpointTerms, GrantCounts, GrantLimits, GrantTerms, KnownGrant, RequestFacts,
        TermsMaterial, judge_request, judge_row,
    },
};
