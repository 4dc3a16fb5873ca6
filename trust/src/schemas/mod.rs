//! JSON Schemas of credentials: validation, and the schemas that are essential.

pub mod essential_schema;
pub mod schema_validation;
