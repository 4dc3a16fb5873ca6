//! Verifiable credentials and presentations of the W3C data models 1.1 and 2.0, as far as trust depends on them.

use serde_json::Value;
use svc_wire::instant;

use crate::{
    document::is_of_type,
    reason::{Code, Reason},
};

/// A credential that follows the data model.
#[derive(Debug, Clone)]
pub struct Credential<'a> {
    /// All of it.
    pub body: &'a Value,
    /// DID of its issuer.
    pub issuer: &'a str,
    /// Its only subject.
    pub subject: &'a Value,
    /// Since when it is valid, nanoseconds since the epoch.
    pub valid_from: Option<i128>,
    /// Until when.
    pub valid_until: Option<i128>,
}

const MODEL_1: &str = "https://www.w3.org/2018/credentials/v1";
const MODEL_2: &str = "https://www.w3.org/ns/credentials/v2";

/// Whether a document follows one of the models: its context begins with the model's.
fn is_of_a_model(body: &Value) -> bool {
    let first = match &body["@context"] {
        Value::Array(several) => several.first(),
        one => Some(one),
    };
    matches!(first.and_then(Value::as_str), Some(MODEL_1 | MODEL_2))
}

/// The id of a member that is an id, or an object with one.
fn id_of(member: &Value) -> Option<&str> {
    member.as_str().or_else(|| member["id"].as_str())
}

/// A text that may be left out, but not be something else: as linked data `["x"]` is `"x"`, and would be passed over here.
pub fn optional_text(member: &Value) -> Result<Option<&str>, String> {
    match member {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        other => Err(format!("{other} is no text")),
    }
}

impl<'a> Credential<'a> {
    /// Reads a credential.
    pub fn read(body: &'a Value) -> Result<Self, Reason> {
        let wrong = |what: &str| Reason::new(Code::CredentialInvalid, what);
        if !body.is_object() {
            return Err(wrong("it is no object"));
        }
        if !is_of_a_model(body) {
            return Err(wrong("its @context begins with none of the data models'"));
        }
        if !is_of_type(body, "VerifiableCredential") {
            return Err(wrong("its type is not VerifiableCredential"));
        }
        let issuer = id_of(&body["issuer"]).filter(|issuer| issuer.starts_with("did:"));
        let subject = match &body["credentialSubject"] {
            Value::Array(several) if several.len() == 1 => &several[0],
            one => one,
        };
        if !subject.is_object() {
            return Err(wrong("it has not exactly one credentialSubject"));
        }
        let time = |name: &str| match body.get(name) {
            None => Ok(None),
            Some(text) => {
                let instant = text.as_str().and_then(instant::parse_rfc3339);
                instant
                    .map(|instant| Some(instant::nanos(&instant)))
                    .ok_or_else(|| wrong(&format!("{name} is no instant")))
            }
        };
        // As linked data a credential of one model can be written as one of the other, with the words of the first.
        let [from, until] = [["validFrom", "issuanceDate"], ["validUntil", "expirationDate"]]
            .map(|names| names.into_iter().map(time).collect::<Result<Vec<_>, _>>());
        Ok(Self {
            body,
            issuer: issuer.ok_or_else(|| wrong("its issuer is no DID"))?,
            subject,
            valid_from: from?.into_iter().flatten().max(),
            valid_until: until?.into_iter().flatten().min(),
        })
    }

    /// Checks the time it is valid in.
    pub fn check_time(&self, now: i128) -> Result<(), Reason> {
        let shown = |nanos: i128| instant::iso_millis(&instant::from_nanos(nanos));
        if let Some(from) = self.valid_from.filter(|from| *from > now) {
            return Err(Reason::new(Code::NotYetValid, format!("from {}", shown(from))));
        }
        if let Some(until) = self.valid_until.filter(|until| *until <= now) {
            return Err(Reason::new(Code::CredentialExpired, format!("until {}", shown(until))));
        }
        Ok(())
    }

    /// Where the credential of its schema is, with the digest it should have.
    pub fn schema(&self) -> Result<(&'a str, Option<&'a str>), Reason> {
        let schemas = match &self.body["credentialSchema"] {
            Value::Array(several) => several.as_slice(),
            one => std::slice::from_ref(one),
        };
        let mut found = schemas.iter().filter(|schema| is_of_type(schema, "JsonSchemaCredential"));
        let only = found.next().filter(|_| found.next().is_none());
        let url = match only {
            None => None,
            Some(schema) => {
                let integrity = optional_text(&schema["digestSRI"]);
                let integrity = integrity.map_err(|what| Reason::new(Code::CredentialInvalid, what))?;
                schema["id"].as_str().map(|id| (id, integrity))
            }
        };
        url.ok_or_else(|| {
            Reason::new(Code::SchemaUnsupported, "credentialSchema does not name one JsonSchemaCredential")
        })
    }
}

/// A presentation: who shows what.
#[derive(Debug, Clone)]
pub struct Presentation<'a> {
    /// Its id.
    pub id: Option<&'a str>,
    /// Who shows it, if it says so.
    pub holder: Option<&'a str>,
    /// Its credentials, unread.
    pub credentials: &'a [Value],
}

/// Most credentials of a presentation that are looked at.
pub const MOST_CREDENTIALS: usize = 64;

impl<'a> Presentation<'a> {
    /// Reads a presentation.
    pub fn read(body: &'a Value) -> Result<Self, Reason> {
        let wrong = |what: &str| Reason::new(Code::PresentationInvalid, what);
        if !is_of_a_model(body) || !is_of_type(body, "VerifiablePresentation") {
            return Err(wrong("its @context or type is not that of a VerifiablePresentation"));
        }
        let credentials = match &body["verifiableCredential"] {
            Value::Array(several) => several.as_slice(),
            Value::Null => &[],
            one => std::slice::from_ref(one),
        };
        if credentials.is_empty() {
            return Err(wrong("it holds no credential"));
        }
        if credentials.len() > MOST_CREDENTIALS {
            let count = format!("{} credentials; at most {MOST_CREDENTIALS}", credentials.len());
            return Err(Reason::new(Code::TooLarge, count));
        }
        let holder = id_of(&body["holder"]);
        if holder.is_none() && !body["holder"].is_null() {
            return Err(wrong("its holder is no id"));
        }
        Ok(Self { id: body["id"].as_str(), holder, credentials })
    }
}
