//! endpoint-access/1: a peer asks for the material that an endpoint needs. The frames travel as the content of basic messages, because
//! backends of other agents can send and receive those.

mod deny_code;
mod members;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::{Map, Value, json};
use svc_wire::{
    endpoint_access::{MAX_SCOPES, Material, VERSION, VERSION_PREFIX},
    strict_json::parse_strict_json,
    timestamp,
};
use zeroize::Zeroizing;

pub use self::deny_code::DenyCode;
use self::members::{BrokenRule, did_url, list, optional_text, scopes, text, uuid};
use super::basic_message::BasicMessage;
use crate::{limits, message::Message};

/// Bytes of a frame.
pub const MAX_FRAME_BYTES: usize = 16 * 1024;
/// Levels of a frame; its own members are flat.
const MAX_LEVELS: usize = 8;
/// Bytes of a DID URL and of a URL.
const MAX_URL_BYTES: usize = limits::MAX_DID_BYTES;
/// Bytes of a text for people.
const MAX_TEXT_BYTES: usize = 2048;
/// Bytes of a name of a header and of its value.
const MAX_HEADER_BYTES: usize = 8192;

/// A frame of the protocol.
#[derive(Debug, Clone, PartialEq)]
pub enum AccessFrame {
    /// A peer asks for access.
    Request(AccessRequest),
    /// The owner of an endpoint grants it.
    Grant(Box<AccessGrant>),
    /// The owner denies it.
    Denial(AccessDenial),
    /// The owner has taken a grant back.
    Revocation(AccessRevocation),
    /// A request that cannot be read, or is of another version. It is denied where its id can be read.
    UnreadableRequest {
        /// Its id.
        id: Option<String>,
        /// The reason.
        code: DenyCode,
        /// The rule that it breaks.
        rule: String,
    },
    /// Any other frame that cannot be read. It is dropped.
    Unreadable(String),
}

/// A request for the material of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessRequest {
    /// Id of the request, a UUID.
    pub id: String,
    /// DID URL of a service entry of the receiver.
    pub endpoint: String,
    /// The scopes that the sender wants; those of the entry by default.
    pub scopes: Option<Vec<String>>,
    /// The materials that the sender can use; all by default.
    pub accept: Option<Vec<Material>>,
}

/// A grant.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessGrant {
    /// Id of the request.
    pub id: String,
    /// DID URL of the service entry.
    pub endpoint: String,
    /// Its URL.
    pub url: String,
    /// The scopes that are granted.
    pub scopes: Vec<String>,
    /// End of the grant, in seconds since the epoch.
    pub expires_at: Option<i64>,
    /// The material.
    pub material: GrantedMaterial,
}

/// The material of a grant.
#[derive(Debug, Clone, PartialEq)]
pub enum GrantedMaterial {
    /// Nothing is needed.
    None,
    /// A token for the header `Authorization`.
    Bearer {
        /// The token.
        token: MaterialSecret,
    },
    /// A header of a foreign endpoint.
    Key {
        /// Name of the header.
        header: String,
        /// Its value.
        value: MaterialSecret,
    },
    /// A credential that the asker presents by itself.
    Credential {
        /// The schema.
        schema_id: String,
        /// DID of the issuer.
        issuer: String,
    },
}

impl GrantedMaterial {
    /// Its kind.
    pub fn kind(&self) -> Material {
        match self {
            Self::None => Material::None,
            Self::Bearer { .. } => Material::Bearer,
            Self::Key { .. } => Material::Key,
            Self::Credential { .. } => Material::Credential,
        }
    }
}

/// A secret text of a grant. No format shows it, and its memory is wiped when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct MaterialSecret(Zeroizing<String>);

impl MaterialSecret {
    /// Takes ownership of the text.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text. The caller must not format or log it.
    pub fn expose_secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for MaterialSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("MaterialSecret")
    }
}

/// A denial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessDenial {
    /// Id of the request.
    pub id: String,
    /// DID URL of the service entry, where the request named one.
    pub endpoint: Option<String>,
    /// The reason.
    pub code: DenyCode,
    /// For people.
    pub message: String,
    /// Seconds after which another request may be granted.
    pub retry_after: Option<u64>,
}

/// The notice that a grant is void. It has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessRevocation {
    /// Id of the request.
    pub id: String,
    /// DID URL of the service entry.
    pub endpoint: String,
    /// For people.
    pub reason: Option<String>,
}

