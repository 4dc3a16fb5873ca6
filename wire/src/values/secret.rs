//! Secret texts. The type has no `Debug`, no `Display`, no `Clone` and no `Serialize`; its memory is wiped when it is dropped.

use zeroize::{Zeroize, Zeroizing};

/// A mnemonic, a bearer token or an access token.
pub struct SecretString(Zeroizing<String>);

impl SecretString {
    /// Takes ownership of the text. The caller keeps no copy.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text. The caller must not format or log it.
    pub fn expose_secret(&self) -> &str {
        &self.0
    }
}

/// Overwrites the memory of a text that holds a secret.
pub fn wipe_secret(mut text: String) {
    text.zeroize();
}
