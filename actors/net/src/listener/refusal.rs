use super::settings::LimitNames;

/// The reason for which a listener refuses or ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The listener has its most connections, and each of them is in use.
    Connections,
    /// The address has its most connections, and each of them is in use.
    AddressConnections,
    /// The process has no descriptor left for it.
    Descriptors,
    /// It waited for its client and made room for another connection.
    Replaced,
    /// Its head did not come in time.
    HeadTimeout,
    /// Its head is longer than a listener takes, or has too many fields.
    HeadTooLarge,
    /// Its bytes are not HTTP.
    Malformed,
    /// Its body did not come in time.
    BodyTimeout,
    /// Its client does not read the answer.
    ReadTimeout,
    /// It began no further request. This is the usual end of a connection.
    Idle,
    /// Its TLS handshake failed or did not come in time.
    Tls,
    /// The request names no host, several, or one that is not served.
    Host,
    /// The request has a wrong token.
    Token,
}

impl Refusal {
    /// Label of the reason in metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::AddressConnections => "address_connections",
            Self::Descriptors => "descriptors",
            Self::Replaced => "replaced",
            Self::HeadTimeout => "head_timeout",
            Self::HeadTooLarge => "head_too_large",
            Self::Malformed => "malformed",
            Self::BodyTimeout => "body_timeout",
            Self::ReadTimeout => "read_timeout",
            Self::Idle => "idle",
            Self::Tls => "tls",
            Self::Host => "host",
            Self::Token => "token",
        }
    }

    /// Setting that moves the limit, for the log.
    pub(super) fn setting(self, names: &LimitNames) -> &'static str {
        match self {
            Self::Connections | Self::Replaced => names.connections,
            Self::AddressConnections => names.per_address,
            Self::Descriptors => "the process's limit of open files",
            Self::HeadTimeout | Self::BodyTimeout => names.header_timeout,
            Self::ReadTimeout | Self::Idle => names.idle_timeout,
            Self::Tls => names.tls,
            Self::Host => names.hosts,
            Self::HeadTooLarge | Self::Malformed | Self::Token => "none",
        }
    }
}
