//! Text that must never be shown: no `Debug`, no `Display`, no `Clone`, no `Serialize`; wiped when dropped.

use zeroize::{Zeroize, Zeroizing};

/// A mnemonic, a bearer token or an access token.
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes ownership of the text, which must be its last copy.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text, for the one place that needs it. Never format it, never log it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Overwrites a text that turned out to hold a secret.
pub fn wipe(mut text: String) {
    text.zeroize();
}
