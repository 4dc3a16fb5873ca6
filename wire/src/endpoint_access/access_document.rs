//! The document that says which endpoint of a DID needs which material. It is advice: the answer in the session decides.

use serde_json::{Map, Value, json};

use super::{DOCUMENT_FILE, JWKS_FILE, Material, REVOKED_FILE, VERSION};
use crate::verification_method::{absolute_did_url, did_of_url};

/// Lines of one document that are read.
const MAX_LINES: usize = 1_000;

/// The requirements of a DID's endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessDocument {
    /// DID of the agent that grants.
    pub issuer: String,
    /// URL of the keys of its tokens.
    pub jwks_uri: String,
    /// URL of the grants that it has revoked.
    pub revocation_list: String,
    /// Life of a token, in seconds.
    pub token_seconds: i64,
    /// The endpoints; one without a line needs nothing.
    pub endpoints: Vec<EndpointLine>,
}

/// The requirement of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointLine {
    /// DID URL of the service entry.
    pub id: String,
    /// The material that it needs.
    pub material: Material,
    /// The scopes that can be granted.
    pub scopes: Vec<String>,
    /// Those of a request that names none.
    pub default_scopes: Vec<String>,
    /// The schema of the credential, where one is needed.
    pub schema_id: Option<String>,
    /// DID of its issuer.
    pub issuer: Option<String>,
}

impl AccessDocument {
    /// Makes the document of a DID whose files lie below `base`, a URL without a slash at its end.
    pub fn new(did: &str, base: &str, token_seconds: i64, endpoints: Vec<EndpointLine>) -> Self {
        Self {
            issuer: did.to_owned(),
            jwks_uri: format!("{base}/{JWKS_FILE}"),
            revocation_list: format!("{base}/{REVOKED_FILE}"),
            token_seconds,
            endpoints,
        }
    }

    /// Returns the URL of the document of a DID whose files lie below `base`.
    pub fn url(base: &str) -> String {
        format!("{base}/{DOCUMENT_FILE}")
    }

    /// The document as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "svc": VERSION,
            "issuer": self.issuer,
            "jwks_uri": self.jwks_uri,
            "revocation_list": self.revocation_list,
            "token_seconds": self.token_seconds,
            "endpoints": self.endpoints.iter().map(EndpointLine::to_json).collect::<Vec<_>>(),
        })
    }

    /// Reads the document of a DID; `None` when it is of another version or DID. Lines that cannot be read are left out: the answer in
    /// the session decides.
    pub fn read(document: &Value, did: &str) -> Option<Self> {
        let text = |name: &str| document[name].as_str().map(str::to_owned);
        if document["svc"] != VERSION || document["issuer"] != did {
            return None;
        }
        let lines = document["endpoints"].as_array()?.iter().take(MAX_LINES);
        Some(Self {
            issuer: did.to_owned(),
            jwks_uri: text("jwks_uri")?,
            revocation_list: text("revocation_list")?,
            token_seconds: document["token_seconds"].as_i64()?,
            endpoints: lines.filter_map(|line| EndpointLine::read(line, did)).collect(),
        })
    }

    /// The line of an endpoint.
    pub fn line(&self, endpoint: &str) -> Option<&EndpointLine> {
        self.endpoints.iter().find(|line| line.id == endpoint)
    }
}

impl EndpointLine {
    fn to_json(&self) -> Value {
        let mut line = Map::new();
        line.insert("id".to_owned(), json!(self.id));
        line.insert("material".to_owned(), json!(self.material.as_str()));
        line.insert("scopes".to_owned(), json!(self.scopes));
        line.insert("default_scopes".to_owned(), json!(self.default_scopes));
        for (name, value) in [("schema_id", &self.schema_id), ("issuer", &self.issuer)] {
            if let Some(value) = value {
                line.insert(name.to_owned(), json!(value));
            }
        }
        Value::Object(line)
    }

    fn read(line: &Value, did: &str) -> Option<Self> {
        let id = absolute_did_url(did, line["id"].as_str()?);
        let scopes = |name: &str| -> Option<Vec<String>> {
            let list = line[name].as_array().map(Vec::as_slice).unwrap_or_default();
            let list: Option<Vec<String>> = list.iter().map(|one| one.as_str().map(str::to_owned)).collect();
            list.filter(|list| super::scope::is_scope_set(list))
        };
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        (did_of_url(&id) == did).then_some(())?;
        Some(Self {
            material: Material::from_name(line["material"].as_str()?)?,
            scopes: scopes("scopes")?,
            default_scopes: scopes("default_scopes")?,
            schema_id: text("schema_id"),
            issuer: text("issuer"),
            id,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_read_as_it_is_written_and_lines_of_others_are_left_out() {
        let did = "did:web:a.example";
        let line = |fragment: &str, material| EndpointLine {
            id: format!("{did}#{fragment}"),
            material,
            scopes: vec!["mcp:read".into()],
            default_scopes: vec!["mcp:read".into()],
            schema_id: (material == Material::Credential).then(|| "7".to_owned()),
            issuer: (material == Material::Credential).then(|| "did:web:issuer".to_owned()),
        };
        let lines = vec![line("mcp", Material::Bearer), line("site", Material::Credential)];
        let document = AccessDocument::new(did, "https://a.example", 600, lines);
        let expected = json!({"svc": "endpoint-access/1", "issuer": did,
            "jwks_uri": "https://a.example/endpoint-access-jwks.json",
            "revocation_list": "https://a.example/endpoint-access-revoked.json", "token_seconds": 600,
            "endpoints": [
                {"id": "did:web:a.example#mcp", "material": "bearer", "scopes": ["mcp:read"], "default_scopes": ["mcp:read"]},
                {"id": "did:web:a.example#site", "material": "credential", "scopes": ["mcp:read"],
                    "default_scopes": ["mcp:read"], "schema_id": "7", "issuer": "did:web:issuer"}]});
        assert_eq!(document.to_json(), expected);
        assert_eq!(AccessDocument::read(&expected, did), Some(document));
        assert_eq!(AccessDocument::read(&expected, "did:web:b.example"), None);
        let mut foreign = expected;
        foreign["endpoints"] = json!([{"id": "did:web:b.example#mcp", "material": "none"}, 7, {"id": "#x", "material": "gold"},
            {"id": "#x", "material": "none", "scopes": ["A"]}, {"id": "#y", "material": "none"}]);
        let read = AccessDocument::read(&foreign, did).expect("a document");
        assert_eq!(read.endpoints.iter().map(|line| line.id.as_str()).collect::<Vec<_>>(), ["did:web:a.example#y"]);
    }
}
