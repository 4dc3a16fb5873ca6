//! Data Integrity proofs of documents: verification and signing. The cryptosuites eddsa-jcs-2022, eddsa-rdfc-2022 and the older
//! Ed25519Signature2020 differ in the canonical form of the document only.

mod linked_data;
#[cfg(test)]
mod tests;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use multibase::Base;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_wire::timestamp;

use crate::{
    did_document::{self, ProofPurpose},
    digest::canonical_json,
    rejection::{RejectionCode, RejectionReason},
};

/// Cryptosuite of a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofSuite {
    /// Canonical JSON.
    EddsaJcs2022,
    /// Canonical RDF.
    EddsaRdfc2022,
    /// Canonical RDF, in the form of VC 1.1.
    Ed25519Signature2020,
}

impl ProofSuite {
    fn of_proof(proof: &Value) -> Option<Self> {
        match (proof["type"].as_str()?, proof["cryptosuite"].as_str()) {
            ("DataIntegrityProof", Some("eddsa-jcs-2022")) => Some(Self::EddsaJcs2022),
            ("DataIntegrityProof", Some("eddsa-rdfc-2022")) => Some(Self::EddsaRdfc2022),
            ("Ed25519Signature2020", None) => Some(Self::Ed25519Signature2020),
            _ => None,
        }
    }

    fn proof_template(self) -> Value {
        match self {
            Self::EddsaJcs2022 => json!({"type": "DataIntegrityProof", "cryptosuite": "eddsa-jcs-2022"}),
            Self::EddsaRdfc2022 => json!({"type": "DataIntegrityProof", "cryptosuite": "eddsa-rdfc-2022"}),
            Self::Ed25519Signature2020 => json!({"type": "Ed25519Signature2020"}),
        }
    }
}

/// One proof of a document, parsed and not verified.
#[derive(Debug, Clone)]
pub struct DocumentProof {
    suite: ProofSuite,
    /// DID URL of the key.
    pub verification_method: String,
    /// Purpose, as the signer states it.
    pub purpose: ProofPurpose,
    created_at: Option<i128>,
    expires_at: Option<i128>,
    signature: Signature,
    /// All members of the proof except the signature.
    options: Value,
}

impl DocumentProof {
    /// DID of the signer.
    pub fn signer_did(&self) -> &str {
        did_document::did_of_url(&self.verification_method)
    }

    /// All content of the proof as text, for the cache of verifications.
    pub(crate) fn cache_text(&self) -> String {
        format!("{} {}", self.signature, self.options)
    }

    /// Parses one member of `proof`. Fails for an unsupported suite or purpose, and for values of a wrong form.
    fn parse(proof: &Value) -> Result<Self, RejectionReason> {
        let unsupported = || {
            let (kind, suite) = (proof["type"].as_str().unwrap_or("?"), proof["cryptosuite"].as_str().unwrap_or(""));
            RejectionReason::new(RejectionCode::ProofUnsupported, format!("{kind} {suite}"))
        };
        let suite = ProofSuite::of_proof(proof).ok_or_else(unsupported)?;
        if proof.get("previousProof").is_some() {
            return Err(RejectionReason::new(RejectionCode::ProofUnsupported, "a chain of proofs"));
        }
        let purpose = proof["proofPurpose"].as_str().unwrap_or_default();
        let purpose = ProofPurpose::from_name(purpose).ok_or_else(|| {
            RejectionReason::new(RejectionCode::KeyNotForPurpose, format!("the purpose of the proof is {purpose:?}"))
        })?;
        let method = match &proof["verificationMethod"] {
            Value::String(method) => method.clone(),
            other => other["id"].as_str().unwrap_or_default().to_owned(),
        };
        let text = proof["proofValue"].as_str().unwrap_or_default();
        let bytes = multibase::decode(text).ok().filter(|(base, _)| *base == Base::Base58Btc);
        let signature = bytes.and_then(|(_, bytes)| Signature::from_slice(&bytes).ok());
        let signature =
            signature.ok_or_else(|| RejectionReason::new(RejectionCode::ProofInvalid, "proofValue is no signature"))?;
        let time = |name: &str| match proof.get(name) {
            None => Ok(None),
            Some(text) => {
                let instant = text.as_str().and_then(timestamp::parse_rfc3339);
                let unreadable = || RejectionReason::new(RejectionCode::ProofInvalid, format!("{name} is no instant"));
                instant.map(|instant| Some(timestamp::unix_nanos(&instant))).ok_or_else(unreadable)
            }
        };
        let (created_at, expires_at) = (time("created")?, time("expires")?);
        let mut options = proof.clone();
        if let Some(members) = options.as_object_mut() {
            members.shift_remove("proofValue");
        }
        Ok(Self { suite, verification_method: method, purpose, created_at, expires_at, signature, options })
    }

