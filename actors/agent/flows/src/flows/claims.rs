//! The claims that an applicant asks for: from the call, a file of the operator, or the variables of an essential credential. The first
//! source that exists is taken, and the sources are not merged. The documents that claims name are compared with their digests before the
//! issuer is asked.

use std::{io::ErrorKind, path::PathBuf};

use serde_json::{Map, Value};
use svc_agent_identity::{
    credential_settings::{ClaimSettings, FoundClaims, claims_for, problems_text},
    credentials::DocumentsError,
};
use svc_didcomm::{limits::MAX_JSON_LEVELS, protocol::vt_flow::MAX_CLAIMS_BYTES};
use svc_trust::EssentialCredential;
use svc_wire::strict_json::parse_strict_json;
use tokio::io::AsyncReadExt;

use super::{FlowService, calls::check_claims};

/// Sources of claims.
#[derive(Debug, Clone, Default)]
pub struct ClaimSources {
    /// Folder with a file `<schema id>.json` for each schema.
    pub directory: Option<PathBuf>,
    /// The claims of essential credentials.
    pub essential: ClaimSettings,
}

/// A schema that a credential is wanted of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WantedSchema<'a> {
    /// Id.
    pub id: u64,
    /// The essential credential that it describes.
    pub essential: Option<EssentialCredential>,
    /// The JSON Schema.
    pub json_schema: &'a str,
}

/// The reason for which there are no claims to ask for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClaimsStop {
    /// A source that exists has no usable claims: the flow waits for the operator.
    #[error(transparent)]
    Unreadable(#[from] ClaimsUnreadable),
    /// A document that the claims name is another, or cannot be read.
    #[error("the claims name other documents: {0}")]
    Documents(String),
    /// A server of a document did not answer; it may later.
    #[error("{0}")]
    Unanswered(String),
}

impl FlowService {
    /// The claims for a schema, whose documents have the digests that they name; none where no source exists.
    pub(super) async fn opening_claims(
        &self,
        given: Option<&Map<String, Value>>,
        schema: WantedSchema<'_>,
    ) -> Result<Option<Map<String, Value>>, ClaimsStop> {
        let Some(found) = self.0.claims.claims(given, schema).await? else { return Ok(None) };
        match self.0.issuer.documents.check(&found).await {
            Ok(()) => Ok(Some(found.claims)),
            Err(DocumentsError::Differ(problems)) => Err(ClaimsStop::Documents(problems_text(&problems))),
            Err(DocumentsError::Unanswered(reason)) => Err(ClaimsStop::Unanswered(reason)),
        }
    }
}

/// Claims that have one source, which names each of them.
fn from_source(claims: Map<String, Value>, name: impl Fn(&str) -> String) -> FoundClaims {
    let settings = claims.keys().map(|property| (property.clone(), name(property))).collect();
    FoundClaims { claims, settings }
}

/// A source that exists and has no claims.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClaimsUnreadable {
    /// The file.
    #[error("{}: {reason}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The rule that it breaks, or the error of the system.
        reason: String,
    },
    /// The settings, each with its rule.
    #[error("the settings of the credential do not fit its schema: {0}")]
    Settings(String),
}

impl ClaimSources {
    /// The claims for a schema; none where no source exists.
    pub(crate) async fn claims(
        &self,
        given: Option<&Map<String, Value>>,
        schema: WantedSchema<'_>,
    ) -> Result<Option<FoundClaims>, ClaimsUnreadable> {
        if let Some(given) = given {
            return Ok(Some(from_source(given.clone(), |property| format!("claims.{property}"))));
        }
        if let Some((path, claims)) = self.read_file(schema.id).await? {
            return Ok(Some(from_source(claims, |property| format!("{} {property}", path.display()))));
        }
        let configured = schema.essential.and_then(|kind| Some((kind, self.essential.get(&kind)?)));
        let Some((kind, configured)) = configured.filter(|(_, configured)| !configured.is_empty()) else {
            return Ok(None);
        };
        let found = claims_for(schema.json_schema, kind, configured);
        found.map(Some).map_err(|problems| ClaimsUnreadable::Settings(problems_text(&problems)))
    }

