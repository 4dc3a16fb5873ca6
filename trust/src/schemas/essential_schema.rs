//! Essential credential schemas: those of the credentials that describe a service and its operator. Its content makes a schema essential,
//! in an ecosystem that is relied on. Its title does not, because any party can use any title; and contents are public, so that any party
//! can copy one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::digest::{DigestAlgorithm, canonical_json, sri_digest};

/// Kind of an essential credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EssentialCredential {
    /// The service.
    #[serde(rename = "ServiceCredential")]
    Service,
    /// The organisation that operates it.
    #[serde(rename = "OrganizationCredential")]
    Organization,
    /// The person that operates it.
    #[serde(rename = "PersonaCredential")]
    Persona,
    /// A program that acts for a person.
    #[serde(rename = "UserAgentCredential")]
    UserAgent,
    /// A person's place in an organisation.
    #[serde(rename = "BadgeCredential")]
    Badge,
}

impl EssentialCredential {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Service, Self::Organization, Self::Persona, Self::UserAgent, Self::Badge];

    /// Name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Service => "ServiceCredential",
            Self::Organization => "OrganizationCredential",
            Self::Persona => "PersonaCredential",
            Self::UserAgent => "UserAgentCredential",
            Self::Badge => "BadgeCredential",
        }
    }

    /// Whether it names the operator of a service.
    pub fn names_operator(self) -> bool {
        matches!(self, Self::Organization | Self::Persona)
    }

    /// Whether a verdict can rest on it: a service is trusted by its own credential and by that of its operator, and by no other.
    pub fn makes_trusted(self) -> bool {
        self == Self::Service || self.names_operator()
    }

    /// Text of the JSON Schema of the devnet, which is compiled into this program.
    pub fn schema(self) -> &'static str {
        match self {
            Self::Service => include_str!("../../schemas/service.json"),
            Self::Organization => include_str!("../../schemas/organization.json"),
            Self::Persona => include_str!("../../schemas/persona.json"),
            Self::UserAgent => include_str!("../../schemas/user-agent.json"),
            Self::Badge => include_str!("../../schemas/badge.json"),
        }
    }

    /// Digest of [`Self::schema`]. A constant, so that no schema can be missing at run time; a test compares them.
    fn devnet_digest(self) -> &'static str {
        match self {
            Self::Service => "sha384-L6NL9TbzcMtgX8OzS14DqYw9JTJ0JR7H8I6rCxFxtgrSG/Nki9vebRntajkypboJ",
            Self::Organization => "sha384-RThijrI1BEDG8R9/j37PYJLQnTXQMEemKtR4Bi3BnC6QIjgDmRLFULTi8ray6pZA",
            Self::Persona => "sha384-ahbuypFFhgm03bOm7+uPHP95h1Al6Cy9JiZucdKulUnhfstSIH3f9akuV0eEnDmc",
            Self::UserAgent => "sha384-Vd7domXdb7I5mXdccLYDkFJAgTP//i5qWQxLq6/OuqBj0ZAXSaAcaOLEIq6vqCro",
            Self::Badge => "sha384-YoZfzo4k2KwbgK0KXeuZ5d/vE/s88/O8CtDUKR5VUzKRPzA7Hj7bVnQ+SX9G1uVm",
        }
    }

    /// Digest of the text that the devnet had in its place: a stored devnet has it on its chain.
    fn former_devnet_digest(self) -> &'static str {
        match self {
            Self::Service => "sha384-g0acIFg7HoEPQ5P6vJr7wMKJ/JhBIIecmeVG8ROdidXVJgWQmIcgkrD5u26Qd0tP",
            Self::Organization => "sha384-pJGLXiqPfhfY9/P9IMkHNpXBzaHnN8tXbGpV8qXA+HnVjVd8NWirdhjNSzJsy/1s",
            Self::Persona => "sha384-KgGBjrzz9cWpyeIwW3PZREOgmHS3WCoMENenKhT5Wm/+vxE+sky44zR2MthQNwsA",
            Self::UserAgent => "sha384-gplySaXIKCujWgCXH2TtC2ADp+kLFat1lsUwuXXZOHYFVoFxk0csg6J5FGndNVPc",
            Self::Badge => "sha384-xXc162HAjtcCS88VSALKcrz7HB6Gtwxut5DL223GLRY0US80hinPjO4ugL/uOv1y",
        }
    }

    /// Digest of the schema that the specification publishes.
    fn published_digest(self) -> &'static str {
        match self {
            Self::Service => "sha384-0v+BAFGpnBX/RVqH9dUlMglxMrD4AKy4qUtb1lMN4iW9I2gO7XjcUfmGOf0oInP3",
            Self::Organization => "sha384-UPn4TDqS1nMBAN3FyMzTAZOWp99zBjBD69OjpbhwOKZj7iOrS5qPwJ2SArRz0yzu",
            Self::Persona => "sha384-VfXTfuks02OkoR5USaTfEdc4NU25m4+vNrLATnjC0r0Pn1S3tFTdOvGCfSYdjE2I",
            Self::UserAgent => "sha384-rIWkh3zBD1Ak7CNGpAwZ/ONSmf+ywOYSF3H60ULc9/a1ZYKv6EqiQMJ2dm8dOfjm",
            Self::Badge => "sha384-ZxJ2aRpoF/5DJSILWwOES6bmpMg3RZYOfO2CCF8hC/YDNvU+PhCqAnAXq/66nXCq",
        }
    }
}

