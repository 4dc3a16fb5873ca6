//! Reasons for which a DID is not trusted or a credential does not count. Each cause has one code.

use serde::{Deserialize, Serialize};

use crate::evidence_request::EvidenceRequest;

/// Defines the codes, their names on the wire and their descriptions in one table.
macro_rules! codes {
    ($($variant:ident $name:literal $description:literal,)*) => {
        /// Code of a cause. Its name on the wire is stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum RejectionCode {
            $(#[doc = $description] #[serde(rename = $name)] $variant,)*
        }

        impl RejectionCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Name on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The cause, as one sentence.
            pub fn description(self) -> &'static str {
                match self { $(Self::$variant => $description,)* }
            }
        }
    };
}

codes! {
    // The DID and its document.
    DidUnresolvable "did_unresolvable" "the DID Document cannot be fetched",
    DidMethodUnsupported "did_method_not_supported" "the DID method is neither did:web nor did:webvh",
    DidDocumentInvalid "did_document_invalid" "the fetched document is not the DID Document of the DID",
    DidLogInvalid "did_log_invalid" "the log of the did:webvh is not valid: a hash, a proof, a key or a time does not match",
    DidScidMismatch "did_scid_mismatch" "the first entry of the log does not give the identifier in the DID",
    DidDeactivated "did_deactivated" "the DID was deactivated",
    HostRefused "host_refused" "the host is not one this indexer may contact",
    ResourceUnavailable "not_fetched" "the resource cannot be fetched",
    TooLarge "too_large" "a limit of the evaluation is exceeded",
    EvaluationAbandoned "given_up" "the evaluation was stopped: the evidence exceeds a limit of time or memory, or made the evaluation fail",
    // Presentations.
    NoPresentation "no_presentation" "the DID Document links to no presentation of trust credentials",
    PresentationInvalid "presentation_invalid" "the presentation is not a verifiable presentation",
    HolderMismatch "holder_differs" "the holder of the presentation is not the DID",
    // Proofs.
    ProofMissing "proof_missing" "there is no proof",
    ProofUnsupported "proof_not_supported" "the proof is of a kind this indexer does not verify",
    ProofInvalid "proof_invalid" "the signature does not match the document",
    ProofExpired "proof_expired" "the proof has expired",
    ProofOfFuture "proof_not_yet_valid" "the proof states that it was made after the block",
    WrongSigner "wrong_signer" "the proof was not made by the issuer or holder",
    KeyUnknown "key_unknown" "the signer's DID Document has no such verification method",
    KeyNotForPurpose "key_not_for_purpose" "the signer's DID Document does not allow the key for this purpose",
    KeyRevoked "key_revoked" "the signer's DID Document has revoked the key, or it has expired",
    KeyUnusable "key_unusable" "the verification method holds no usable Ed25519 key",
    // Credentials.
    CredentialInvalid "credential_invalid" "the credential does not follow the data model",
    SubjectMismatch "subject_differs" "the credential is about another DID",
    CredentialNotYetValid "credential_not_yet_valid" "the credential is not valid yet",
    CredentialExpired "credential_expired" "the credential has expired",
    CredentialRevoked "credential_revoked" "the issuer's status list says that the credential is revoked",
    CredentialSuspended "credential_suspended" "the issuer's status list says that the credential is suspended",
    StatusUnsupported "status_not_supported" "the credential has a status of a kind that this indexer does not evaluate",
    StatusListInvalid "status_list_invalid" "the status list of the credential is not one of its issuer, or does not have its entry",
    // Schemas.
    SchemaUnsupported "schema_not_supported" "the credential does not name a schema of this registry",
    SchemaUnknown "schema_unknown" "the registry has no such credential schema",
    SchemaCredentialInvalid "schema_credential_invalid" "the credential of the schema does not follow the data model",
    SchemaCredentialIssuer "schema_credential_issuer" "the credential of the schema was not issued by the schema's ecosystem",
    SchemaDigestMismatch "schema_digest_mismatch" "a schema does not match its integrity digest",
    SchemaUnusable "schema_unusable" "the JSON Schema cannot be used",
    SchemaMismatch "schema_mismatch" "the credential does not match its JSON Schema",
    // The registry.
    DigestNotAnchored "digest_not_anchored" "the digest of the credential is not anchored on the chain",
    AnchoredTooEarly "anchored_too_early" "the digest was anchored before the issuer was authorised",
    AnchoredTooLate "anchored_too_late" "the digest was anchored after the issuer's authorisation had ended",
    IssuerNeverAuthorised "issuer_never_authorised" "the issuer has no ISSUER participant of the schema",
    IssuerRevoked "issuer_revoked" "the issuer's participant was revoked",
    IssuerSlashed "issuer_slashed" "the issuer's participant was slashed",
    IssuerNotEffective "issuer_not_effective" "the issuer's participant is not effective",
    HolderNeverAuthorised "holder_never_authorised" "the DID has no participant of the schema that holds the credential",
    HolderRevoked "holder_revoked" "the participant that holds the credential was revoked",
    HolderSlashed "holder_slashed" "the participant that holds the credential was slashed",
    HolderExpired "holder_expired" "the participant that holds the credential has expired",
    HolderNotEffective "holder_not_effective" "the participant that holds the credential is not effective",
    // The decision.
    NoServiceCredential "no_service_credential" "the DID has no valid service credential",
    NoOperatorCredential "no_operator_credential" "the service issued its own service credential, and has no valid organisation or persona credential",
    EcosystemNotAllowed "ecosystem_not_allowed" "the schema is like an essential one, and the configuration does not rely on its ecosystem: the credential is not essential",
    ParentNotTrusted "parent_not_trusted" "the service that issued the service credential is not trusted",
    TrustCycle "cycle" "the services vouch for each other in a cycle",
    TrustChainTooLong "too_deep" "the chain of services is too long",
}

