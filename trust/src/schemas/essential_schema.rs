//! Essential credential schemas: those of the credentials that describe a service and its operator. The content of a schema
//! makes it essential. Its title does not, because any party can use any title.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
}

impl EssentialCredential {
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

    /// Whether it names the operator of a service.
    pub fn names_operator(self) -> bool {
        matches!(self, Self::Organization | Self::Persona)
    }

    /// Text of the JSON Schema that is compiled into this program.
    pub fn schema(self) -> &'static str {
        match self {
            Self::Service => include_str!("../../schemas/service.json"),
            Self::Organization => include_str!("../../schemas/organization.json"),
            Self::Persona => include_str!("../../schemas/persona.json"),
            Self::UserAgent => include_str!("../../schemas/user-agent.json"),
        }
    }

    /// Digest of [`Self::schema`]. A constant, so that no schema can be missing at run time; a test compares them.
    fn builtin_digest(self) -> &'static str {
        match self {
            Self::Service => "sha384-g0acIFg7HoEPQ5P6vJr7wMKJ/JhBIIecmeVG8ROdidXVJgWQmIcgkrD5u26Qd0tP",
            Self::Organization => "sha384-pJGLXiqPfhfY9/P9IMkHNpXBzaHnN8tXbGpV8qXA+HnVjVd8NWirdhjNSzJsy/1s",
            Self::Persona => "sha384-KgGBjrzz9cWpyeIwW3PZREOgmHS3WCoMENenKhT5Wm/+vxE+sky44zR2MthQNwsA",
            Self::UserAgent => "sha384-gplySaXIKCujWgCXH2TtC2ADp+kLFat1lsUwuXXZOHYFVoFxk0csg6J5FGndNVPc",
        }
    }
}

/// Version of the compiled-in schemas.
const BUILTIN_VERSION: &str = "1";

/// The essential schemas, by the digest of their content. The default has the compiled-in ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EssentialSchemas(BTreeMap<String, (EssentialCredential, String)>);

/// An entry of the configuration does not parse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{entry:?} is not <credential>[@version]=sha384-<base64>, with a credential of {}", EssentialCredential::ALL.map(EssentialCredential::as_str).join(", "))]
pub struct EssentialSchemaError {
    entry: String,
}

impl Default for EssentialSchemas {
    fn default() -> Self {
        let builtin = EssentialCredential::ALL
            .map(|essential| (essential.builtin_digest().to_owned(), (essential, BUILTIN_VERSION.to_owned())));
        Self(builtin.into())
    }
}

impl EssentialSchemas {
    /// The compiled-in schemas and those of comma-separated entries such as `ServiceCredential@4=sha384-…`. Fails for an entry
    /// of another form.
    pub fn from_entries(entries: &str) -> Result<Self, EssentialSchemaError> {
        let mut all = Self::default();
        for entry in entries.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let invalid = || EssentialSchemaError { entry: entry.to_owned() };
            let (name, digest) = entry.split_once('=').ok_or_else(invalid)?;
            let (name, version) = name.split_once('@').unwrap_or((name, BUILTIN_VERSION));
            let essential =
                EssentialCredential::ALL.into_iter().find(|known| known.as_str() == name).ok_or_else(invalid)?;
            let is_digest = digest.strip_prefix("sha384-").is_some_and(|text| text.len() == 64);
            if !is_digest || version.is_empty() {
                return Err(invalid());
            }
            all.0.insert(digest.to_owned(), (essential, version.to_owned()));
        }
        Ok(all)
    }

    /// Kind and version of a schema, given as JSON text. None when it is not essential.
    pub fn find(&self, schema: &str) -> Option<(EssentialCredential, &str)> {
        self.0.get(&schema_digest(schema)?).map(|(essential, version)| (*essential, version.as_str()))
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

    #[test]
    fn the_content_makes_a_schema_essential_and_id_and_layout_do_not_matter() {
        let known = EssentialSchemas::default();
        for essential in EssentialCredential::ALL {
            let mut schema: Value = serde_json::from_str(essential.schema()).expect("JSON");
            assert_eq!(schema["title"], essential.as_str());
            assert_eq!(schema_digest(essential.schema()).as_deref(), Some(essential.builtin_digest()));
            schema["$id"] = "vpr:svc:net:cs:7".into();
            assert_eq!(known.find(&schema.to_string()), Some((essential, "1")));
            schema["description"] = "other".into();
            assert_eq!(known.find(&schema.to_string()), None);
        }
        assert_eq!(known.find("{"), None);
    }

    #[test]
    fn entries_add_schemas_by_their_digests() {
        let schema = r#"{"title":"x"}"#;
        let entry = format!("PersonaCredential@4={}", schema_digest(schema).expect("a digest"));
        let known = EssentialSchemas::from_entries(&format!(" {entry} ,")).expect("an entry");
        assert_eq!(known.find(schema), Some((EssentialCredential::Persona, "4")));
        for wrong in
            ["PersonaCredential", "Persona=sha384-x", &entry.replace("sha384", "sha256"), &entry.replace('4', "")]
        {
            let error = EssentialSchemas::from_entries(wrong).expect_err("refused").to_string();
            assert!(error.contains(wrong) && error.contains("UserAgentCredential"), "{error}");
        }
    }
}
