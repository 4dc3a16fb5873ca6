//! The presentations of credentials, made of the store's rows: their entries in the document, and their files.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sha2::{Digest, Sha256};
use svc_agent_store::{AgentStoreError, CredentialKind, CredentialState, StoredCredential};
use svc_trust::{
    issuance::sign_presentation,
    proof::{ProofKey, ProofSuite},
};

use super::published::{DocumentError, PublishedFile};
use crate::{
    credential_settings::plain_name,
    document::{LINKED_PRESENTATION_TYPE, ServiceEntry, proof_suite, prover_for},
    identity::PublicLocation,
};

/// Presentations of trust credentials in one document: an indexer looks at no more.
pub(crate) const MAX_PRESENTED: usize = 16;
/// The presentation of all credentials.
const WHOIS_FILE: &str = "/whois.vp";

/// The presentations of a document.
#[derive(Debug, Clone, Default)]
pub struct PresentationSet {
    /// Their entries in the document, in its order.
    pub entries: Vec<ServiceEntry>,
    /// Their files, by the path of their URL.
    pub files: BTreeMap<String, PublishedFile>,
    /// Names and ids of the credentials, and the key that has signed: equal ones make an equal set.
    pub(super) source: PresentationSource,
}

/// The part of the store that a set is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PresentationSource {
    credentials: Vec<String>,
    signed_by: String,
    with_older_form: bool,
}

/// The key that signs presentations.
pub(super) struct PresentationKey {
    pub key: ProofKey,
    /// Whether the document shows its older form too. Without it no proof may name that form.
    pub has_older_form: bool,
}

impl PresentationSource {
    pub fn new(shown: &[&StoredCredential], with: &PresentationKey) -> Self {
        // The link of an essential credential has kept its name; that of another one has been renamed.
        let part = |one: &&StoredCredential| match is_schema_id(&one.name) || plain_name(&one.name) != one.name {
            true => format!("{} {}", one.name, one.id),
            false => one.id.clone(),
        };
        let credentials = shown.iter().map(part).collect();
        let signed_by = with.key.verification_method.clone();
        Self { credentials, signed_by, with_older_form: with.has_older_form }
    }

    /// Digest of the parts; empty without a credential.
    pub fn digest(&self) -> String {
        if self.credentials.is_empty() {
            return String::new();
        }
        multibase::encode(multibase::Base::Base16Lower, Sha256::digest(self.credentials.join("\n")))
    }

    /// Whether a key has signed the set.
    pub fn is_signed_by(&self, with: &PresentationKey) -> bool {
        self.signed_by == with.key.verification_method && self.with_older_form == with.has_older_form
    }
}

/// The credentials that are presented, in the order of the document. Of two with one name the newer one is. Indexers look at the first
/// presentations of trust credentials alone: the essential ones are before the others, and those behind the bound are left out.
pub(super) fn shown_credentials(stored: &[StoredCredential]) -> Vec<&StoredCredential> {
    let anchored = stored.iter().filter(|one| one.state == CredentialState::Anchored && one.kind.is_presented());
    let place = |one: &StoredCredential| {
        (one.kind == CredentialKind::Schema, is_schema_id(plain_name(&one.name)), one.name.clone())
    };
    let by_place: BTreeMap<(bool, bool, String), &StoredCredential> = anchored.map(|one| (place(one), one)).collect();
    let (schemas, about_did): (Vec<_>, Vec<_>) =
        by_place.into_values().partition(|one| one.kind == CredentialKind::Schema);
    // Both forms of a credential have one place.
    let mut places = BTreeSet::new();
    let has_place = |one: &&StoredCredential| {
        places.insert(plain_name(&one.name).to_owned());
        places.len() <= MAX_PRESENTED
    };
    about_did.into_iter().take_while(has_place).chain(schemas).collect()
}

