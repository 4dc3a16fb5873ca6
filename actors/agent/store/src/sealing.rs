//! Encryption of private keys in the store.

use base64::{Engine, engine::general_purpose::STANDARD};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use svc_wire::secret::SecretString;
use zeroize::Zeroizing;

/// A private key that cannot be encrypted or decrypted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealingError {
    /// The text is no key.
    #[error("a store key is 32 bytes in standard base64")]
    InvalidKey,
    /// The system yields no random bytes.
    #[error("no random bytes: {0}")]
    NoRandom(String),
    /// The stored key does not open.
    #[error(
        "the private key {name:?} does not open with this store key: set SVC_AGENT_STORE_KEY to the one that it was written with, or \
         SVC_AGENT_STORE_KEY_PREVIOUS while the key is changed"
    )]
    WrongKey {
        /// Name of the private key.
        name: String,
    },
    /// A content does not open, or is too long for the cipher.
    #[error("the encrypted content of a flow does not open: its row was changed")]
    Content,
}

/// The key that encrypts private keys.
pub struct StoreKey(Zeroizing<[u8; 32]>);

impl StoreKey {
    /// Parses 32 bytes in standard base64.
    pub fn parse(text: &SecretString) -> Result<Self, SealingError> {
        let bytes = Zeroizing::new(STANDARD.decode(text.expose_secret().trim()).map_err(|_| SealingError::InvalidKey)?);
        let key: [u8; 32] = bytes.as_slice().try_into().map_err(|_| SealingError::InvalidKey)?;
        Ok(Self(Zeroizing::new(key)))
    }

    /// Takes 32 bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Derives the key of another purpose: it says nothing about this key, nor about those of other purposes.
    pub(super) fn derive(&self, purpose: &str) -> Zeroizing<[u8; 32]> {
        hkdf_sha256(self.0.as_slice(), purpose.as_bytes())
    }
}

/// The first 32 bytes of HKDF-SHA256 without a salt (RFC 5869).
fn hkdf_sha256(secret: &[u8], info: &[u8]) -> Zeroizing<[u8; 32]> {
    let extracted = hmac_sha256(&[0; 32], &[secret]);
    hmac_sha256(&extracted, &[info, &[1]])
}

/// HMAC-SHA256 of parts in a row.
fn hmac_sha256(key: &[u8; 32], parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    let mut mac = begin_hmac(key);
    parts.iter().for_each(|part| mac.update(part));
    Zeroizing::new(mac.finalize().into_bytes().into())
}

/// Begins HMAC-SHA256. A key that is shorter than a block is filled up with zeros (RFC 2104).
pub(super) fn begin_hmac(key: &[u8; 32]) -> Hmac<Sha256> {
    let mut block = Zeroizing::new([0; 64]);
    block[..32].copy_from_slice(key);
    <Hmac<Sha256> as KeyInit>::new((&*block).into())
}

/// The store keys: the one that encrypts, and one that only decrypts while the key is changed.
pub struct StoreKeys {
    /// Encrypts and decrypts.
    pub current: StoreKey,
    /// Decrypts the rows of before.
    pub previous: Option<StoreKey>,
}

/// A private key with its place in the store. Its memory is wiped when it is dropped.
pub struct PrivateKey {
    /// Name.
    pub name: String,
    /// Version, from 1.
    pub version: u64,
    /// The secret.
    pub secret: Zeroizing<[u8; 32]>,
}

const NONCE_BYTES: usize = 24;

impl StoreKeys {
    /// Encrypts a private key of a DID. The row is of no use at another place: DID, name and version are authenticated with it.
    pub(super) fn seal(&self, did: &str, key: &PrivateKey) -> Result<String, SealingError> {
        let wrong = || SealingError::WrongKey { name: key.name.clone() };
        encrypt(&self.current.0, &place_text(did, &key.name, key.version), key.secret.as_slice())?.ok_or_else(wrong)
    }

    /// Decrypts a private key of a DID.
    pub(super) fn open(&self, did: &str, name: &str, version: u64, sealed: &str) -> Result<PrivateKey, SealingError> {
        Ok(self.open_and_compare(did, name, version, sealed)?.0)
    }

