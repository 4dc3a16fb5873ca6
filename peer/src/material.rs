//! The material of an endpoint, as the own agent hands it over.

use std::fmt;

use serde_json::Value;
use svc_wire::{endpoint_access::Material, secret::SecretString};

use crate::json_member::take_text;

/// The material of an endpoint that the caller has been granted access to.
#[derive(Debug)]
pub struct AccessMaterial {
    /// Id of the request, by which another material is asked for when the endpoint has refused this one.
    pub request_id: String,
    /// DID URL of the endpoint.
    pub endpoint: String,
    /// Its URL, to which alone the secret may be sent.
    pub url: String,
    /// The scopes that were granted.
    pub scopes: Vec<String>,
    /// End of the grant, RFC 3339.
    pub expires_at: Option<String>,
    /// The secret, by the kind of material.
    pub secret: MaterialKind,
}

/// The kinds of material. Their secrets are overwritten when they are dropped.
pub enum MaterialKind {
    /// Nothing: the session was the proof of trust.
    None,
    /// A token for the header `Authorization`.
    Bearer(SecretString),
    /// Name and value of a header.
    Key(String, SecretString),
    /// A credential of this schema and issuer, which the agent presents to the URL.
    Credential {
        /// Schema of the registry.
        schema_id: String,
        /// DID of the issuer.
        issuer: String,
    },
}

impl MaterialKind {
    /// Its name in the protocol.
    pub fn kind(&self) -> Material {
        match self {
            Self::None => Material::None,
            Self::Bearer(_) => Material::Bearer,
            Self::Key(..) => Material::Key,
            Self::Credential { .. } => Material::Credential,
        }
    }
}

impl fmt::Debug for MaterialKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.kind().as_str())
    }
}

impl AccessMaterial {
    /// Takes the answer of the agent apart; `None` when it has another form.
    pub fn from_json(mut answer: Value) -> Option<Self> {
        let mut text = |name: &str| take_text(&mut answer, name);
        let secret = match Material::from_name(&text("material")?)? {
            Material::None => MaterialKind::None,
            Material::Bearer => MaterialKind::Bearer(SecretString::new(text("token")?)),
            Material::Key => MaterialKind::Key(text("header")?, SecretString::new(text("value")?)),
            Material::Credential => MaterialKind::Credential { schema_id: text("schemaId")?, issuer: text("issuer")? },
        };
        let (request_id, endpoint, url) = (text("requestId")?, text("endpoint")?, text("url")?);
        let expires_at = text("expiresAt");
        let scopes = answer["scopes"].as_array().into_iter().flatten();
        let scopes = scopes.filter_map(|scope| scope.as_str().map(str::to_owned)).collect();
        Some(Self { request_id, endpoint, url, scopes, expires_at, secret })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_material_is_read_and_no_secret_is_shown() {
        let base = json!({"requestId": "r", "endpoint": "did:web:a#mcp", "url": "https://a/mcp", "scopes": ["mcp:read"],
            "expiresAt": null});
        for (material, members) in [
            ("none", json!({})),
            ("bearer", json!({"token": "planted"})),
            ("key", json!({"header": "X-Api-Key", "value": "planted"})),
            ("credential", json!({"schemaId": "7", "issuer": "did:web:i"})),
        ] {
            let mut answer = base.clone();
            answer["material"] = material.into();
            for (name, value) in members.as_object().expect("members") {
                answer[name] = value.clone();
            }
            let read = AccessMaterial::from_json(answer.clone()).expect("readable");
            assert_eq!((read.secret.kind().as_str(), read.scopes.len()), (material, 1));
            assert!(!format!("{read:?}").contains("planted"));
            for (name, _) in members.as_object().expect("members") {
                let mut without = answer.clone();
                without[name] = Value::Null;
                assert!(AccessMaterial::from_json(without).is_none(), "{material} without {name}");
            }
        }
        assert!(AccessMaterial::from_json(json!({"material": "other"})).is_none());
    }
}
