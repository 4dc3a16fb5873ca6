//! Creation of credentials and presentations.

use ed25519_dalek::Signer;
use multibase::Base;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_trust::{
    RejectionReason,
    did_document::ProofPurpose,
    digest::canonical_json,
    proof::{ProofKey, add_proof},
};

use super::spec::CredentialFormat;

const CREDENTIALS_V2_CONTEXT: &str = "https://www.w3.org/ns/credentials/v2";
const CREDENTIALS_V1_CONTEXT: &str = "https://www.w3.org/2018/credentials/v1";
const ED25519_2020_CONTEXT: &str = "https://w3id.org/security/suites/ed25519-2020/v1";
/// Vocabulary of the terms that no other context defines.
const VOCABULARY: &str = "https://www.w3.org/ns/credentials/issuer-dependent#";

/// A credential without context and proof.
#[derive(Debug, Clone)]
pub struct CredentialDraft {
    /// Id.
    pub id: String,
    /// DID of the issuer.
    pub issuer: String,
    /// Second type, after VerifiableCredential.
    pub kind: String,
    /// Claims, with the DID of the subject as `id`.
    pub subject: Value,
    /// `credentialSchema`.
    pub schema: Option<Value>,
    /// Begin of validity, in RFC 3339.
    pub valid_from: String,
    /// End of validity, in RFC 3339.
    pub valid_until: Option<String>,
}

fn json_ld_context(form: CredentialFormat) -> Value {
    let vocabulary = json!({"@vocab": VOCABULARY});
    match form {
        CredentialFormat::Jcs | CredentialFormat::Rdfc => json!([CREDENTIALS_V2_CONTEXT, vocabulary]),
        CredentialFormat::Signature2020 => json!([CREDENTIALS_V1_CONTEXT, ED25519_2020_CONTEXT, vocabulary]),
    }
}

impl CredentialDraft {
    /// Converts the draft to a credential without a proof.
    pub fn into_credential(self, form: CredentialFormat) -> Value {
        let (from, until) = match form {
            CredentialFormat::Signature2020 => ("issuanceDate", "expirationDate"),
            CredentialFormat::Jcs | CredentialFormat::Rdfc => ("validFrom", "validUntil"),
        };
        let mut credential = json!({
            "@context": json_ld_context(form),
            "id": self.id,
            "type": ["VerifiableCredential", self.kind],
            "issuer": self.issuer,
            "credentialSubject": self.subject,
        });
        credential[from] = self.valid_from.into();
        if let Some(end) = self.valid_until {
            credential[until] = end.into();
        }
        if let Some(schema) = self.schema {
            credential["credentialSchema"] = schema;
        }
        credential
    }
}

/// Signs a credential. `at` is the time of the proof, in RFC 3339.
pub fn sign_credential(
    credential: &mut Value,
    prover: &ProofKey,
    form: CredentialFormat,
    at: &str,
) -> Result<(), RejectionReason> {
    add_proof(credential, prover, form.suite(), ProofPurpose::AssertionMethod, at)
}

/// Creates a presentation of credentials, signed by its holder.
pub fn sign_presentation(
    holder: &str,
    credentials: Vec<Value>,
    prover: &ProofKey,
    form: CredentialFormat,
    at: &str,
) -> Result<Value, RejectionReason> {
    let mut presentation = json!({
        "@context": json_ld_context(form),
        "type": ["VerifiablePresentation"],
        "holder": holder,
        "verifiableCredential": credentials,
    });
    add_proof(&mut presentation, prover, form.suite(), ProofPurpose::Authentication, at)?;
    Ok(presentation)
}

/// Signs a credential over its canonical JSON, with a proof that expires.
pub(super) fn sign_with_expiry(credential: &mut Value, prover: &ProofKey, at: &str, expires: &str) {
    let mut proof = json!({
        "@context": credential["@context"], "type": "DataIntegrityProof", "cryptosuite": "eddsa-jcs-2022",
        "created": at, "expires": expires, "verificationMethod": prover.verification_method, "proofPurpose": "assertionMethod",
    });
    let hash = |part: &Value| -> [u8; 32] { Sha256::digest(canonical_json(part).unwrap_or_default()).into() };
    let signature = prover.key.sign(&[hash(&proof), hash(credential)].concat());
    proof["proofValue"] = multibase::encode(Base::Base58Btc, signature.to_bytes()).into();
    credential["proof"] = proof;
}
