//! The indexer's reads as a table: paths, parameters and answers. Made from it: the indexer's checks and OpenAPI document, the
//! tool server's tools, the tests of both.

mod schema;

use std::{collections::HashMap, sync::LazyLock};

use serde::Deserialize;

/// One read.
#[derive(Debug, Deserialize)]
pub struct Endpoint {
    /// `<module>.<verb>`
    pub operation: String,
    /// How it is asked.
    #[serde(default)]
    pub method: Method,
    /// Path with its parameters in braces.
    pub path: String,
    /// Parameters.
    pub params: Vec<Param>,
    /// Shape of the answer.
    pub response: Shape,
}

/// How a read is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// With a query.
    #[default]
    Get,
    /// With a JSON body.
    Post,
}

/// Type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ParamType {
    /// A whole number of 1 or more.
    Id,
    /// A whole number of 0 or more.
    Uint,
    /// A whole number of any length.
    Digits,
    /// `true` or `false`.
    Flag,
    /// One of a list.
    Enum,
    /// RFC 3339.
    Instant,
    /// Any text.
    Text,
    /// Texts behind commas.
    Texts,
    /// DIDs behind commas.
    Dids,
    /// Ids behind commas.
    Ids,
    /// A UUID.
    Uuid,
    /// A cursor an earlier answer gave.
    Cursor,
    /// `true`, or an object that says which.
    Selector,
    /// An object.
    Object,
}

/// Where a parameter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// In the path.
    Path,
    /// In the query.
    Query,
    /// In the body.
    Body,
}

/// One parameter.
#[derive(Debug, Deserialize)]
pub struct Param {
    /// Name.
    pub name: String,
    /// Where it stands.
    #[serde(rename = "in")]
    pub place: Place,
    /// Type.
    #[serde(rename = "type")]
    pub kind: ParamType,
    /// Least value of a number; of a list of DIDs, that each of them must be one.
    pub min: Option<u64>,
    /// Greatest value of a number, or most elements of a list.
    pub max: Option<u64>,
    /// Allowed values.
    #[serde(rename = "enum", default)]
    pub allowed: Vec<String>,
    /// Whether it must be there.
    #[serde(default)]
    pub required: bool,
    /// Value when it is absent.
    pub default: Option<String>,
    /// For people.
    pub description: String,
}

/// Shape of an answer.
#[derive(Debug, Deserialize)]
pub struct Shape {
    /// Key around the entity or the list.
    pub wrapper: Option<String>,
    /// What it wraps.
    pub kind: Wrapping,
    /// Fields of the entity, of each row, or of the answer itself.
    pub fields: Vec<Field>,
    /// Fields beside the wrapper.
    pub top: Vec<Field>,
}

/// What an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wrapping {
    /// One entity under a key.
    Object,
    /// A list under a key.
    Array,
    /// Fields without a key around them.
    Flat,
    /// A document of its own.
    Raw,
}

/// One field of an answer.
#[derive(Debug, Deserialize)]
pub struct Field {
    /// Name; dots lead into objects, brackets into lists.
    pub name: String,
    /// Type in words.
    #[serde(rename = "type")]
    pub kind: String,
    /// May be null.
    #[serde(default)]
    pub nullable: bool,
    /// May be absent.
    #[serde(default)]
    pub optional: bool,
}

/// Every read.
pub fn endpoints() -> &'static [Endpoint] {
    static TABLE: LazyLock<Vec<Endpoint>> = LazyLock::new(|| {
        // The file is part of the program; a test reads it.
        serde_json::from_str(include_str!("../../reads.json")).unwrap_or_default()
    });
    &TABLE
}

/// A read by its name.
pub fn endpoint(operation: &str) -> Option<&'static Endpoint> {
    static BY_NAME: LazyLock<HashMap<&'static str, &'static Endpoint>> =
        LazyLock::new(|| endpoints().iter().map(|endpoint| (endpoint.operation.as_str(), endpoint)).collect());
    BY_NAME.get(operation).copied()
}

impl Endpoint {
    /// The part of the registry it is about.
    pub fn module(&self) -> &str {
        self.operation.split('.').next().unwrap_or_default()
    }

    /// Whether it is a trust read: of what a DID is worth, or of TRQP. An indexer that evaluates no trust lacks some of them.
    pub fn needs_trust(&self) -> bool {
        matches!(self.module(), "vt" | "trqp")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_loads_and_its_paths_name_its_path_parameters() {
        assert_eq!(endpoints().len(), 57);
        for endpoint in endpoints() {
            for param in &endpoint.params {
                assert_eq!(
                    param.place == Place::Path,
                    endpoint.path.contains(&format!("{{{}}}", param.name)),
                    "{}: {}",
                    endpoint.operation,
                    param.name
                );
                assert_eq!(param.place == Place::Body, endpoint.method == Method::Post, "{}", endpoint.operation);
            }
        }
    }
}
