//! Credentials and presentations that this software issues: their form before the proof, and their proof.

use serde_json::{Value, json};

use crate::{
    did_document::ProofPurpose,
    proof::{ProofKey, ProofSuite, add_proof},
    rejection::RejectionReason,
};

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

/// The older suite belongs to the older data model.
fn follows_model_1(suite: ProofSuite) -> bool {
    suite == ProofSuite::Ed25519Signature2020
}

fn json_ld_context(suite: ProofSuite) -> Value {
    let vocabulary = json!({"@vocab": VOCABULARY});
    if follows_model_1(suite) {
        json!([CREDENTIALS_V1_CONTEXT, ED25519_2020_CONTEXT, vocabulary])
    } else {
        json!([CREDENTIALS_V2_CONTEXT, vocabulary])
    }
}

impl CredentialDraft {
    /// Converts the draft to a credential without a proof, in the data model of the suite that will sign it.
    pub fn into_credential(self, suite: ProofSuite) -> Value {
        let (from, until) =
            if follows_model_1(suite) { ("issuanceDate", "expirationDate") } else { ("validFrom", "validUntil") };
        let mut credential = json!({
            "@context": json_ld_context(suite),
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
    suite: ProofSuite,
    at: &str,
) -> Result<(), RejectionReason> {
    add_proof(credential, prover, suite, ProofPurpose::AssertionMethod, at)
}

/// Creates a presentation of credentials, signed by its holder.
pub fn sign_presentation(
    holder: &str,
    credentials: Vec<Value>,
    prover: &ProofKey,
    suite: ProofSuite,
    at: &str,
) -> Result<Value, RejectionReason> {
    let mut presentation = json!({
        "@context": json_ld_context(suite),
        "type": ["VerifiablePresentation"],
        "holder": holder,
        "verifiableCredential": credentials,
    });
    add_proof(&mut presentation, prover, suite, ProofPurpose::Authentication, at)?;
    Ok(presentation)
}
