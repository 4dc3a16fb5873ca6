//! The protobuf registry: descriptors of every message of the chain, compiled in or served by a live node.
//!
//! The package names of a live network begin with its own namespace instead of `svc`. The registry finds that namespace in the
//! descriptors. It encodes, decodes and describes any message of the network, including fields that a newer chain added.

mod amino;
mod comparison;
#[cfg(test)]
mod comparison_tests;
#[cfg(test)]
mod contract_tests;
mod derived;
mod generation;
#[cfg(test)]
mod generation_tests;
mod input_schema;
mod json_mapping;
mod namespace;
mod query_string;
mod registry;

pub use comparison::{DescriptorComparison, DescriptorDifference, MessageProblem, describe_differences};
pub use generation::{GenerationAnswers, NodeGeneration};
pub use input_schema::input_schema;
pub use namespace::{COMPILED_NAMESPACE, Namespace, NamespaceError};
pub use registry::{DescriptorSource, ProtoRegistry, ProtoRegistryError, RpcMethod, UnknownFieldPolicy};
