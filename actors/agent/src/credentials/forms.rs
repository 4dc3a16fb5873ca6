//! The forms in which the DID publishes its credentials: agents of the first generation read one suite of proofs alone, and others may
//! read the newer one alone. Pure.

use svc_trust::proof::ProofSuite;

/// End of the names of second forms.
const SECOND: &str = "-di";

/// The proofs of the credentials that the agent issues outside of flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishedProofs {
    /// Ed25519Signature2020, which agents of the first generation read.
    Ed25519Signature2020,
    /// DataIntegrityProof with eddsa-jcs-2022.
    DataIntegrity,
    /// One credential of each. Both count as one presentation.
    Both,
}

impl PublishedProofs {
    /// The suite of the credentials with the plain names.
    pub(crate) fn main_suite(self) -> ProofSuite {
        match self {
            Self::Ed25519Signature2020 | Self::Both => ProofSuite::Ed25519Signature2020,
            Self::DataIntegrity => ProofSuite::EddsaJcs2022,
        }
    }

    /// The form of a credential of another issuer. Without a second form each has the plain name.
    pub(crate) fn form_of(self, suite: ProofSuite) -> CredentialForm {
        if self == Self::Both && suite == ProofSuite::EddsaJcs2022 {
            CredentialForm::Second
        } else {
            CredentialForm::Main
        }
    }

    /// The forms of each credential.
    pub(crate) fn forms(self) -> &'static [CredentialForm] {
        match self {
            Self::Ed25519Signature2020 | Self::DataIntegrity => &[CredentialForm::Main],
            Self::Both => &[CredentialForm::Main, CredentialForm::Second],
        }
    }
}

/// A form of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CredentialForm {
    /// The one with the plain name: readers of the first generation look for it.
    Main,
    /// The one with a proof of the newer suite beside that.
    Second,
}

impl CredentialForm {
    /// The form by the name of a presentation.
    pub fn of(name: &str) -> Self {
        if name.ends_with(SECOND) { Self::Second } else { Self::Main }
    }

    /// The name of the presentation in this form.
    pub fn name(self, plain: &str) -> String {
        match self {
            Self::Main => plain.to_owned(),
            Self::Second => format!("{plain}{SECOND}"),
        }
    }
}

/// The name of a presentation without its form.
pub(crate) fn plain_name(name: &str) -> &str {
    name.strip_suffix(SECOND).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_form() {
        for plain in ["service", "org", "persona", "17"] {
            for form in [CredentialForm::Main, CredentialForm::Second] {
                let name = form.name(plain);
                assert_eq!((CredentialForm::of(&name), plain_name(&name)), (form, plain));
            }
        }
        assert_eq!(CredentialForm::Second.name("service"), "service-di");
    }
}
