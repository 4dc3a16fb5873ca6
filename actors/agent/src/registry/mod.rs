//! The registry as the node states it, and the schemas that ecosystems present in their documents.

mod node_registry;
mod schema_source;

pub(crate) use self::{
    node_registry::{NodeRegistry, SchemaOnChain, all_to_evidence},
    schema_source::{EssentialSource, SchemaCredentials, SchemaSources, name_of},
};
