//! Credentials and presentations, as issuers and holders make them.

use ed25519_dalek::Signer;
use multibase::Base;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_trust::{
    Reason,
    digest::canonical,
    document::Purpose,
    proof::{Prover, prove},
};

use super::part::Form;

const MODEL_2: &str = "https://www.w3.org/ns/credentials/v2";
const MODEL_1: &str = "https://www.w3.org/2018/credentials/v1";
const SIGNATURE_2020: &str = "https://w3id.org/security/suites/ed25519-2020/v1";
/// What terms mean that no other context defines.
const VOCABULARY: &str = "https://www.w3.org/ns/credentials/issuer-dependent#";

/// What a credential says.
#[derive(Debug, Clone)]
pub struct Statement {
    /// Its id.
    pub id: String,
    /// DID of its issuer.
    pub issuer: String,
    /// What else it is, besides a VerifiableCredential.
    pub kind: String,
    /// What it says, with the DID it is about as `id`.
    pub subject: Value,
    /// Its `credentialSchema`.
    pub schema: Option<Value>,
    /// Since when it is valid, in RFC 3339.
    pub from: String,
    /// Until when.
    pub until: Option<String>,
}

fn context(form: Form) -> Value {
    let vocabulary = json!({"@vocab": VOCABULARY});
    match form {
        Form::Jcs | Form::Rdfc => json!([MODEL_2, vocabulary]),
        Form::Signature2020 => json!([MODEL_1, SIGNATURE_2020, vocabulary]),
    }
}

impl Statement {
    /// As a credential without proof.
    pub fn credential(self, form: Form) -> Value {
        let (from, until) = match form {
            Form::Signature2020 => ("issuanceDate", "expirationDate"),
            Form::Jcs | Form::Rdfc => ("validFrom", "validUntil"),
        };
        let mut credential = json!({
            "@context": context(form),
            "id": self.id,
            "type": ["VerifiableCredential", self.kind],
            "issuer": self.issuer,
            "credentialSubject": self.subject,
        });
        credential[from] = self.from.into();
        if let Some(end) = self.until {
            credential[until] = end.into();
        }
        if let Some(schema) = self.schema {
            credential["credentialSchema"] = schema;
        }
        credential
    }
}

/// Signs a credential. `at` is the time of signing, in RFC 3339.
pub fn sign(credential: &mut Value, prover: &Prover, form: Form, at: &str) -> Result<(), Reason> {
    prove(credential, prover, form.suite(), Purpose::AssertionMethod, at)
}

/// A presentation of credentials, signed by its holder.
pub fn presentation(
    holder: &str,
    credentials: Vec<Value>,
    prover: &Prover,
    form: Form,
    at: &str,
) -> Result<Value, Reason> {
    let mut presentation = json!({
        "@context": context(form),
        "type": ["VerifiablePresentation"],
        "holder": holder,
        "verifiableCredential": credentials,
    });
    prove(&mut presentation, prover, form.suite(), Purpose::Authentication, at)?;
    Ok(presentation)
}

/// Signs a credential over its canonical JSON, until an instant.
pub(super) fn sign_until(credential: &mut Value, prover: &Prover, at: &str, expires: &str) {
    let mut proof = json!({
        "@context": credential["@context"], "type": "DataIntegrityProof", "cryptosuite": "eddsa-jcs-2022",
        "created": at, "expires": expires, "verificationMethod": prover.method, "proofPurpose": "assertionMethod",
    });
    let hash = |part: &Value| -> [u8; 32] { Sha256::digest(canonical(part).unwrap_or_default()).into() };
    let signature = prover.key.sign(&[hash(&proof), hash(credential)].concat());
    proof["proofValue"] = multibase::encode(Base::Base58Btc, signature.to_bytes()).into();
    credential["proof"] = proof;
}
