//! The public keys of an issuer. Pure.

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse},
};

use super::access_token::TokenHead;

/// Most keys of an issuer.
const MAX_KEYS: usize = 64;
/// Least length of an RSA modulus, in base64url characters: 2,048 bits.
const MIN_MODULUS_CHARACTERS: usize = 341;

/// A key, and the one algorithm that it is used with.
#[derive(Clone)]
pub(super) struct IssuerKey {
    pub algorithm: Algorithm,
    pub key: DecodingKey,
    id: Option<String>,
}

/// Reads a JSON Web Key Set. Keys of other kinds and uses are left out.
pub(super) fn read_key_set(body: &[u8]) -> Result<Vec<IssuerKey>, String> {
    let value: serde_json::Value = serde_json::from_slice(body).map_err(|error| format!("no JSON: {error}"))?;
    // A key of a kind that this program does not know must not take the others with it.
    let keys = value["keys"].as_array().ok_or("no JSON Web Key Set: it has no keys")?;
    if keys.len() > MAX_KEYS {
        return Err(format!("it has more than {MAX_KEYS} keys"));
    }
    let known = keys.iter().filter_map(|key| serde_json::from_value(key.clone()).ok()).collect();
    Ok(JwkSet { keys: known }.keys.iter().filter_map(read_key).collect())
}

fn read_key(jwk: &Jwk) -> Option<IssuerKey> {
    if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
        return None;
    }
    // A secret key in the set would make every reader of the set an issuer, so the algorithm comes from the kind of the key alone.
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(rsa) if rsa.n.len() >= MIN_MODULUS_CHARACTERS => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(curve) if curve.curve == EllipticCurve::P256 => Algorithm::ES256,
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => Algorithm::EdDSA,
        _ => return None,
    };
    let key = DecodingKey::from_jwk(jwk).ok()?;
    Some(IssuerKey { algorithm, key, id: jwk.common.key_id.clone() })
}

/// The key that a token names. A token that names none is verified with the only key of its algorithm.
pub(super) fn find_key(keys: &[IssuerKey], head: &TokenHead) -> Option<IssuerKey> {
    let mut of_algorithm = keys.iter().filter(|key| key.algorithm == head.algorithm);
    match &head.key_id {
        Some(_) => of_algorithm.find(|key| key.id == head.key_id).cloned(),
        None => of_algorithm.next().filter(|_| of_algorithm.next().is_none()).cloned(),
    }
}
