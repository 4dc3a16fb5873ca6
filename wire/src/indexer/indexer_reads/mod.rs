//! The reads of the indexer as one table: paths, parameters, answers.
//!
//! The table is the file `reads.json` of this crate. The indexer checks requests and writes its OpenAPI document with it; the
//! tool server makes its read tools from it.

mod response_schema;
mod rules;

use std::{collections::HashMap, sync::LazyLock};

use serde::Deserialize;

pub use response_schema::{SchemaDetail, field_words};
pub use rules::ArgumentRule;

/// One read.
#[derive(Debug, Deserialize)]
pub struct ReadEndpoint {
    /// `<module>.<verb>`
    pub operation: String,
    /// HTTP method.
    #[serde(default)]
    pub method: HttpMethod,
    /// Path with its parameters in braces.
    pub path: String,
    /// Parameters.
    pub params: Vec<ReadParam>,
    /// Rules about several of them.
    #[serde(default)]
    pub rules: Vec<ArgumentRule>,
    /// Shape of the answer.
    pub response: ResponseShape,
}

/// HTTP method of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HttpMethod {
    /// With a query.
    #[default]
    Get,
    /// With a JSON body.
    Post,
}

/// Type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadParamType {
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
    /// Comma-separated texts.
    Texts,
    /// Comma-separated DIDs.
    Dids,
    /// Comma-separated ids.
    Ids,
    /// A UUID.
    Uuid,
    /// A cursor of an earlier answer.
    Cursor,
    /// `true`, or an object with filters.
    Selector,
    /// An object.
    Object,
}

/// Location of a parameter in the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ParamLocation {
    /// In the path.
    Path,
    /// In the query.
    Query,
    /// In the body.
    Body,
}

/// One parameter.
#[derive(Debug, Deserialize)]
pub struct ReadParam {
    /// Name.
    pub name: String,
    /// Location in the request.
    #[serde(rename = "in")]
    pub location: ParamLocation,
    /// Type.
    #[serde(rename = "type")]
    pub param_type: ReadParamType,
    /// Least value of a number. On a list of DIDs: each element must be a DID.
    pub min: Option<u64>,
    /// Greatest value of a number, or greatest length of a list.
    pub max: Option<u64>,
    /// Allowed values.
    #[serde(rename = "enum", default)]
    pub allowed: Vec<String>,
    /// Whether a request without it is refused.
    #[serde(default)]
    pub required: bool,
    /// Value when it is absent.
    pub default: Option<String>,
    /// One sentence for people and models.
    pub description: String,
}

/// The reads that have no past. They ignore `At-Block-Height`.
const OPERATIONS_WITHOUT_HEIGHT: [&str; 5] =
    ["indexer.getBlockHeight", "indexer.getStatus", "indexer.getVersion", "indexer.listEvents", "trqp.getProfile"];

impl ReadEndpoint {
    /// Whether the read is about the state at a height.
    pub fn has_height(&self) -> bool {
        !OPERATIONS_WITHOUT_HEIGHT.contains(&self.operation.as_str())
    }
}

/// Shape of an answer.
#[derive(Debug, Deserialize)]
pub struct ResponseShape {
    /// Key around the entity or the list.
    pub wrapper: Option<String>,
    /// Layout under that key.
    pub kind: ResponseLayout,
    /// Fields of the entity, of each row, or of the answer itself.
    pub fields: Vec<ResponseField>,
    /// Fields beside the wrapper.
    pub top: Vec<ResponseField>,
}

/// Layout of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResponseLayout {
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
pub struct ResponseField {
    /// Name; dots lead into objects, brackets into lists.
    pub name: String,
    /// Type as a short text, such as `uint64 number` or `ISO ms`.
    #[serde(rename = "type")]
    pub type_text: String,
    /// Whether it may be null.
    #[serde(default)]
    pub nullable: bool,
    /// Whether it may be absent.
    #[serde(default)]
    pub optional: bool,
}

/// The table of reads cannot be used, or lacks a read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadTableError {
    /// The table that is compiled into this program does not parse.
    #[error("the compiled-in table of reads (reads.json) is not valid: {reason}; build the program again")]
    InvalidTable {
        /// Text of the JSON parser.
        reason: String,
    },
    /// The table has no read of this name.
    #[error("the table of reads has no operation {operation:?}")]
    UnknownOperation {
        /// The name.
        operation: String,
    },
}

/// Every read, in the order of the table. Fails when the compiled-in table does not parse.
pub fn read_endpoints() -> Result<&'static [ReadEndpoint], ReadTableError> {
    static TABLE: LazyLock<Result<Vec<ReadEndpoint>, ReadTableError>> = LazyLock::new(|| {
        serde_json::from_str(include_str!("../../../reads.json"))
            .map_err(|error| ReadTableError::InvalidTable { reason: error.to_string() })
    });
    TABLE.as_deref().map_err(Clone::clone)
}

/// The read of one operation. Fails when the table does not parse, or has no such operation.
pub fn find_endpoint(operation: &str) -> Result<&'static ReadEndpoint, ReadTableError> {
    type EndpointIndex = HashMap<&'static str, &'static ReadEndpoint>;
    static BY_NAME: LazyLock<Result<EndpointIndex, ReadTableError>> = LazyLock::new(|| {
        Ok(read_endpoints()?.iter().map(|endpoint| (endpoint.operation.as_str(), endpoint)).collect())
    });
    let index = BY_NAME.as_ref().map_err(Clone::clone)?;
    let unknown = || ReadTableError::UnknownOperation { operation: operation.to_owned() };
    index.get(operation).copied().ok_or_else(unknown)
}

impl ReadEndpoint {
    /// Registry module of the read: the text before the dot of its operation.
    pub fn module(&self) -> &str {
        self.operation.split('.').next().unwrap_or_default()
    }

    /// Whether it is a trust read: a verdict on a DID, or TRQP. An indexer that evaluates no trust lacks some of them.
    pub fn needs_trust(&self) -> bool {
        matches!(self.module(), "vt" | "trqp")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_loads_and_its_paths_name_its_path_parameters() {
        let endpoints = read_endpoints().expect("the table parses");
        assert_eq!(endpoints.len(), 57);
        for endpoint in endpoints {
            for param in &endpoint.params {
                assert_eq!(
                    param.location == ParamLocation::Path,
                    endpoint.path.contains(&format!("{{{}}}", param.name)),
                    "{}: {}",
                    endpoint.operation,
                    param.name
                );
                assert_eq!(
                    param.location == ParamLocation::Body,
                    endpoint.method == HttpMethod::Post,
                    "{}",
                    endpoint.operation
                );
            }
        }
    }

    #[test]
    fn an_operation_outside_of_the_table_is_an_error_with_its_name() {
        assert_eq!(find_endpoint("vt.listChanges").map(|found| found.module()), Ok("vt"));
        let error = find_endpoint("vt.unknown").expect_err("not in the table");
        assert!(error.to_string().contains("\"vt.unknown\""), "{error}");
    }
}