    /// Encrypts a stored private key of a DID with the current key, whichever of the two has encrypted it before.
    pub(super) fn reseal(
        &self,
        did: &str,
        name: &str,
        version: u64,
        sealed: &str,
    ) -> Result<ResealedKey, SealingError> {
        let (key, was_current) = self.open_and_compare(did, name, version, sealed)?;
        Ok(ResealedKey { sealed: self.seal(did, &key)?, was_current })
    }

    /// Decrypts a private key; returns it, and whether the current key has encrypted it.
    fn open_and_compare(
        &self,
        did: &str,
        name: &str,
        version: u64,
        sealed: &str,
    ) -> Result<(PrivateKey, bool), SealingError> {
        let wrong = || SealingError::WrongKey { name: name.to_owned() };
        let place = place_text(did, name, version);
        let decrypt = |key: &StoreKey| decrypt(&key.0, &place, sealed);
        let with_current = decrypt(&self.current);
        let was_current = with_current.is_some();
        let secret = with_current.or_else(|| self.previous.as_ref().and_then(decrypt)).ok_or_else(wrong)?;
        let secret: [u8; 32] = secret.as_slice().try_into().map_err(|_| wrong())?;
        Ok((PrivateKey { name: name.to_owned(), version, secret: Zeroizing::new(secret) }, was_current))
    }
}

/// A private key that was encrypted once more.
pub(super) struct ResealedKey {
    /// The row.
    pub sealed: String,
    /// Whether the current key had encrypted the row of before too.
    pub was_current: bool,
}

/// A key that encrypts contents of the store. It is one of the private keys there: a change of the store key encrypts this key once
/// more, and no content.
pub struct ContentKey(Zeroizing<[u8; 32]>);

impl From<PrivateKey> for ContentKey {
    fn from(key: PrivateKey) -> Self {
        Self(key.secret)
    }
}

impl ContentKey {
    /// Encrypts a content. The row is of no use at another place, which is authenticated with it.
    pub(super) fn seal(&self, place: &str, content: &[u8]) -> Result<String, SealingError> {
        encrypt(&self.0, place, content)?.ok_or(SealingError::Content)
    }

    /// Decrypts a content.
    pub(super) fn open(&self, place: &str, sealed: &str) -> Result<Zeroizing<Vec<u8>>, SealingError> {
        decrypt(&self.0, place, sealed).ok_or(SealingError::Content)
    }
}

/// Encrypts bytes; none for more of them than the cipher takes.
fn encrypt(key: &[u8; 32], place: &str, bytes: &[u8]) -> Result<Option<String>, SealingError> {
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce).map_err(|error| SealingError::NoRandom(error.to_string()))?;
    let payload = Payload { msg: bytes, aad: place.as_bytes() };
    let sealed = XChaCha20Poly1305::new(key.into()).encrypt(&XNonce::from(nonce), payload);
    Ok(sealed.ok().map(|sealed| STANDARD.encode([nonce.as_slice(), &sealed].concat())))
}

/// Decrypts bytes; none when they are of another key or place.
fn decrypt(key: &[u8; 32], place: &str, sealed: &str) -> Option<Zeroizing<Vec<u8>>> {
    let bytes = STANDARD.decode(sealed).ok()?;
    let (nonce, sealed) = bytes.split_at_checked(NONCE_BYTES)?;
    let nonce: [u8; NONCE_BYTES] = nonce.try_into().ok()?;
    let payload = Payload { msg: sealed, aad: place.as_bytes() };
    XChaCha20Poly1305::new(key.into()).decrypt(&XNonce::from(nonce), payload).ok().map(Zeroizing::new)
}

fn place_text(did: &str, name: &str, version: u64) -> String {
    format!("{did}\n{name}\n{version}")
}

#[cfg(test)]
mod tests {
    use super::hkdf_sha256;

    #[test]
    fn keys_are_derived_as_in_rfc_5869() {
        // Test case 3, its first 32 bytes.
        let expected: [u8; 32] = [
            0x8d, 0xa4, 0xe7, 0x75, 0xa5, 0x63, 0xc1, 0x8f, 0x71, 0x5f, 0x80, 0x2a, 0x06, 0x3c, 0x5a, 0x31, 0xb8, 0xa1,
            0x1f, 0x5c, 0x5e, 0xe1, 0x87, 0x9e, 0xc3, 0x45, 0x4e, 0x5f, 0x3c, 0x73, 0x8d, 0x2d,
        ];
        assert_eq!(*hkdf_sha256(&[0x0b; 22], b""), expected);
    }
}
