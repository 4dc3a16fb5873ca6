//! Essential credential schemas: those by which a registry says what a service is and who answers for it. A schema is essential
//! by its content, never by its title, which anybody can take.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::{Algorithm, canonical, sri};

/// What an essential credential says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Essential {
    /// What a service is.
    #[serde(rename = "ServiceCredential")]
    Service,
    /// The organisation behind it.
    #[serde(rename = "OrganizationCredential")]
    Organization,
    /// The person behind it.
    #[serde(rename = "PersonaCredential")]
    Persona,
    /// A program that acts for a person.
    #[serde(rename = "UserAgentCredential")]
    UserAgent,
}

impl Essential {
    const ALL: [Self; 4] = [Self::Service, Self::Organization, Self::Persona, Self::UserAgent];

    /// Name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Service => "ServiceCredential",
            Self::Organization => "OrganizationCredential",
            Self::Persona => "PersonaCredential",
            Self::UserAgent => "UserAgentCredential",
        }
    }

    /// Whether it names who answers for a service.
    pub fn names_operator(self) -> bool {
        matches!(self, Self::Organization | Self::Persona)
    }

    /// The schema that comes with this program.
    pub fn schema(self) -> &'static str {
        match self {
            Self::Service => include_str!("../schemas/service.json"),
            Self::Organization => include_str!("../schemas/organization.json"),
            Self::Persona => include_str!("../schemas/persona.json"),
            Self::UserAgent => include_str!("../schemas/user-agent.json"),
        }
    }
}

/// Version of the schemas that come with this program.
const OWN_VERSION: &str = "1";

/// Which schemas are essential, by the digest of their content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EssentialSchemas(BTreeMap<String, (Essential, String)>);

/// An entry that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{entry:?} is not <credential>[@version]=sha384-<base64>, with a credential of {}", Essential::ALL.map(Essential::as_str).join(", "))]
pub struct EntryError {
    entry: String,
}

impl Default for EssentialSchemas {
    fn default() -> Self {
        let own = Essential::ALL
            .into_iter()
            .filter_map(|essential| Some((digest(essential.schema())?, (essential, OWN_VERSION.to_owned()))));
        Self(own.collect())
    }
}

impl EssentialSchemas {
    /// Those of this program and others, as `ServiceCredential@4=sha384-…`, behind commas.
    pub fn with(entries: &str) -> Result<Self, EntryError> {
        let mut all = Self::default();
        for entry in entries.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let wrong = || EntryError { entry: entry.to_owned() };
            let (name, digest) = entry.split_once('=').ok_or_else(wrong)?;
            let (name, version) = name.split_once('@').unwrap_or((name, OWN_VERSION));
            let essential = Essential::ALL.into_iter().find(|known| known.as_str() == name).ok_or_else(wrong)?;
            let is_digest = digest.strip_prefix("sha384-").is_some_and(|text| text.len() == 64);
            if !is_digest || version.is_empty() {
                return Err(wrong());
            }
            all.0.insert(digest.to_owned(), (essential, version.to_owned()));
        }
        Ok(all)
    }

    /// What a schema is, and in which version, if it is essential.
    pub fn of(&self, schema: &str) -> Option<(Essential, &str)> {
        self.0.get(&digest(schema)?).map(|(essential, version)| (*essential, version.as_str()))
    }
}

/// The digest by which a schema is known: that of its canonical form without `$id`, which the chain writes into it.
pub fn digest(schema: &str) -> Option<String> {
    let mut schema: Value = serde_json::from_str(schema).ok()?;
    schema.as_object_mut()?.remove("$id");
    Some(sri(canonical(&schema)?.as_bytes(), Algorithm::Sha384))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_essential_by_its_content_whatever_its_id_and_layout() {
        let known = EssentialSchemas::default();
        for essential in Essential::ALL {
            let mut schema: Value = serde_json::from_str(essential.schema()).expect("JSON");
            assert_eq!(schema["title"], essential.as_str());
            schema["$id"] = "vpr:svc:net:cs:7".into();
            assert_eq!(known.of(&schema.to_string()), Some((essential, "1")));
            schema["description"] = "other".into();
            assert_eq!(known.of(&schema.to_string()), None);
        }
        assert_eq!(known.of("{"), None);
    }

    #[test]
    fn further_schemas_are_named_by_their_digests() {
        let schema = r#"{"title":"x"}"#;
        let entry = format!("PersonaCredential@4={}", digest(schema).expect("a digest"));
        let known = EssentialSchemas::with(&format!(" {entry} ,")).expect("an entry");
        assert_eq!(known.of(schema), Some((Essential::Persona, "4")));
        for wrong in
            ["PersonaCredential", "Persona=sha384-x", &entry.replace("sha384", "sha256"), &entry.replace('4', "")]
        {
            let error = EssentialSchemas::with(wrong).expect_err("refused").to_string();
            assert!(error.contains(wrong) && error.contains("UserAgentCredential"), "{error}");
        }
    }
}