    async fn read_file(&self, schema_id: u64) -> Result<Option<(PathBuf, Map<String, Value>)>, ClaimsUnreadable> {
        let Some(directory) = &self.directory else { return Ok(None) };
        let path = directory.join(format!("{schema_id}.json"));
        let unreadable = |reason: String| ClaimsUnreadable::File { path: path.clone(), reason };
        let file = match tokio::fs::File::open(&path).await {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error.to_string())),
        };
        let mut bytes = Vec::new();
        // One byte more than is allowed shows that there are more.
        let mut bounded = file.take(MAX_CLAIMS_BYTES as u64 + 1);
        bounded.read_to_end(&mut bytes).await.map_err(|error| unreadable(error.to_string()))?;
        if bytes.len() > MAX_CLAIMS_BYTES {
            return Err(unreadable(format!("it has more than {MAX_CLAIMS_BYTES} bytes")));
        }
        let parsed = parse_strict_json(&bytes, MAX_JSON_LEVELS).map_err(|error| unreadable(error.to_string()))?;
        let Value::Object(claims) = parsed else { return Err(unreadable("it is no JSON object".to_owned())) };
        let mut violations = Vec::new();
        check_claims(&mut violations, &claims);
        match violations.into_iter().next() {
            None => Ok(Some((path, claims))),
            Some(violation) => Err(unreadable(violation.message)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use svc_agent_identity::credential_settings::ConfiguredClaims;

    const SCHEMA: &str = r#"{"type": "object", "properties": {"credentialSubject": {"type": "object",
        "properties": {"id": {"type": "string"}, "name": {"type": "string"}}, "required": ["id", "name"]}}}"#;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().cloned().expect("an object")
    }

    #[tokio::test]
    async fn the_first_source_that_exists_is_taken() {
        let directory = tempfile::tempdir().expect("a directory");
        let texts = BTreeMap::from([("NAME".to_owned(), "of a variable".to_owned())]);
        let sources = ClaimSources {
            directory: Some(directory.path().to_owned()),
            essential: BTreeMap::from([(
                EssentialCredential::Organization,
                ConfiguredClaims { texts, ..ConfiguredClaims::default() },
            )]),
        };
        std::fs::write(directory.path().join("4.json"), r#"{"name": "of the file"}"#).expect("written");
        let given = object(json!({"name": "of the call"}));
        let organization = Some(EssentialCredential::Organization);
        for (given, id, essential, expected) in [
            (Some(&given), 4, organization, Some("of the call")),
            (None, 4, organization, Some("of the file")),
            (None, 5, organization, Some("of a variable")),
            (None, 5, Some(EssentialCredential::Service), None),
            (None, 5, None, None),
        ] {
            let schema = WantedSchema { id, essential, json_schema: SCHEMA };
            let claims = sources.claims(given, schema).await.expect("readable").map(|found| found.claims);
            assert_eq!(claims, expected.map(|name| object(json!({"name": name}))), "{id} {essential:?}");
        }
    }

    #[tokio::test]
    async fn a_source_without_claims_is_named_with_the_reason() {
        let directory = tempfile::tempdir().expect("a directory");
        let sources = ClaimSources {
            directory: Some(directory.path().to_owned()),
            essential: BTreeMap::from([(
                EssentialCredential::Service,
                ConfiguredClaims {
                    texts: BTreeMap::from([("OTHER".to_owned(), "x".to_owned())]),
                    ..ConfiguredClaims::default()
                },
            )]),
        };
        let long = format!(r#"{{"a": "{}"}}"#, "x".repeat(MAX_CLAIMS_BYTES));
        let deep = format!(r#"{{"a": {}1{}}}"#, "[".repeat(40), "]".repeat(40));
        for (content, expected) in [
            ("[1]", "no JSON object"),
            ("{", ""),
            (r#"{"a": 1, "a": 2}"#, ""),
            (r#"{"id": "did:web:x"}"#, "the applicant's DID"),
            (long.as_str(), "more than 655360 bytes"),
            (deep.as_str(), ""),
        ] {
            let path = directory.path().join("4.json");
            std::fs::write(&path, content).expect("written");
            let schema = WantedSchema { id: 4, essential: None, json_schema: SCHEMA };
            let refused = sources.claims(None, schema).await.expect_err("unreadable").to_string();
            assert!(refused.starts_with(&path.display().to_string()) && refused.contains(expected), "{refused}");
        }
        let essential = Some(EssentialCredential::Service);
        let refused = sources.claims(None, WantedSchema { id: 5, essential, json_schema: SCHEMA }).await;
        assert!(matches!(refused, Err(ClaimsUnreadable::Settings(text)) if text.contains("NAME")));
    }
}
