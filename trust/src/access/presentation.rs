//! A credential that a peer presents by itself to one endpoint, as a JWT (VC JOSE/COSE, `vp+jwt`).

use std::collections::HashMap;

use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use svc_wire::verification_method::KeyRelation;

use super::compact_jws::{AccessRejection, CompactJws, sign};

const PRESENTATION_TYPE: &str = "vp+jwt";
const CREDENTIALS_V2_CONTEXT: &str = "https://www.w3.org/ns/credentials/v2";
/// Longest life of a presentation, in seconds.
const MAX_SECONDS: i64 = 300;

/// Makes a presentation of a credential for one URL. `key_id` is the DID URL of a method under `authentication` of the holder's document;
/// times are in seconds since the epoch.
pub fn sign_access_presentation(
    credential: &Value,
    (holder, audience): (&str, &str),
    (id, issued_at): (&str, i64),
    (key_id, key): (&str, &SigningKey),
) -> String {
    let claims = json!({
        "@context": [CREDENTIALS_V2_CONTEXT],
        "type": ["VerifiablePresentation"],
        "verifiableCredential": [credential],
        "holder": holder,
        "iss": holder,
        "aud": audience,
        "iat": issued_at,
        "exp": issued_at + MAX_SECONDS,
        "jti": id,
    });
    sign(PRESENTATION_TYPE, key_id, &claims, key)
}

/// A presentation whose form was checked, and nothing else.
#[derive(Debug, Clone)]
pub struct AccessPresentation(CompactJws);

/// The credential of a verified presentation. It is still to be evaluated: issuer, schema, state and proof.
#[derive(Debug, Clone, PartialEq)]
pub struct PresentedCredential {
    /// DID of the holder.
    pub holder: String,
    /// The credential, whose subject is the holder.
    pub credential: Value,
    /// Id of the presentation, which may be used once.
    pub id: String,
    /// End of the presentation, in seconds since the epoch.
    pub expires_at: i64,
}

impl AccessPresentation {
    /// Reads a presentation.
    pub fn read(text: &str) -> Result<Self, AccessRejection> {
        CompactJws::read(text, PRESENTATION_TYPE).map(Self)
    }

    /// The DID whose document is needed.
    pub fn holder(&self) -> &str {
        self.0.signer()
    }

    /// Verifies the presentation by the document of its holder. `now` is in seconds since the epoch.
    pub fn verify(&self, audience: &str, document: &Value, now: i64) -> Result<PresentedCredential, AccessRejection> {
        let jws = &self.0;
        let holder = jws.signer();
        if jws.text("iss") != Some(holder) || jws.text("holder") != Some(holder) {
            return Err(AccessRejection::Issuer);
        }
        let key = jws.key(document, KeyRelation::Authentication, now)?;
        jws.verify(&key)?;
        if jws.text("aud") != Some(audience) {
            return Err(AccessRejection::Audience);
        }
        let (_, expires_at) = jws.check_times(MAX_SECONDS, now)?;
        let has_type = |value: &Value| match value {
            Value::String(one) => one == "VerifiablePresentation",
            Value::Array(several) => several.iter().any(|one| one == "VerifiablePresentation"),
            _ => false,
        };
        let id = jws.text("jti").filter(|id| (1..=128).contains(&id.len())).ok_or(AccessRejection::Claims)?;
        let credentials = jws.claims.get("verifiableCredential").and_then(Value::as_array);
        let is_presentation = jws.claims.get("type").is_some_and(has_type);
        let Some([credential]) = credentials.filter(|_| is_presentation).map(Vec::as_slice) else {
            return Err(AccessRejection::Claims);
        };
        // A credential about another DID proves nothing about the holder.
        if credential["credentialSubject"]["id"] != holder {
            return Err(AccessRejection::Subject);
        }
        Ok(PresentedCredential {
            holder: holder.to_owned(),
            credential: credential.clone(),
            id: id.to_owned(),
            expires_at,
        })
    }
}

/// The presentations that were used, until they end.
#[derive(Debug)]
pub struct SeenPresentations {
    ends: HashMap<(String, String), i64>,
    max: usize,
}

impl SeenPresentations {
    /// Remembers at most `max` of them.
    pub fn new(max: usize) -> Self {
        Self { ends: HashMap::new(), max }
    }

    /// Notes a presentation. It is refused when it was used before, or when no more can be remembered: a forgotten one could be used twice.
    pub fn note(&mut self, presented: &PresentedCredential, now: i64) -> Result<(), AccessRejection> {
        let end = presented.expires_at + super::LEEWAY_SECONDS;
        if self.ends.len() >= self.max {
            self.ends.retain(|_, end| *end > now);
        }
        let key = (presented.holder.clone(), presented.id.clone());
        if self.ends.len() >= self.max || self.ends.get(&key).is_some_and(|end| *end > now) {
            return Err(AccessRejection::Revoked);
        }
        self.ends.insert(key, end);
        Ok(())
    }
}
