//! The file format of services.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_trust::{EssentialCredential, RejectionCode, proof::ProofSuite};

/// The ecosystem of the services.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EcosystemSpec {
    /// Saved name of its id.
    pub name: String,
    /// Name of the service that has the same DID.
    pub service: String,
    /// Name of the account that operates the corporations of all services and pays their fees.
    pub clerk: String,
}

/// A credential schema of the ecosystem.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemaSpec {
    /// Short name. The id is saved as `<name>.schema`, the root participant as `<name>.root`.
    pub name: String,
    /// The essential schema, if it is one.
    pub essential: Option<EssentialCredential>,
    /// JSON schema of another one, or another text of the essential one.
    pub json: Option<String>,
    /// Onboarding mode of issuers.
    pub issuers: IssuerOnboarding,
    /// Onboarding mode of holders.
    pub holders: HolderOnboarding,
    /// Fee that an issuer pays the ecosystem for its validation.
    #[serde(default)]
    pub fees: u64,
}

impl SchemaSpec {
    /// Returns the JSON schema.
    pub fn text(&self) -> &str {
        let own = self.essential.map(EssentialCredential::schema);
        self.json.as_deref().or(own).unwrap_or_default()
    }
}

/// A phase of provisioning, which a step runs for all services: a few transactions with many messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProvisioningPhase {
    /// DIDs, documents and corporations.
    Found,
    /// The ecosystem with its schemas, their credentials, and its root participants.
    Constitute,
    /// Participants of issuers.
    Authorise,
    /// Participants of holders.
    Admit,
    /// Credentials anchored early.
    AnchorEarly,
    /// Credentials anchored in time, or not at all.
    Anchor,
    /// Credentials anchored late.
    AnchorLate,
    /// Revocations and slashes.
    Withdraw,
}

/// Onboarding mode of issuers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IssuerOnboarding {
    /// An issuer creates its participant itself.
    Open,
    /// The ecosystem validates an issuer.
    Ecosystem,
}

/// Onboarding mode of holders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HolderOnboarding {
    /// The issuer validates a holder.
    Issuer,
    /// Holders need no participant.
    Open,
}

/// A service: a DID with a document, credentials, a corporation and participants.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceSpec {
    /// Name, also in the DID.
    pub name: String,
    /// Description of the case that the service demonstrates.
    pub shows: String,
    /// Expected verdict.
    pub expect: ExpectedVerdict,
    /// Method of the DID.
    #[serde(default)]
    pub method: ServiceDidMethod,
    /// Format of the credentials that it holds.
    #[serde(default)]
    pub suite: CredentialFormat,
    /// Form of its log, document and credentials.
    #[serde(default)]
    pub form: ServiceForm,
    /// Schemas that it issues credentials of.
    #[serde(default)]
    pub issues: BTreeMap<String, IssuerSpec>,
    /// Credentials that it holds, by schema.
    #[serde(default)]
    pub credentials: BTreeMap<String, CredentialSpec>,
    /// Flaw of its documents or credentials.
    pub fault: Option<IntendedFlaw>,
    /// Further service entries of its document.
    #[serde(default)]
    pub offers: Vec<DidServiceSpec>,
}

/// A service entry of a DID Document without a relation to trust.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DidServiceSpec {
    /// Fragment of its id.
    pub fragment: String,
    /// Type.
    pub r#type: String,
    /// Endpoint.
    pub endpoint: Value,
}

/// The participant of an issuer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IssuerSpec {
    /// Fee that a holder pays for its validation.
    pub fees: u64,
    /// Seconds until the participant ends.
    pub ends: Option<u32>,
    /// Outcome of the participant.
    pub fate: ParticipantOutcome,
}

/// A credential, with the participant of its holder.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CredentialSpec {
    /// Name of the issuing service; the service itself if absent.
    pub by: Option<String>,
    /// Validity in seconds.
    pub valid: Option<u32>,
    /// Seconds until the participant of the holder ends.
    pub ends: Option<u32>,
    /// Outcome of the participant.
    pub fate: ParticipantOutcome,
    /// Time at which its digest is anchored.
    pub anchored: AnchorTiming,
}

/// Outcome of a participant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ParticipantOutcome {
    /// It becomes active, and ends by its end date if it has one.
    #[default]
    Active,
    /// It is not created.
    Never,
    /// It is not active: it is not validated, or it begins in a year.
    Idle,
    /// The ecosystem revokes it.
    Revoked,
    /// The ecosystem slashes it.
    Slashed,
}

