//! Data Integrity: proofs of documents, verified and made. The cryptosuites eddsa-jcs-2022, eddsa-rdfc-2022 and the older
//! Ed25519Signature2020 differ in how a document is brought into its canonical form, and in nothing else.

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use multibase::Base;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_wire::instant;

use crate::{
    digest::canonical,
    document::{self, Purpose},
    linked_data,
    reason::{Code, Reason},
};

/// How a document is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// Canonical JSON.
    EddsaJcs2022,
    /// Canonical RDF.
    EddsaRdfc2022,
    /// Canonical RDF, in the form of VC 1.1.
    Ed25519Signature2020,
}

impl Suite {
    fn of(proof: &Value) -> Option<Self> {
        match (proof["type"].as_str()?, proof["cryptosuite"].as_str()) {
            ("DataIntegrityProof", Some("eddsa-jcs-2022")) => Some(Self::EddsaJcs2022),
            ("DataIntegrityProof", Some("eddsa-rdfc-2022")) => Some(Self::EddsaRdfc2022),
            ("Ed25519Signature2020", None) => Some(Self::Ed25519Signature2020),
            _ => None,
        }
    }

    fn template(self) -> Value {
        match self {
            Self::EddsaJcs2022 => json!({"type": "DataIntegrityProof", "cryptosuite": "eddsa-jcs-2022"}),
            Self::EddsaRdfc2022 => json!({"type": "DataIntegrityProof", "cryptosuite": "eddsa-rdfc-2022"}),
            Self::Ed25519Signature2020 => json!({"type": "Ed25519Signature2020"}),
        }
    }
}

/// One proof of a document, as far as it can be understood without the key.
#[derive(Debug, Clone)]
pub struct Proof {
    suite: Suite,
    /// DID URL of the key.
    pub method: String,
    /// What the signer says it is for.
    pub purpose: Purpose,
    expires: Option<i128>,
    signature: Signature,
    /// Everything but the signature.
    options: Value,
}

impl Proof {
    /// DID of whoever made it.
    pub fn signer(&self) -> &str {
        document::bare(&self.method)
    }

    /// All of it.
    pub(crate) fn text(&self) -> String {
        format!("{} {}", self.signature, self.options)
    }

    fn read(proof: &Value) -> Result<Self, Reason> {
        let unsupported = || {
            let (kind, suite) = (proof["type"].as_str().unwrap_or("?"), proof["cryptosuite"].as_str().unwrap_or(""));
            Reason::new(Code::ProofUnsupported, format!("{kind} {suite}"))
        };
        let suite = Suite::of(proof).ok_or_else(unsupported)?;
        if proof.get("previousProof").is_some() {
            return Err(Reason::new(Code::ProofUnsupported, "a chain of proofs"));
        }
        let purpose = proof["proofPurpose"].as_str().unwrap_or_default();
        let purpose = Purpose::named(purpose)
            .ok_or_else(|| Reason::new(Code::KeyNotForPurpose, format!("the proof's purpose is {purpose:?}")))?;
        let method = match &proof["verificationMethod"] {
            Value::String(method) => method.clone(),
            other => other["id"].as_str().unwrap_or_default().to_owned(),
        };
        let text = proof["proofValue"].as_str().unwrap_or_default();
        let bytes = multibase::decode(text).ok().filter(|(base, _)| *base == Base::Base58Btc);
        let signature = bytes.and_then(|(_, bytes)| Signature::from_slice(&bytes).ok());
        let signature = signature.ok_or_else(|| Reason::new(Code::ProofInvalid, "proofValue is no signature"))?;
        let expires = match proof.get("expires") {
            None => None,
            Some(text) => {
                let instant = text.as_str().and_then(instant::parse_rfc3339);
                let unreadable = || Reason::new(Code::ProofInvalid, "expires is no instant");
                Some(instant::nanos(&instant.ok_or_else(unreadable)?))
            }
        };
        let mut options = proof.clone();
        if let Some(members) = options.as_object_mut() {
            members.remove("proofValue");
        }
        Ok(Self { suite, method, purpose, expires, signature, options })
    }

