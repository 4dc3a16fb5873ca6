//! Why a DID is not trusted, or a credential does not count: one name a cause.

use serde::{Deserialize, Serialize};

/// Defines the codes, their names on the wire and their meaning in one table.
macro_rules! codes {
    ($($variant:ident $name:literal $meaning:literal,)*) => {
        /// A cause, by a name that does not change.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Code {
            $(#[doc = $meaning] #[serde(rename = $name)] $variant,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Name on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it means, in words.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

codes! {
    // The DID and its document.
    DidUnresolvable "did_unresolvable" "the DID Document cannot be had",
    DidMethodUnsupported "did_method_not_supported" "the DID method is neither did:web nor did:webvh",
    DidDocumentInvalid "did_document_invalid" "what was fetched is not the document of the DID",
    DidLogInvalid "did_log_invalid" "the log of the did:webvh is broken: a hash, a proof, a key or a time does not fit",
    DidScidMismatch "did_scid_mismatch" "the log does not begin with what the identifier in the DID was made from",
    DidDeactivated "did_deactivated" "the DID was deactivated",
    HostRefused "host_refused" "the host is not one this indexer may contact",
    NotFetched "not_fetched" "the resource cannot be had",
    TooLarge "too_large" "there is more of it than is looked at",
    GivenUp "given_up" "the material takes too long to judge, or is made to break the evaluation",
    // Presentations.
    NoPresentation "no_presentation" "the DID Document links to no presentation of trust credentials",
    PresentationInvalid "presentation_invalid" "the presentation is not a verifiable presentation",
    HolderDiffers "holder_differs" "the holder of the presentation is not the DID",
    // Proofs.
    ProofMissing "proof_missing" "there is no proof",
    ProofUnsupported "proof_not_supported" "the proof is of a kind this indexer does not verify",
    ProofInvalid "proof_invalid" "the signature does not belong to the document",
    ProofExpired "proof_expired" "the proof has expired",
    WrongSigner "wrong_signer" "the proof was made by somebody else than the issuer or holder",
    KeyUnknown "key_unknown" "the signer's DID Document has no such verification method",
    KeyNotForPurpose "key_not_for_purpose" "the signer's DID Document does not allow the key for this purpose",
    KeyRevoked "key_revoked" "the signer's DID Document has revoked the key, or it has expired",
    KeyUnusable "key_unusable" "the verification method holds no usable Ed25519 key",
    // Credentials.
    CredentialInvalid "credential_invalid" "the credential does not follow the data model",
    SubjectDiffers "subject_differs" "the credential is about another DID",
    NotYetValid "credential_not_yet_valid" "the credential is not valid yet",
    CredentialExpired "credential_expired" "the credential is not valid any more",
    // Schemas.
    SchemaUnsupported "schema_not_supported" "the credential is of no schema of this registry",
    SchemaUnknown "schema_unknown" "the registry has no such credential schema",
    SchemaCredentialInvalid "schema_credential_invalid" "the credential of the schema does not follow the data model",
    SchemaCredentialIssuer "schema_credential_issuer" "the credential of the schema was not issued by the schema's ecosystem",
    SchemaDigestMismatch "schema_digest_mismatch" "a schema is not the one its integrity digest names",
    SchemaUnusable "schema_unusable" "the JSON Schema cannot be used",
    SchemaMismatch "schema_mismatch" "the credential does not fit its JSON Schema",
    // The registry's word on it.
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
    // The whole.
    NoServiceCredential "no_service_credential" "the DID has no valid service credential",
    NoOperatorCredential "no_operator_credential" "a service that vouches for itself has no valid organisation or persona credential",
    EcosystemNotAllowed "ecosystem_not_allowed" "the essential schema belongs to an ecosystem that is not relied on here",
    ParentNotTrusted "parent_not_trusted" "the service that issued the service credential is not trusted",
    Cycle "cycle" "the services vouch for each other in a circle",
    TooDeep "too_deep" "the chain of services is too long",
}

/// A cause with its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// Which.
    pub code: Code,
    /// What exactly.
    pub message: String,
    /// DID it is about, when that is not the one that was judged.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub did: Option<String>,
    /// Where the presentation is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub presentation: Option<String>,
    /// Id of the credential.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub credential: Option<String>,
}

impl Reason {
    /// With its meaning alone.
    pub fn bare(code: Code) -> Self {
        Self { code, message: code.meaning().to_owned(), did: None, presentation: None, credential: None }
    }

    /// With what exactly.
    pub fn new(code: Code, detail: impl std::fmt::Display) -> Self {
        let mut message = format!("{}: {detail}", code.meaning());
        // Texts of others stand in it.
        message.truncate(message.floor_char_boundary(LONGEST));
        Self { message, ..Self::bare(code) }
    }

    /// Whether the material could not be had, in contrast to being wrong.
    pub fn is_unresolvable(&self) -> bool {
        matches!(
            self.code,
            Code::DidUnresolvable | Code::DidMethodUnsupported | Code::HostRefused | Code::NotFetched | Code::TooLarge
        )
    }
}

impl From<Code> for Reason {
    fn from(code: Code) -> Self {
        Self::bare(code)
    }
}

/// Longest message.
const LONGEST: usize = 600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_own_name_and_travels_by_it() {
        let names: std::collections::BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        for code in Code::ALL {
            assert_eq!(serde_json::to_value(code).expect("text"), code.as_str());
        }
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let reason = Reason::new(Code::SchemaMismatch, "é".repeat(1_000));
        assert!(reason.message.len() <= LONGEST);
    }
}
