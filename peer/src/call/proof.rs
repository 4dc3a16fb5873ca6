//! The header by which a call proves its right.

use http::{HeaderName, HeaderValue, header};
use svc_wire::secret::SecretString;

use super::outcome::failed;
use crate::error::{PeerError, PeerFailure};

/// The header by which a call proves its right.
#[derive(Default)]
pub(crate) enum CallProof {
    #[default]
    None,
    Bearer(SecretString),
    Header(String, SecretString),
}

impl CallProof {
    /// The header, which no log shows; none where nothing is needed.
    pub fn header(&self) -> Result<Option<(HeaderName, HeaderValue)>, PeerError> {
        let unusable = || {
            let hint = "ask the operator of the endpoint";
            let message = "the material of the endpoint has characters that no header can have";
            failed(PeerFailure::Refused, "UNUSABLE_MATERIAL", message, hint)
        };
        let (name, text) = match self {
            Self::None => return Ok(None),
            Self::Bearer(token) => {
                (header::AUTHORIZATION, SecretString::new(format!("Bearer {}", token.expose_secret())))
            }
            Self::Header(name, value) => {
                (name.parse().map_err(|_| unusable())?, SecretString::new(value.expose_secret().to_owned()))
            }
        };
        let mut value = HeaderValue::from_str(text.expose_secret()).map_err(|_| unusable())?;
        value.set_sensitive(true);
        Ok(Some((name, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_a_header_that_no_log_shows() {
        let secret = |text: &str| SecretString::new(text.to_owned());
        assert!(CallProof::None.header().expect("usable").is_none());
        let (name, value) = CallProof::Bearer(secret("t")).header().expect("usable").expect("one");
        assert_eq!((name.as_str(), value.as_bytes(), value.is_sensitive()), ("authorization", &b"Bearer t"[..], true));
        let (name, value) = CallProof::Header("X-Api-Key".into(), secret("k")).header().expect("usable").expect("one");
        assert_eq!((name.as_str(), value.as_bytes(), value.is_sensitive()), ("x-api-key", &b"k"[..], true));
        for (name, value) in [("a b", "k"), ("X-Api-Key", "a\nb")] {
            let error = CallProof::Header(name.into(), secret(value)).header().expect_err("unusable");
            assert!(!error.message.contains(value), "{error}");
        }
    }
}