    /// Verifies the proof of `document` with its key. Fails when it has expired or is of the future at `now` (nanoseconds since the epoch), the
    /// document has no canonical form, or the signature does not match.
    pub fn verify(&self, document: &Value, key: &VerifyingKey, now: i128) -> Result<(), RejectionReason> {
        if self.expires_at.is_some_and(|expires| expires <= now) {
            return Err(RejectionCode::ProofExpired.into());
        }
        if self.created_at.is_some_and(|created| created > now + CLOCK_LEEWAY) {
            return Err(RejectionCode::ProofOfFuture.into());
        }
        let hash = signing_hash(self.suite, document, &self.options)?;
        key.verify_strict(&hash, &self.signature).map_err(|_| RejectionCode::ProofInvalid.into())
    }
}

/// Time by which a signer's clock may be ahead of the evaluated block, in nanoseconds: a block has the time of the votes for the one before
/// it, and clocks differ.
const CLOCK_LEEWAY: i128 = 5 * 60 * 1_000_000_000;

/// Proofs that one document may have.
const MAX_PROOFS: usize = 4;

/// Parses the proofs of a document.
///
/// Fails when there is none, or when there are too many. A proof of an unsupported kind is an `Err` in the list, because
/// another proof of the document can verify.
pub fn parse_proofs(document: &Value) -> Result<Vec<Result<DocumentProof, RejectionReason>>, RejectionReason> {
    let found = match &document["proof"] {
        Value::Object(_) => std::slice::from_ref(&document["proof"]),
        Value::Array(several) if several.len() > MAX_PROOFS => {
            return Err(RejectionReason::new(
                RejectionCode::TooLarge,
                format!("{} proofs; at most {MAX_PROOFS}", several.len()),
            ));
        }
        Value::Array(several) => several.as_slice(),
        _ => &[],
    };
    if found.is_empty() {
        return Err(RejectionCode::ProofMissing.into());
    }
    Ok(found.iter().map(DocumentProof::parse).collect())
}

/// The signed bytes: hash of the options of the proof, then hash of the document without its proof.
fn signing_hash(suite: ProofSuite, document: &Value, options: &Value) -> Result<[u8; 64], RejectionReason> {
    let mut unsecured = document.clone();
    if let Some(members) = unsecured.as_object_mut() {
        members.shift_remove("proof");
    }
    let mut options = options.clone();
    let (options, unsecured) = match suite {
        ProofSuite::EddsaJcs2022 => {
            if let Some(context) = options.get("@context") {
                // The proof names the contexts that the signer signed. Contexts that were added later are not signed.
                if !context_starts_with(&unsecured["@context"], context) {
                    return Err(RejectionReason::new(
                        RejectionCode::ProofInvalid,
                        "the @context of the document does not begin with that of the proof",
                    ));
                }
                unsecured["@context"] = context.clone();
            }
            (hash_jcs(&options)?, hash_jcs(&unsecured)?)
        }
        ProofSuite::EddsaRdfc2022 | ProofSuite::Ed25519Signature2020 => {
            options["@context"] = unsecured["@context"].clone();
            (hash_rdf(&options)?, hash_rdf(&unsecured)?)
        }
    };
    let mut hash = [0; 64];
    hash[..32].copy_from_slice(&options);
    hash[32..].copy_from_slice(&unsecured);
    Ok(hash)
}

fn as_list(value: &Value) -> &[Value] {
    match value {
        Value::Array(several) => several,
        one => std::slice::from_ref(one),
    }
}

fn context_starts_with(whole: &Value, part: &Value) -> bool {
    as_list(whole).starts_with(as_list(part))
}

fn hash_jcs(value: &Value) -> Result<[u8; 32], RejectionReason> {
    let text = canonical_json(value)
        .ok_or_else(|| RejectionReason::new(RejectionCode::ProofInvalid, "the document has no canonical form"))?;
    Ok(Sha256::digest(text).into())
}

fn hash_rdf(value: &Value) -> Result<[u8; 32], RejectionReason> {
    let text = linked_data::canonical_rdf(value)
        .map_err(|cause| RejectionReason::new(RejectionCode::ProofUnsupported, cause))?;
    Ok(Sha256::digest(text).into())
}

/// Whether every value of a document has a form as linked data. Only then can the suites that sign that form sign it.
pub fn has_rdf_form(document: &Value) -> bool {
    linked_data::canonical_rdf(document).is_ok()
}

/// A signing key with its verification method.
pub struct ProofKey {
    /// DID URL of the verification method.
    pub verification_method: String,
    /// The private key.
    pub key: SigningKey,
}

/// Signs a document: sets its `proof`. `created` is an instant in RFC 3339. Fails when the document has no canonical form.
pub fn add_proof(
    document: &mut Value,
    signer: &ProofKey,
    suite: ProofSuite,
    purpose: ProofPurpose,
    created: &str,
) -> Result<(), RejectionReason> {
    let mut proof = suite.proof_template();
    proof["created"] = created.into();
    proof["verificationMethod"] = signer.verification_method.as_str().into();
    proof["proofPurpose"] = purpose.as_str().into();
    if suite == ProofSuite::EddsaJcs2022 && document.get("@context").is_some() {
        proof["@context"] = document["@context"].clone();
    }
    let signature = signer.key.sign(&signing_hash(suite, document, &proof)?);
    proof["proofValue"] = multibase::encode(Base::Base58Btc, signature.to_bytes()).into();
    document["proof"] = proof;
    Ok(())
}