impl AccessFrame {
    /// Reads the content of a basic message; nothing when it is no frame of any version.
    pub fn read(content: &str) -> Option<Self> {
        let is_candidate = content.trim_start().starts_with('{') && content.contains(VERSION_PREFIX);
        if !is_candidate {
            return None;
        }
        // A text that only looks like a frame must not become a record: it could hold the token of a grant.
        let Ok(Value::Object(members)) = parse_strict_json(content.as_bytes(), MAX_LEVELS) else {
            let is_frame = content.contains("\"endpoint-access/") && content.contains("\"svc\"");
            return is_frame.then(|| Self::Unreadable("it is no JSON object of a few levels".to_owned()));
        };
        let version = members.get("svc").and_then(Value::as_str).filter(|svc| svc.starts_with(VERSION_PREFIX))?;
        let operation = members.get("op").and_then(Value::as_str).unwrap_or_default();
        let is_request = operation == "request";
        let id = uuid(&members).ok();
        if version != VERSION {
            let rule = format!("svc is not {VERSION}");
            let code = DenyCode::UnsupportedVersion;
            return Some(if is_request { Self::UnreadableRequest { id, code, rule } } else { Self::Unreadable(rule) });
        }
        let read = if content.len() > MAX_FRAME_BYTES {
            Err(BrokenRule(format!("the frame is longer than {MAX_FRAME_BYTES} bytes")))
        } else {
            match operation {
                "request" => AccessRequest::read(&members).map(Self::Request),
                "grant" => AccessGrant::read(&members).map(|grant| Self::Grant(Box::new(grant))),
                "deny" => AccessDenial::read(&members).map(Self::Denial),
                "revoked" => AccessRevocation::read(&members).map(Self::Revocation),
                _ => Err(BrokenRule("op is none of request, grant, deny and revoked".to_owned())),
            }
        };
        Some(match read {
            Ok(frame) => frame,
            Err(BrokenRule(rule)) if is_request => Self::UnreadableRequest { id, code: DenyCode::InvalidRequest, rule },
            Err(BrokenRule(rule)) => Self::Unreadable(rule),
        })
    }
}

impl AccessRequest {
    fn read(members: &Map<String, Value>) -> Result<Self, BrokenRule> {
        Ok(Self {
            id: uuid(members)?,
            endpoint: did_url(members, "endpoint")?,
            scopes: scopes(members)?,
            // A material of a later version is one that this endpoint does not need.
            accept: list(members, "accept", MAX_SCOPES, |one| Some(Material::from_name(one)))?
                .map(|named| named.into_iter().flatten().collect()),
        })
    }

    /// The content of its message.
    pub fn to_content(&self) -> String {
        let mut frame = json!({"svc": VERSION, "op": "request", "id": self.id, "endpoint": self.endpoint});
        if let Some(scopes) = &self.scopes {
            frame["scopes"] = json!(scopes);
        }
        if let Some(accept) = &self.accept {
            frame["accept"] = accept.iter().map(|one| one.as_str()).collect();
        }
        frame.to_string()
    }
}

impl AccessGrant {
    fn read(members: &Map<String, Value>) -> Result<Self, BrokenRule> {
        let material = text(members, "material", MAX_TEXT_BYTES)?;
        let secret = |name: &str, max: usize| text(members, name, max).map(MaterialSecret::new);
        let material = match Material::from_name(&material) {
            Some(Material::None) => GrantedMaterial::None,
            Some(Material::Bearer) => {
                if text(members, "token_type", MAX_TEXT_BYTES)? != "Bearer" {
                    return Err(BrokenRule::of("token_type", "is not Bearer"));
                }
                GrantedMaterial::Bearer { token: secret("token", MAX_HEADER_BYTES)? }
            }
            Some(Material::Key) => GrantedMaterial::Key {
                header: text(members, "header", MAX_TEXT_BYTES)?,
                value: secret("value", MAX_HEADER_BYTES)?,
            },
            Some(Material::Credential) => {
                if text(members, "presentation", MAX_TEXT_BYTES)? != "vp+jwt" {
                    return Err(BrokenRule::of("presentation", "is not vp+jwt"));
                }
                GrantedMaterial::Credential {
                    schema_id: text(members, "schema_id", MAX_TEXT_BYTES)?,
                    issuer: text(members, "issuer", MAX_URL_BYTES)?,
                }
            }
            None => return Err(BrokenRule::of("material", "is none of this version")),
        };
        let expires_at = match members.get("expires_at") {
            Some(Value::Null) => None,
            Some(Value::String(text)) => {
                let end = timestamp::parse_rfc3339(text);
                Some(end.ok_or_else(|| BrokenRule::of("expires_at", "is no instant"))?.seconds)
            }
            _ => return Err(BrokenRule::of("expires_at", "is neither an instant nor null")),
        };
        Ok(Self {
            id: uuid(members)?,
            endpoint: did_url(members, "endpoint")?,
            url: text(members, "url", MAX_URL_BYTES)?,
            scopes: scopes(members)?.ok_or_else(|| BrokenRule::of("scopes", "is missing"))?,
            expires_at,
            material,
        })
    }

