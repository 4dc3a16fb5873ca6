//! The reasons for which a message is refused.

/// Why a message was refused. The sender learns none of these: one answer serves them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// More bytes than [`MAX_MESSAGE_BYTES`](crate::limits::MAX_MESSAGE_BYTES), or than the configured limit.
    #[error("the envelope is too large")]
    TooLarge,
    /// More than [`MAX_JSON_LEVELS`](crate::limits::MAX_JSON_LEVELS) levels.
    #[error("the JSON is nested too deep")]
    TooDeep,
    /// More than [`MAX_JSON_VALUES`](crate::limits::MAX_JSON_VALUES) values.
    #[error("the JSON has too many values")]
    TooManyValues,
    /// No JSON, no UTF-8, or an object that repeats a member.
    #[error("it is no JSON, or an object repeats a member")]
    NotJson,
    /// No member of an envelope, or one that is not of its type.
    #[error("it is no encrypted envelope in the general JSON form")]
    NotAnEnvelope,
    /// A message as it would stand inside of an envelope.
    #[error("it is a message without encryption")]
    NotEncrypted,
    /// A signed message without encryption.
    #[error("it is signed without encryption")]
    OnlySigned,
    /// An envelope, or a signed message, inside of the envelope.
    #[error("the envelope holds another envelope")]
    Nested,
    /// A message of the routing protocol.
    #[error("messages are not forwarded")]
    Forward,
    /// None, or more than [`MAX_RECIPIENTS`](crate::limits::MAX_RECIPIENTS).
    #[error("the envelope has no recipient, or too many")]
    Recipients,
    /// No JSON, too long, or a member that must be understood.
    #[error("the protected header is not one of DIDComm v2")]
    Header,
    /// Another media type than that of encrypted messages.
    #[error("the protected header names another typ than application/didcomm-encrypted+json")]
    Typ,
    /// Another algorithm than ECDH-1PU+A256KW and ECDH-ES+A256KW.
    #[error("the key agreement is neither ECDH-1PU+A256KW nor ECDH-ES+A256KW")]
    Alg,
    /// Another content encryption than A256CBC-HS512.
    #[error("the content encryption is not A256CBC-HS512")]
    Enc,
    /// No X25519 key, or one of small order.
    #[error("the ephemeral key is no usable X25519 key")]
    EphemeralKey,
    /// It is not the `skid`.
    #[error("apu does not name the key of the sender")]
    Apu,
    /// It is not the digest of the recipients' key ids.
    #[error("apv is not that of the recipients")]
    Apv,
    /// No DID URL with a fragment, or too long.
    #[error("the key id of the sender is no DID URL")]
    SenderKeyId,
    /// No key id of the recipients is one of ours.
    #[error("no recipient is a key of this agent")]
    RecipientKey,
    /// The document of the sender does not have the key under `keyAgreement`.
    #[error("the sender's DID Document does not have its key under keyAgreement")]
    SenderKey,
    /// The keys do not open it, or a byte of it was changed.
    #[error("it does not decrypt")]
    Decryption,
    /// A member of the message is missing, of another type, or too long.
    #[error("the envelope holds no message of DIDComm v2")]
    NotAMessage,
    /// The DID of the key is not the DID in `from`.
    #[error("from is not the DID of the key that encrypted")]
    From,
    /// `to` does not have the DID of the key that opens it.
    #[error("to does not have the DID that it was encrypted for")]
    To,
    /// `expires_time` has passed.
    #[error("it has expired")]
    Expired,
    /// Without a sender, only the end of a connection is taken.
    #[error("it has no authenticated sender")]
    Anonymous,
    /// No compact JWT with these claims.
    #[error("from_prior is no JWT of a rotation")]
    FromPriorForm,
    /// No key under `authentication` of its issuer made it.
    #[error("from_prior is not signed by its issuer")]
    FromPriorProof,
    /// It names another DID than the sender, or was made too long ago or in the future.
    #[error("from_prior is for another DID, or of another time")]
    FromPriorClaims,
    /// Its issuer is not the peer of the connection.
    #[error("from_prior does not continue the connection")]
    FromPriorIssuer,
}

impl Refusal {
    /// Stable code, for metrics and logs.
    pub fn code(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::TooDeep => "too_deep",
            Self::TooManyValues => "too_many_values",
            Self::NotJson => "not_json",
            Self::NotAnEnvelope => "not_an_envelope",
            Self::NotEncrypted => "not_encrypted",
            Self::OnlySigned => "only_signed",
            Self::Nested => "nested",
            Self::Forward => "forward",
            Self::Recipients => "recipients",
            Self::Header => "header",
            Self::Typ => "typ",
            Self::Alg => "alg",
            Self::Enc => "enc",
            Self::EphemeralKey => "ephemeral_key",
            Self::Apu => "apu",
            Self::Apv => "apv",
            Self::SenderKeyId => "sender_key_id",
            Self::RecipientKey => "recipient_key",
            Self::SenderKey => "sender_key",
            Self::Decryption => "decryption",
            Self::NotAMessage => "not_a_message",
            Self::From => "from",
            Self::To => "to",
            Self::Expired => "expired",
            Self::Anonymous => "anonymous",
            Self::FromPriorForm => "from_prior_form",
            Self::FromPriorProof => "from_prior_proof",
            Self::FromPriorClaims => "from_prior_claims",
            Self::FromPriorIssuer => "from_prior_issuer",
        }
    }

    /// Whether a newer document of the sender could change the answer: it may have rotated its key.
    pub fn may_be_an_old_document(self) -> bool {
        matches!(self, Self::SenderKey | Self::Decryption)
    }
}
