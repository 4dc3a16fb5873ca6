//! Verifiable credentials and presentations of the W3C data models 1.1 and 2.0: the members that an evaluation needs.

use serde_json::Value;
use svc_wire::timestamp;

use crate::{
    did_document::has_type,
    rejection::{RejectionCode, RejectionReason},
};

/// A credential that follows the data model.
#[derive(Debug, Clone)]
pub struct VerifiableCredential<'a> {
    /// The whole document.
    pub body: &'a Value,
    /// DID of its issuer.
    pub issuer: &'a str,
    /// Its only subject.
    pub subject: &'a Value,
    /// Start of validity, nanoseconds since the epoch.
    pub valid_from: Option<i128>,
    /// End of validity, nanoseconds since the epoch.
    pub valid_until: Option<i128>,
}

const CONTEXT_V1: &str = "https://www.w3.org/2018/credentials/v1";
const CONTEXT_V2: &str = "https://www.w3.org/ns/credentials/v2";

/// Whether a document follows one of the models: its first context is that of the model.
fn follows_data_model(body: &Value) -> bool {
    let first = match &body["@context"] {
        Value::Array(several) => several.first(),
        one => Some(one),
    };
    matches!(first.and_then(Value::as_str), Some(CONTEXT_V1 | CONTEXT_V2))
}

/// The id of a member: the member itself, or the `id` of an object.
fn member_id(member: &Value) -> Option<&str> {
    member.as_str().or_else(|| member["id"].as_str())
}

/// An optional text. Fails for any other value: as linked data `["x"]` equals `"x"`, so ignoring it would skip a check.
pub fn optional_text(member: &Value) -> Result<Option<&str>, String> {
    match member {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        other => Err(format!("{other} is no text")),
    }
}

impl<'a> VerifiableCredential<'a> {
    /// Parses a credential. Fails when it does not follow the data model.
    pub fn parse(body: &'a Value) -> Result<Self, RejectionReason> {
        let invalid = |detail: &str| RejectionReason::new(RejectionCode::CredentialInvalid, detail);
        if !body.is_object() {
            return Err(invalid("it is no object"));
        }
        if !follows_data_model(body) {
            return Err(invalid("its first @context is that of no data model"));
        }
        if !has_type(body, "VerifiableCredential") {
            return Err(invalid("its type is not VerifiableCredential"));
        }
        let issuer = member_id(&body["issuer"]).filter(|issuer| issuer.starts_with("did:"));
        let subject = match &body["credentialSubject"] {
            Value::Array(several) if several.len() == 1 => &several[0],
            one => one,
        };
        if !subject.is_object() {
            return Err(invalid("it does not have exactly one credentialSubject"));
        }
        let time = |name: &str| match body.get(name) {
            None => Ok(None),
            Some(text) => {
                let instant = text.as_str().and_then(timestamp::parse_rfc3339);
                instant
                    .map(|instant| Some(timestamp::unix_nanos(&instant)))
                    .ok_or_else(|| invalid(&format!("{name} is no instant")))
            }
        };
        // As linked data, a credential of one model can have the members of the other model.
        let [from, until] = [["validFrom", "issuanceDate"], ["validUntil", "expirationDate"]]
            .map(|names| names.into_iter().map(time).collect::<Result<Vec<_>, _>>());
        Ok(Self {
            body,
            issuer: issuer.ok_or_else(|| invalid("its issuer is no DID"))?,
            subject,
            valid_from: from?.into_iter().flatten().max(),
            valid_until: until?.into_iter().flatten().min(),
        })
    }

    /// Checks that `now`, in nanoseconds since the epoch, is inside of the period of validity.
    pub fn check_validity_period(&self, now: i128) -> Result<(), RejectionReason> {
        let text = |nanos: i128| timestamp::iso_millis(&timestamp::from_unix_nanos(nanos));
        if let Some(from) = self.valid_from.filter(|from| *from > now) {
            return Err(RejectionReason::new(RejectionCode::CredentialNotYetValid, format!("from {}", text(from))));
        }
        if let Some(until) = self.valid_until.filter(|until| *until <= now) {
            return Err(RejectionReason::new(RejectionCode::CredentialExpired, format!("until {}", text(until))));
        }
        Ok(())
    }

    /// URL of the credential of its schema, with the integrity digest if there is one. Fails unless the credential names
    /// exactly one `JsonSchemaCredential`.
    pub fn schema_reference(&self) -> Result<(&'a str, Option<&'a str>), RejectionReason> {
        let schemas = match &self.body["credentialSchema"] {
            Value::Array(several) => several.as_slice(),
            one => std::slice::from_ref(one),
        };
        let mut found = schemas.iter().filter(|schema| has_type(schema, "JsonSchemaCredential"));
        let only = found.next().filter(|_| found.next().is_none());
        let url = match only {
            None => None,
            Some(schema) => {
                let integrity = optional_text(&schema["digestSRI"]);
                let integrity =
                    integrity.map_err(|detail| RejectionReason::new(RejectionCode::CredentialInvalid, detail))?;
                schema["id"].as_str().map(|id| (id, integrity))
            }
        };
        url.ok_or_else(|| {
            RejectionReason::new(
                RejectionCode::SchemaUnsupported,
                "credentialSchema does not name one JsonSchemaCredential",
            )
        })
    }
}

/// A presentation that follows the data model.
#[derive(Debug, Clone)]
pub struct VerifiablePresentation<'a> {
    /// Its id, if it has one.
    pub id: Option<&'a str>,
    /// Id of the holder, if it names one.
    pub holder: Option<&'a str>,
    /// Its credentials, not parsed.
    pub credentials: &'a [Value],
}

/// Credentials that one presentation may have.
const MAX_PRESENTED_CREDENTIALS: usize = 64;

impl<'a> VerifiablePresentation<'a> {
    /// Parses a presentation. Fails when it does not follow the data model or has too many credentials.
    pub fn parse(body: &'a Value) -> Result<Self, RejectionReason> {
        let invalid = |detail: &str| RejectionReason::new(RejectionCode::PresentationInvalid, detail);
        if !follows_data_model(body) || !has_type(body, "VerifiablePresentation") {
            return Err(invalid("its @context or type is not that of a VerifiablePresentation"));
        }
        let credentials = match &body["verifiableCredential"] {
            Value::Array(several) => several.as_slice(),
            Value::Null => &[],
            one => std::slice::from_ref(one),
        };
        if credentials.is_empty() {
            return Err(invalid("it holds no credential"));
        }
        if credentials.len() > MAX_PRESENTED_CREDENTIALS {
            let count = format!("{} credentials; at most {MAX_PRESENTED_CREDENTIALS}", credentials.len());
            return Err(RejectionReason::new(RejectionCode::TooLarge, count));
        }
        let holder = member_id(&body["holder"]);
        if holder.is_none() && !body["holder"].is_null() {
            return Err(invalid("its holder is no id"));
        }
        Ok(Self { id: body["id"].as_str(), holder, credentials })
    }
}