/// Version of the devnet's former schemas, and of an entry that names none.
const FIRST_VERSION: &str = "1";
/// Version of the devnet's schemas, which have the members and rules of the published ones.
const DEVNET_VERSION: &str = "2";
/// Version of the published schemas.
const PUBLISHED_VERSION: &str = "4";

/// The essential schemas: contents, known by their digests, in ecosystems that are relied on. The default knows the published contents and
/// those of the devnet, and relies on no ecosystem: to it no schema is essential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EssentialSchemas {
    contents: BTreeMap<String, (EssentialCredential, String)>,
    ecosystems: BTreeSet<String>,
}

/// An entry of the configuration does not parse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{entry:?} is not <credential>[@version]=sha384-<base64>, with a credential of {}", EssentialCredential::ALL.map(EssentialCredential::as_str).join(", "))]
pub struct EssentialSchemaError {
    entry: String,
}

impl Default for EssentialSchemas {
    fn default() -> Self {
        let contents = EssentialCredential::ALL.into_iter().flat_map(|essential| {
            let versions = [
                (essential.former_devnet_digest(), FIRST_VERSION),
                (essential.devnet_digest(), DEVNET_VERSION),
                (essential.published_digest(), PUBLISHED_VERSION),
            ];
            versions.map(|(digest, version)| (digest.to_owned(), (essential, version.to_owned())))
        });
        Self { contents: contents.collect(), ecosystems: BTreeSet::new() }
    }
}

impl EssentialSchemas {
    /// The contents of the default and those of comma-separated entries such as `ServiceCredential@5=sha384-…`. Fails for an entry of
    /// another form.
    pub fn from_entries(entries: &str) -> Result<Self, EssentialSchemaError> {
        let mut all = Self::default();
        for entry in entries.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let invalid = || EssentialSchemaError { entry: entry.to_owned() };
            let (name, digest) = entry.split_once('=').ok_or_else(invalid)?;
            let (name, version) = name.split_once('@').unwrap_or((name, FIRST_VERSION));
            let essential =
                EssentialCredential::ALL.into_iter().find(|known| known.as_str() == name).ok_or_else(invalid)?;
            let is_digest = digest.strip_prefix("sha384-").is_some_and(|text| text.len() == 64);
            if !is_digest || version.is_empty() {
                return Err(invalid());
            }
            all.contents.insert(digest.to_owned(), (essential, version.to_owned()));
        }
        Ok(all)
    }

    /// The same contents in these ecosystems, given by their DIDs.
    #[must_use]
    pub fn in_ecosystems(self, dids: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { ecosystems: dids.into_iter().map(Into::into).collect(), ..self }
    }

    /// DIDs of the ecosystems that are relied on.
    pub fn ecosystems(&self) -> impl Iterator<Item = &str> {
        self.ecosystems.iter().map(String::as_str)
    }

    /// A text that differs where two sets of schemas do: verdicts that were made with another one do not hold.
    pub fn fingerprint(&self) -> String {
        let contents = self.contents.iter().map(|(digest, (kind, version))| json!([digest, kind, version]));
        let whole = json!([contents.collect::<Vec<_>>(), self.ecosystems]);
        sri_digest(whole.to_string().as_bytes(), DigestAlgorithm::Sha384)
    }

    /// Whether an ecosystem is relied on.
    pub fn relies_on(&self, ecosystem: &str) -> bool {
        self.ecosystems.contains(ecosystem)
    }

    /// Whether no ecosystem is relied on, so that no schema is essential.
    pub fn is_empty(&self) -> bool {
        self.ecosystems.is_empty()
    }

    /// Kind and version of a schema of an ecosystem, given as JSON text. None when it is not essential.
    pub fn find(&self, schema: &str, ecosystem: &str) -> Option<(EssentialCredential, &str)> {
        self.content(schema).filter(|_| self.relies_on(ecosystem))
    }

    /// Kind and version of a content, in any ecosystem.
    pub fn content(&self, schema: &str) -> Option<(EssentialCredential, &str)> {
        self.contents.get(&schema_digest(schema)?).map(|(essential, version)| (*essential, version.as_str()))
    }
}

