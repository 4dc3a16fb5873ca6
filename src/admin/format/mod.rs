//! The form of requests and answers that all routes share.

pub(super) mod answer;
pub(super) mod page;
pub(super) mod request;
pub(super) mod schema;
