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
    /// The proofs with a name of the settings: `ed25519-2020`, `data-integrity` or `both`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "ed25519-2020" => Some(Self::Ed25519Signature2020),
            "data-integrity" => Some(Self::DataIntegrity),
            "both" => Some(Self::Both),
            _ => None,
        }
    }

    /// The suite of the credentials with the plain names.
    pub(crate) fn main_suite(self) -> ProofSuite {
        match self {
            Self::Ed25519Signature2020 | Self::Both => ProofSuite::Ed25519Signature2020,
            Self::DataIntegrity => ProofSuite::EddsaJcs2022,
        }
    }

    /// The form of a credential of another issuer. Without a second form each has the plain name.
    pub fn form_of(self, suite: ProofSuite) -> CredentialForm {
        if self == Self::Both && suite == ProofSuite::EddsaJcs2022 {
            CredentialForm::Second
        } else {
            CredentialForm::Main
        }
    }

    /// The change of a credential whose name does not say its form under this setting. `has_second` is whether there may be a second form of it,
    /// and `is_free` whether no other credential has the other name.
    pub(crate) fn change_of(self, name: &str, found: FoundForm) -> Option<FormChange> {
        let FoundForm { suite, is_own, has_second, is_free } = found;
        let form = if is_own && !has_second { CredentialForm::Main } else { self.form_of(suite) };
        if form == CredentialForm::of(name) {
            return None;
        }
        match self {
            // The setting takes the newer form away.
            Self::Ed25519Signature2020 if is_own => None,
            // It is the one that is wanted now, and was paid for.
            Self::DataIntegrity if is_own => Some(FormChange::Rename(form)),
            _ if is_free => Some(FormChange::Rename(form)),
            _ if is_own => None,
            _ => Some(FormChange::Withdraw),
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

/// A credential of the DID that was found under a name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundForm {
    pub suite: ProofSuite,
    /// Whether the DID has issued it itself.
    pub is_own: bool,
    pub has_second: bool,
    pub is_free: bool,
}

/// A change of a credential whose name does not say its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FormChange {
    /// It gets the name of this form, in place of one that has it.
    Rename(CredentialForm),
    /// Another one has its place.
    Withdraw,
}

/// A form of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CredentialForm {
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

    #[test]
    fn a_change_of_the_setting_renames_or_leaves_the_credentials_that_there_are() {
        use FormChange::{Rename, Withdraw};
        use ProofSuite::{Ed25519Signature2020 as Older, EddsaJcs2022 as Newer};
        use PublishedProofs::{Both, DataIntegrity, Ed25519Signature2020 as Single};
        let (main, second) = (Some(Rename(CredentialForm::Main)), Some(Rename(CredentialForm::Second)));
        // Setting, name, suite, own, may have a second form, free, change.
        for (proofs, name, suite, is_own, has_second, is_free, expected) in [
            (Both, "service", Older, true, true, true, None),
            (Both, "service", Newer, true, true, true, second),
            (Both, "service", Newer, true, true, false, None),
            (Both, "service", Newer, true, false, true, None),
            (Both, "service-di", Newer, true, true, true, None),
            (Both, "service-di", Newer, true, false, true, main),
            (Both, "org", Newer, false, false, true, second),
            (Both, "org", Newer, false, false, false, Some(Withdraw)),
            (Both, "org", Older, false, false, true, None),
            (DataIntegrity, "service-di", Newer, true, false, false, main),
            (DataIntegrity, "service", Newer, true, false, true, None),
            (DataIntegrity, "org-di", Newer, false, false, true, main),
            (Single, "service-di", Newer, true, false, true, None),
            (Single, "service", Newer, true, false, true, None),
            (Single, "org-di", Newer, false, false, true, main),
            (Single, "org-di", Newer, false, false, false, Some(Withdraw)),
        ] {
            let found = FoundForm { suite, is_own, has_second, is_free };
            assert_eq!(proofs.change_of(name, found), expected, "{proofs:?} {name} {found:?}");
        }
    }
}
