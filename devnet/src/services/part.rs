//! Services of a scenario, as its file describes them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_trust::{Code, Essential, proof::Suite};

/// The ecosystem the services live in.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EcosystemPart {
    /// Name under which its id is saved.
    pub name: String,
    /// Service whose DID it has.
    pub service: String,
    /// Account that operates every corporation of a service, and pays.
    pub clerk: String,
}

/// A credential schema of the ecosystem.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemaPart {
    /// Short name; its id is saved as `<name>.schema`, the ecosystem's participant as `<name>.root`.
    pub name: String,
    /// An essential schema it is.
    pub essential: Option<Essential>,
    /// Its text, when it is none.
    pub json: Option<String>,
    /// How one becomes an issuer.
    pub issuers: Issuers,
    /// How one becomes a holder.
    pub holders: Holders,
    /// What an issuer pays the ecosystem to be validated.
    #[serde(default)]
    pub fees: u64,
}

impl SchemaPart {
    /// Its text, as it is sent to the chain.
    pub fn text(&self) -> &str {
        match self.essential {
            Some(essential) => essential.schema(),
            None => self.json.as_deref().unwrap_or_default(),
        }
    }
}

/// What a step does for all services at once. Each is a few transactions of many messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// DIDs, documents and corporations.
    Found,
    /// The ecosystem with its schemas, their credentials, and its own participants.
    Constitute,
    /// Issuers.
    Authorise,
    /// Holders.
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

/// How one becomes an issuer of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Issuers {
    /// By saying so.
    Open,
    /// The ecosystem validates.
    Ecosystem,
}

/// How one becomes a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Holders {
    /// The issuer validates.
    Issuer,
    /// Nobody has to.
    Open,
}

/// A service: a DID with a document, credentials, a corporation and participants.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServicePart {
    /// Its name, also in its DID.
    pub name: String,
    /// What it shows, for people.
    pub shows: String,
    /// What must be found out about it.
    pub expect: Expectation,
    /// Method of its DID.
    #[serde(default)]
    pub method: Method,
    /// Form of the credentials it holds.
    #[serde(default)]
    pub suite: Form,
    /// Schemas it is an issuer of.
    #[serde(default)]
    pub issues: BTreeMap<String, IssuerPart>,
    /// Credentials it holds, by schema.
    #[serde(default)]
    pub credentials: BTreeMap<String, CredentialPart>,
    /// What is wrong with its material.
    pub fault: Option<Fault>,
    /// What else its document offers: fragment, type and endpoint.
    #[serde(default)]
    pub offers: Vec<Offer>,
}

/// An entry of a DID Document that has nothing to do with trust.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// Behind the `#` of its id.
    pub fragment: String,
    /// Its type.
    pub r#type: String,
    /// Its endpoint, as it stands.
    pub endpoint: Value,
}

/// An issuer's participant.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IssuerPart {
    /// What a holder pays to be validated.
    pub fees: u64,
    /// Seconds after which it ends.
    pub ends: Option<u32>,
    /// What becomes of it.
    pub fate: Fate,
}

/// A credential, with the participant that holds it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CredentialPart {
    /// Service that issues it; the service itself when left out.
    pub by: Option<String>,
    /// Seconds it is valid for.
    pub valid: Option<u32>,
    /// Seconds after which the holder's participant ends.
    pub ends: Option<u32>,
    /// What becomes of that.
    pub fate: Fate,
    /// When its digest is anchored.
    pub anchored: Anchored,
}

/// What becomes of a participant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// It takes effect, and ends by itself if it ends.
    #[default]
    Active,
    /// There is none.
    Never,
    /// It is not in effect: nobody validates it, or it begins in a year.
    Idle,
    /// The ecosystem revokes it.
    Revoked,
    /// The ecosystem slashes it.
    Slashed,
}

/// When a digest is anchored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Anchored {
    /// Before there is any issuer.
    Early,
    /// While all issuers are in force.
    #[default]
    InTime,
    /// After the short-lived ones have ended.
    Late,
    /// Not at all.
    Never,
}

/// Method of a DID.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// A document at a URL.
    #[default]
    Web,
    /// A log at a URL.
    Webvh,
    /// One nobody resolves.
    Example,
}

/// Form of credentials and presentations: how they are proved, and in which data model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum Form {
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

impl Form {
    /// How it is proved.
    pub fn suite(self) -> Suite {
        match self {
            Self::Jcs => Suite::EddsaJcs2022,
            Self::Rdfc => Suite::EddsaRdfc2022,
            Self::Signature2020 => Suite::Ed25519Signature2020,
        }
    }
}

/// What must be found out about a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Expectation {
    /// It is trusted.
    Trusted,
    /// It is not, and this is among the reasons.
    Because(Code),
}

impl TryFrom<String> for Expectation {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "trusted" {
            return Ok(Self::Trusted);
        }
        let code = Code::ALL.iter().find(|code| code.as_str() == text);
        code.map(|code| Self::Because(*code)).ok_or_else(|| format!("{text:?} is neither `trusted` nor a reason"))
    }
}

impl From<Expectation> for String {
    fn from(expectation: Expectation) -> Self {
        match expectation {
            Expectation::Trusted => "trusted".to_owned(),
            Expectation::Because(code) => code.as_str().to_owned(),
        }
    }
}

/// What is wrong with the material of a service. What concerns a credential concerns its first, in the order of the schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// No document is served.
    Absent,
    /// The document has another id.
    OtherId,
    /// An entry of the log was changed after it was signed.
    BrokenLog,
    /// The DID was made from another log.
    OtherScid,
    /// The log ends.
    Deactivated,
    /// The document lacks the key the credential was signed with.
    KeyMissing,
    /// The document allows that key for authentication alone.
    KeyForAuthentication,
    /// The document has revoked it.
    KeyRevoked,
    /// The document spells it wrongly.
    KeyUnusable,
    /// The presentation is linked and not served.
    PresentationAbsent,
    /// The presentation is linked over plain http on another host.
    PresentationOverHttp,
    /// The presentation says that it is something else.
    NoPresentation,
    /// The presentation names another holder.
    OtherHolder,
    /// The presentation was changed after it was signed.
    PresentationChanged,
    /// The presentation has more proofs than anybody looks at.
    ManyProofs,
    /// The credential has no proof.
    Unproved,
    /// The credential's proof is of a suite nobody here knows.
    OtherSuite,
    /// The credential's proof has expired.
    ProofExpired,
    /// Somebody else signed the credential.
    OtherSigner,
    /// The credential names no issuer.
    NoIssuer,
    /// The credential is about its issuer.
    OtherSubject,
    /// The credential becomes valid in ten years.
    NotYetValid,
    /// The credential refers to no credential of a schema.
    NoSchema,
    /// The credential of its schema names one the registry does not have.
    UnknownSchema,
    /// The credential of its schema names none.
    SchemaNameless,
    /// The credential of its schema was issued by the service itself.
    SchemaByStranger,
    /// The credential names another digest of the credential of its schema.
    OtherSchemaDigest,
    /// The credential does not fit its schema.
    Mismatch,
}