    /// Verifies it with its key, at an instant.
    pub fn verify(&self, document: &Value, key: &VerifyingKey, now: i128) -> Result<(), Reason> {
        if self.expires.is_some_and(|expires| expires <= now) {
            return Err(Code::ProofExpired.into());
        }
        let hash = hash(self.suite, document, &self.options)?;
        key.verify_strict(&hash, &self.signature).map_err(|_| Code::ProofInvalid.into())
    }
}

/// Most proofs of one document that are looked at.
const MOST: usize = 4;

/// The proofs of a document.
/// Each may be of a kind that is not known here, and another be good.
pub fn proofs(document: &Value) -> Result<Vec<Result<Proof, Reason>>, Reason> {
    let found = match &document["proof"] {
        Value::Object(_) => std::slice::from_ref(&document["proof"]),
        Value::Array(several) if several.len() > MOST => {
            return Err(Reason::new(Code::TooLarge, format!("{} proofs; at most {MOST}", several.len())));
        }
        Value::Array(several) => several.as_slice(),
        _ => &[],
    };
    if found.is_empty() {
        return Err(Code::ProofMissing.into());
    }
    Ok(found.iter().map(Proof::read).collect())
}

/// What is signed: the hashes of the proof's options and of the document without its proof.
fn hash(suite: Suite, document: &Value, options: &Value) -> Result<[u8; 64], Reason> {
    let mut unsecured = document.clone();
    if let Some(members) = unsecured.as_object_mut() {
        members.remove("proof");
    }
    let mut options = options.clone();
    let (options, unsecured) = match suite {
        Suite::EddsaJcs2022 => {
            if let Some(context) = options.get("@context") {
                // The signer names the part of the context it has seen; what was added behind is not its word.
                if !begins_with(&unsecured["@context"], context) {
                    return Err(Reason::new(Code::ProofInvalid, "the document's @context is not the proof's"));
                }
                unsecured["@context"] = context.clone();
            }
            (jcs(&options)?, jcs(&unsecured)?)
        }
        Suite::EddsaRdfc2022 | Suite::Ed25519Signature2020 => {
            options["@context"] = unsecured["@context"].clone();
            (rdf(&options)?, rdf(&unsecured)?)
        }
    };
    let mut hash = [0; 64];
    hash[..32].copy_from_slice(&options);
    hash[32..].copy_from_slice(&unsecured);
    Ok(hash)
}

fn list(value: &Value) -> &[Value] {
    match value {
        Value::Array(several) => several,
        one => std::slice::from_ref(one),
    }
}

fn begins_with(whole: &Value, part: &Value) -> bool {
    list(whole).starts_with(list(part))
}

fn jcs(value: &Value) -> Result<[u8; 32], Reason> {
    let text = canonical(value).ok_or_else(|| Reason::new(Code::ProofInvalid, "the document has no canonical form"))?;
    Ok(Sha256::digest(text).into())
}

fn rdf(value: &Value) -> Result<[u8; 32], Reason> {
    let text = linked_data::canonical(value).map_err(|why| Reason::new(Code::ProofUnsupported, why))?;
    Ok(Sha256::digest(text).into())
}

/// A key with the name under which others find it.
pub struct Prover {
    /// DID URL of its verification method.
    pub method: String,
    /// The key.
    pub key: SigningKey,
}

/// Adds a proof to a document. `created` is an instant in RFC 3339.
pub fn prove(
    document: &mut Value,
    prover: &Prover,
    suite: Suite,
    purpose: Purpose,
    created: &str,
) -> Result<(), Reason> {
    let mut proof = suite.template();
    proof["created"] = created.into();
    proof["verificationMethod"] = prover.method.as_str().into();
    proof["proofPurpose"] = purpose.as_str().into();
    if suite == Suite::EddsaJcs2022 && document.get("@context").is_some() {
        proof["@context"] = document["@context"].clone();
    }
    let signature = prover.key.sign(&hash(suite, document, &proof)?);
    proof["proofValue"] = multibase::encode(Base::Base58Btc, signature.to_bytes()).into();
    document["proof"] = proof;
    Ok(())
}

#[cfg(test)]
mod tests;
