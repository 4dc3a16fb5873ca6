//! The registry as the node states it, and the schemas that ecosystems present in their documents.

mod missing_schema;
mod node_registry;
mod schema_source;

pub(crate) use self::{
    missing_schema::MissingSchema,
    node_registry::all_to_evidence,
    schema_source::{EssentialSource, SchemaSources, name_of},
};
pub use self::{
    node_registry::{NodeRegistry, SchemaOnChain},
    schema_source::SchemaCredentials,
};