/// The suite of a presentation of all these credentials: theirs where they have one, else the newer one. `None` without a credential.
fn common_suite(credentials: &[Value]) -> Option<ProofSuite> {
    let mut suites = credentials.iter().map(proof_suite);
    let first = suites.next()?;
    Some(if suites.all(|suite| suite == first) { first } else { ProofSuite::EddsaJcs2022 })
}

/// Whether the name is that of a presentation whose schema is not essential.
fn is_schema_id(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Makes and signs the presentations. `at` is the time of the proofs, in RFC 3339.
pub(super) fn make_presentations(
    did: &str,
    location: &PublicLocation,
    shown: &[&StoredCredential],
    with: &PresentationKey,
    at: &str,
) -> Result<PresentationSet, DocumentError> {
    let mut set = PresentationSet { source: PresentationSource::new(shown, with), ..PresentationSet::default() };
    let sign = |credentials: Vec<Value>, suite: ProofSuite| {
        sign_presentation(did, credentials, &prover_for(suite, &with.key), suite, at)
    };
    let present = |credentials: Vec<Value>, suite: ProofSuite| {
        let suite = if with.has_older_form { suite } else { ProofSuite::EddsaJcs2022 };
        let signed = sign(credentials.clone(), suite).or_else(|reason| {
            // A credential of another maker may have a form as linked data alone, and none inside of a presentation.
            tracing::warn!(reason = reason.message, "a presentation is signed as JSON");
            sign(credentials, ProofSuite::EddsaJcs2022)
        });
        signed.map_err(|reason| DocumentError::Presentation(reason.message))
    };
    let mut all = Vec::new();
    // The models of both generations cannot be mixed: a presentation has the suite of its credential.
    for one in shown {
        let credential: Value = serde_json::from_str(&one.body)
            .map_err(|error| AgentStoreError::CorruptRow(format!("credential {:?}: {error}", one.id)))?;
        let is_schema = one.kind == CredentialKind::Schema;
        let kind = if is_schema { "vtjsc" } else { "vtc" };
        let path = format!("/vt/{}-{kind}-vp.json", one.name);
        let presentation = PublishedFile::new(present(vec![credential.clone()], proof_suite(&credential))?.to_string());
        if is_schema_id(&one.name) {
            // Readers of an older document follow its links.
            let former = format!("/vt/cs-{}-{kind}-vp.json", one.name);
            set.files.insert(location.url_path(&former), presentation.clone());
        }
        set.files.insert(location.url_path(&path), presentation);
        if is_schema {
            // Its id is its URL: holders of its credentials name it.
            let path = one.id.strip_prefix(location.base_url()).unwrap_or(&path);
            set.files.insert(location.url_path(path), PublishedFile::new(one.body.clone()));
        } else {
            all.push(credential);
        }
        set.entries.push(ServiceEntry {
            id: format!("{did}#vpr-schemas-{}-{kind}-vp", one.name),
            kind: LINKED_PRESENTATION_TYPE.to_owned(),
            endpoint: format!("{}{path}", location.base_url()).into(),
        });
    }
    if let Some(suite) = common_suite(&all) {
        set.files.insert(location.url_path(WHOIS_FILE), PublishedFile::new(present(all, suite)?.to_string()));
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_presentation_of_all_credentials_has_their_suite_where_it_is_one() {
        use ProofSuite::{Ed25519Signature2020 as Older, EddsaJcs2022 as Newer};
        let credential = |kind: &str| json!({"proof": {"type": kind}});
        for (kinds, expected) in [
            (&[][..], None),
            (&["Ed25519Signature2020"], Some(Older)),
            (&["Ed25519Signature2020", "Ed25519Signature2020"], Some(Older)),
            (&["Ed25519Signature2020", "DataIntegrityProof"], Some(Newer)),
            (&["DataIntegrityProof"], Some(Newer)),
        ] {
            let credentials: Vec<Value> = kinds.iter().map(|kind| credential(kind)).collect();
            assert_eq!(common_suite(&credentials), expected, "{kinds:?}");
        }
    }
}