/// A cause with its location.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectionReason {
    /// Code of the cause.
    pub code: RejectionCode,
    /// Description of the code, with details.
    pub message: String,
    /// The DID that the reason is about, when it is not the evaluated one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub did: Option<String>,
    /// URL of the presentation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub presentation: Option<String>,
    /// Id of the credential.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub credential: Option<String>,
    /// The request whose transient failure is the cause, where the outcome can depend on its answer.
    #[serde(skip)]
    pub unanswered: Option<Box<EvidenceRequest>>,
}

impl RejectionReason {
    /// A reason with the description of its code as the message.
    pub fn from_code(code: RejectionCode) -> Self {
        Self {
            code,
            message: code.description().to_owned(),
            did: None,
            presentation: None,
            credential: None,
            unanswered: None,
        }
    }

    /// A reason with details behind the description. Long messages are cut.
    pub fn new(code: RejectionCode, detail: impl std::fmt::Display) -> Self {
        let mut message = format!("{}: {detail}", code.description());
        // The details can contain texts of other parties, of any length.
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
        Self { message, ..Self::from_code(code) }
    }

    /// Whether evidence could not be fetched. The other codes are about evidence that is wrong.
    pub fn is_unresolvable(&self) -> bool {
        matches!(
            self.code,
            RejectionCode::DidUnresolvable
                | RejectionCode::DidMethodUnsupported
                | RejectionCode::HostRefused
                | RejectionCode::ResourceUnavailable
                | RejectionCode::TooLarge
        )
    }

    /// Whether nothing is decided: evidence could not be fetched that another try may fetch.
    pub fn is_undecided(&self) -> bool {
        self.code == RejectionCode::EvaluationAbandoned
            || (self.is_unresolvable() && self.code != RejectionCode::TooLarge)
    }
}

impl From<RejectionCode> for RejectionReason {
    fn from(code: RejectionCode) -> Self {
        Self::from_code(code)
    }
}

/// Longest message, in bytes.
const MAX_MESSAGE_BYTES: usize = 600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_own_name_and_serialises_to_it() {
        let names: std::collections::BTreeSet<_> = RejectionCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(names.len(), RejectionCode::ALL.len());
        for code in RejectionCode::ALL {
            assert_eq!(serde_json::to_value(code).expect("text"), code.as_str());
        }
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let reason = RejectionReason::new(RejectionCode::SchemaMismatch, "é".repeat(1_000));
        assert!(reason.message.len() <= MAX_MESSAGE_BYTES);
    }
}
