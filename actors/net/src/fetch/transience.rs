//! Failures of a connection that may pass. Pure.

use std::{
    error::Error,
    io::{self, ErrorKind},
    time::Duration,
};

use http::{HeaderMap, header::RETRY_AFTER};
use time::{OffsetDateTime, format_description::well_known::Rfc2822};

/// Texts of failures that have no kind of their own: glibc and musl for a resolver without an answer (`EAI_AGAIN`), hyper for a
/// connection that the server closed within an answer.
const PASSING_CAUSES: [&str; 5] = [
    "Temporary failure in name resolution",
    "Try again",
    "connection closed before message completed",
    "end of file before message length reached",
    "unexpected EOF during chunk size line",
];

/// Whether the connection failed for a reason that may pass: it was refused, cut or timed out, or the network or the resolver did
/// not answer. A name that does not exist, a certificate and an answer that is no HTTP are definitive.
pub(super) fn may_pass(error: &reqwest::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if is_passing_cause(inner) {
            return true;
        }
        cause = inner.source();
    }
    error.is_timeout()
}

fn is_passing_cause(cause: &(dyn Error + 'static)) -> bool {
    let has_passing_kind = cause.downcast_ref::<io::Error>().is_some_and(|error| {
        matches!(
            error.kind(),
            ErrorKind::ConnectionRefused
                | ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::NotConnected
                | ErrorKind::TimedOut
                | ErrorKind::BrokenPipe
                | ErrorKind::UnexpectedEof
                | ErrorKind::NetworkUnreachable
                | ErrorKind::NetworkDown
                | ErrorKind::HostUnreachable
        )
    });
    has_passing_kind || {
        let text = cause.to_string();
        PASSING_CAUSES.iter().any(|known| text.contains(known))
    }
}

/// Reads `Retry-After`: seconds, or a date.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    parse_retry_after(text, OffsetDateTime::now_utc())
}

fn parse_retry_after(text: &str, now: OffsetDateTime) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = OffsetDateTime::parse(text, &Rfc2822).ok()?;
    Some(Duration::try_from(date - now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn causes_that_may_pass_are_told_from_definitive_ones() {
        let kinds = [
            (ErrorKind::ConnectionRefused, true),
            (ErrorKind::ConnectionReset, true),
            (ErrorKind::HostUnreachable, true),
            (ErrorKind::UnexpectedEof, true),
            (ErrorKind::InvalidData, false),
            (ErrorKind::PermissionDenied, false),
        ];
        for (kind, expected) in kinds {
            assert_eq!(is_passing_cause(&io::Error::from(kind)), expected, "{kind:?}");
        }
        for (text, expected) in [
            ("failed to lookup address information: Temporary failure in name resolution", true),
            ("failed to lookup address information: Name or service not known", false),
            ("invalid peer certificate: UnknownIssuer", false),
            ("invalid HTTP version parsed", false),
            ("connection closed before message completed", true),
        ] {
            assert_eq!(is_passing_cause(&io::Error::other(text)), expected, "{text}");
        }
    }

    #[test]
    fn retry_after_is_a_number_of_seconds_or_a_date() {
        let now = datetime!(2026-03-02 08:00:00 UTC);
        for (text, expected) in [
            ("120", Some(120)),
            ("Mon, 02 Mar 2026 08:00:30 GMT", Some(30)),
            ("Mon, 02 Mar 2026 07:00:00 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
        ] {
            assert_eq!(parse_retry_after(text, now), expected.map(Duration::from_secs), "{text}");
        }
    }
}