    /// The content of its message. Equal grants have equal texts.
    pub fn to_content(&self) -> Zeroizing<String> {
        let end = |seconds| timestamp::iso_millis(&timestamp::from_unix_nanos(i128::from(seconds) * 1_000_000_000));
        let mut frame = json!({
            "svc": VERSION,
            "op": "grant",
            "id": self.id,
            "endpoint": self.endpoint,
            "url": self.url,
            "material": self.material.kind().as_str(),
            "scopes": self.scopes,
            "expires_at": self.expires_at.map(end),
        });
        let mut secret = None;
        match &self.material {
            GrantedMaterial::None => {}
            GrantedMaterial::Bearer { token } => {
                secret = Some(("token", token));
                frame["token_type"] = json!("Bearer");
            }
            GrantedMaterial::Key { header, value } => {
                secret = Some(("value", value));
                frame["header"] = json!(header);
            }
            GrantedMaterial::Credential { schema_id, issuer } => {
                frame["schema_id"] = json!(schema_id);
                frame["issuer"] = json!(issuer);
                frame["presentation"] = json!("vp+jwt");
            }
        }
        let mut text = Zeroizing::new(frame.to_string());
        if let Some((name, secret)) = secret {
            // The secret never is a value of the tree, whose memory is not wiped.
            let quoted = Zeroizing::new(serde_json::to_string(secret.expose_secret()).unwrap_or_default());
            text.pop();
            text.push_str(&format!(",\"{name}\":"));
            text.push_str(&quoted);
            text.push('}');
        }
        text
    }
}

impl AccessDenial {
    fn read(members: &Map<String, Value>) -> Result<Self, BrokenRule> {
        let error = members.get("error").and_then(Value::as_object);
        let error = error.ok_or_else(|| BrokenRule::of("error", "is no object"))?;
        Ok(Self {
            id: uuid(members)?,
            endpoint: did_url(members, "endpoint").ok(),
            code: DenyCode::from_name(&text(error, "code", MAX_TEXT_BYTES)?),
            message: optional_text(error, "message", MAX_TEXT_BYTES)?.unwrap_or_default(),
            retry_after: error.get("retry_after").and_then(Value::as_u64),
        })
    }

    /// The content of its message.
    pub fn to_content(&self) -> String {
        let mut frame = json!({"svc": VERSION, "op": "deny", "id": self.id});
        if let Some(endpoint) = &self.endpoint {
            frame["endpoint"] = json!(endpoint);
        }
        frame["error"] = json!({"code": self.code.as_str(), "message": self.message});
        if let Some(seconds) = self.retry_after {
            frame["error"]["retry_after"] = json!(seconds);
        }
        frame.to_string()
    }
}

impl AccessRevocation {
    fn read(members: &Map<String, Value>) -> Result<Self, BrokenRule> {
        Ok(Self {
            id: uuid(members)?,
            endpoint: did_url(members, "endpoint")?,
            reason: optional_text(members, "reason", MAX_TEXT_BYTES)?,
        })
    }

    /// The content of its message.
    pub fn to_content(&self) -> String {
        let mut frame = json!({"svc": VERSION, "op": "revoked", "id": self.id, "endpoint": self.endpoint});
        if let Some(reason) = &self.reason {
            frame["reason"] = json!(reason);
        }
        frame.to_string()
    }
}

/// The message that carries a frame. An answer is in the thread of the request's message. `now` and `end` are in seconds since the epoch.
pub fn frame_message(id: &str, content: &str, thread: Option<&str>, now: i64, end: Option<i64>) -> Message {
    let message = BasicMessage { content: content.to_owned() }.to_message(id, now);
    let message = Message { expires_time: end, ..message };
    match thread {
        Some(thread) => message.in_thread(thread),
        None => message,
    }
}
