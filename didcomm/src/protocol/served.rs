//! Types without a protocol of their own here, and the protocols that an agent serves.

/// The message without content, which only carries a `from_prior`.
pub const EMPTY: &str = "https://didcomm.org/empty/1.0/empty";
/// A message for another recipient, which is never passed on.
pub const FORWARD: &str = "https://didcomm.org/routing/2.0/forward";
/// The type of problem reports in this registry.
pub const PROBLEM_REPORT: &str = "https://didcomm.org/notification/1.0/problem-report";

/// The protocols that an agent serves, with their module of the admin API.
pub const PROTOCOLS: [(&str, &[&str]); 5] = [
    (
        "connections",
        &[
            "https://didcomm.org/empty/1.0",
            "https://didcomm.org/discover-features/2.0",
            "https://didcomm.org/notification/1.0",
        ],
    ),
    ("invitations", &["https://didcomm.org/out-of-band/2.0"]),
    ("basic-messages", &["https://didcomm.org/basicmessage/2.0"]),
    ("credential-exchanges", &["https://didcomm.org/issue-credential/2.0"]),
    ("vt-flow", &["https://didcomm.org/vt-flow/1.0"]),
];