/// Digest that identifies a schema: that of its canonical form without `$id`, because the chain adds the `$id`. None for a
/// text that is no JSON object.
pub fn schema_digest(schema: &str) -> Option<String> {
    let mut schema: Value = serde_json::from_str(schema).ok()?;
    schema.as_object_mut()?.shift_remove("$id");
    Some(sri_digest(canonical_json(&schema)?.as_bytes(), DigestAlgorithm::Sha384))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECOSYSTEM: &str = "did:web:ecosystem.example";

    #[test]
    fn the_content_makes_a_schema_essential_and_id_and_layout_do_not_matter() {
        let known = EssentialSchemas::default().in_ecosystems([ECOSYSTEM]);
        for essential in EssentialCredential::ALL {
            let mut schema: Value = serde_json::from_str(essential.schema()).expect("JSON");
            assert_eq!(schema["title"], essential.as_str());
            assert_eq!(schema_digest(essential.schema()).as_deref(), Some(essential.devnet_digest()));
            schema["$id"] = "vpr:svc:net:cs:7".into();
            assert_eq!(known.find(&schema.to_string(), ECOSYSTEM), Some((essential, DEVNET_VERSION)));
            assert_eq!(
                known.find(&serde_json::to_string_pretty(&schema).expect("JSON"), ECOSYSTEM),
                Some((essential, DEVNET_VERSION))
            );
            schema["description"] = "other".into();
            assert_eq!(known.find(&schema.to_string(), ECOSYSTEM), None);
        }
        assert_eq!(known.find("{", ECOSYSTEM), None);
    }

    #[test]
    fn a_copy_in_an_ecosystem_that_is_not_relied_on_is_not_essential() {
        let schema = EssentialCredential::Service.schema();
        let known = EssentialSchemas::default().in_ecosystems([ECOSYSTEM]);
        assert_eq!(known.find(schema, "did:web:copy.example"), None);
        assert_eq!(known.content(schema), Some((EssentialCredential::Service, DEVNET_VERSION)));
        let alone = EssentialSchemas::default();
        assert!(alone.is_empty() && !known.is_empty());
        assert_eq!(alone.find(schema, ECOSYSTEM), None);
        let other = known.clone().in_ecosystems(["did:web:copy.example"]);
        let fingerprints = [&alone, &known, &other].map(EssentialSchemas::fingerprint);
        assert_eq!(BTreeSet::from(fingerprints).len(), 3);
    }

    #[test]
    fn the_published_contents_are_known_and_a_badge_makes_nothing_trusted() {
        let known = EssentialSchemas::default();
        for essential in EssentialCredential::ALL {
            let published = known.contents.get(essential.published_digest());
            assert_eq!(published, Some(&(essential, "4".to_owned())));
        }
        let trusting = EssentialCredential::ALL.into_iter().filter(|one| one.makes_trusted());
        assert_eq!(
            trusting.map(EssentialCredential::as_str).collect::<Vec<_>>(),
            ["ServiceCredential", "OrganizationCredential", "PersonaCredential"]
        );
    }

    #[test]
    fn entries_add_schemas_by_their_digests() {
        let schema = r#"{"title":"x"}"#;
        let entry = format!("PersonaCredential@5={}", schema_digest(schema).expect("a digest"));
        let known = EssentialSchemas::from_entries(&format!(" {entry} ,")).expect("an entry");
        assert_eq!(known.content(schema), Some((EssentialCredential::Persona, "5")));
        for wrong in
            ["PersonaCredential", "Persona=sha384-x", &entry.replace("sha384", "sha256"), &entry.replace('5', "")]
        {
            let error = EssentialSchemas::from_entries(wrong).expect_err("refused").to_string();
            assert!(error.contains(wrong) && error.contains("UserAgentCredential"), "{error}");
        }
    }
}