/// Time at which a digest is anchored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnchorTiming {
    /// Before any issuer exists.
    Early,
    /// While all issuers are active.
    #[default]
    InTime,
    /// After the end of the short-lived issuers.
    Late,
    /// Never.
    Never,
}

/// Method of a DID.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServiceDidMethod {
    /// did:web: a document at a URL.
    #[default]
    Web,
    /// did:webvh: a log at a URL.
    Webvh,
    /// A DID that cannot be resolved.
    Example,
}

/// Form of the log, the document and the credentials of a service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceForm {
    /// That of this project.
    #[default]
    Present,
    /// That of the registry's first agents. Its DID is a did:webvh.
    FirstGeneration,
}

/// Format of credentials and presentations: proof suite and data model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum CredentialFormat {
    /// Data model 2.0, canonical JSON.
    #[default]
    #[serde(rename = "eddsa-jcs-2022")]
    Jcs,
    /// Data model 2.0, canonical RDF.
    #[serde(rename = "eddsa-rdfc-2022")]
    Rdfc,
    /// Data model 1.1, canonical RDF.
    #[serde(rename = "Ed25519Signature2020")]
    Signature2020,
}

impl CredentialFormat {
    /// Returns the proof suite.
    pub fn suite(self) -> ProofSuite {
        match self {
            Self::Jcs => ProofSuite::EddsaJcs2022,
            Self::Rdfc => ProofSuite::EddsaRdfc2022,
            Self::Signature2020 => ProofSuite::Ed25519Signature2020,
        }
    }
}

/// Expected verdict about a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ExpectedVerdict {
    /// It is trusted.
    Trusted,
    /// It is untrusted, and this is one of the reasons.
    Untrusted(RejectionCode),
}

impl TryFrom<String> for ExpectedVerdict {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "trusted" {
            return Ok(Self::Trusted);
        }
        let code = RejectionCode::ALL.iter().find(|code| code.as_str() == text);
        code.map(|code| Self::Untrusted(*code)).ok_or_else(|| format!("{text:?} is neither `trusted` nor a reason"))
    }
}

impl From<ExpectedVerdict> for String {
    fn from(expectation: ExpectedVerdict) -> Self {
        match expectation {
            ExpectedVerdict::Trusted => "trusted".to_owned(),
            ExpectedVerdict::Untrusted(code) => code.as_str().to_owned(),
        }
    }
}

/// Flaw of the documents or credentials of a service. A flaw of a credential applies to the first one, in the order of the
/// schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntendedFlaw {
    /// No document is served.
    Absent,
    /// The document has another id.
    OtherId,
    /// An entry of the log was changed after it was signed.
    BrokenLog,
    /// The DID was made from another log.
    OtherScid,
    /// The log deactivates the DID.
    Deactivated,
    /// The document lacks the key of the signature of the credential.
    KeyMissing,
    /// The document allows that key for authentication alone.
    KeyForAuthentication,
    /// The document revokes that key.
    KeyRevoked,
    /// The document has a malformed form of that key.
    KeyUnusable,
    /// The presentation is linked and not served.
    PresentationAbsent,
    /// The presentation is linked over plain http on another host.
    PresentationOverHttp,
    /// The presentation has another type.
    NoPresentation,
    /// The presentation names another holder.
    OtherHolder,
    /// The presentation was changed after it was signed.
    PresentationChanged,
    /// The presentation has more proofs than the limit.
    ManyProofs,
    /// The credential has no proof.
    Unproved,
    /// The proof of the credential has an unknown suite.
    OtherSuite,
    /// The proof of the credential has expired.
    ProofExpired,
    /// Another service signed the credential.
    OtherSigner,
    /// The credential names no issuer.
    NoIssuer,
    /// The credential is about its issuer.
    OtherSubject,
    /// The credential becomes valid in ten years.
    NotYetValid,
    /// The credential has no reference to a credential of a schema.
    NoSchema,
    /// The credential of its schema names a schema that the registry lacks.
    UnknownSchema,
    /// The credential of its schema names no schema.
    SchemaNameless,
    /// The credential of its schema was issued by the service itself.
    SchemaByStranger,
    /// The credential names another digest of the credential of its schema.
    OtherSchemaDigest,
    /// The credential does not fit its schema.
    Mismatch,
}
