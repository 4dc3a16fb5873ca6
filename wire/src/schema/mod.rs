//! The schema registry: every message of the chain as descriptors, compiled in or served by a live node.
//!
//! A live network has its own word where this project says `svc`. The registry finds that word, and encodes, decodes and
//! describes any message of it, including fields a newer chain added.

mod describe;
mod json;
mod namespace;
mod registry;

pub use describe::input_schema;
pub use namespace::{COMPILED_WORD, Namespace, NamespaceError};
pub use registry::{Registry, SchemaError, Source, Unknown};
