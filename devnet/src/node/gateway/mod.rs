//! The other two ways to a node's queries: REST, as the gateway of the Cosmos SDK serves it, and gRPC with reflection. Both ask the same
//! handlers as `abci_query`.

mod answer;
mod grpc;
pub(super) mod rest;
mod routes;

pub(super) use grpc::serve_grpc;
pub(super) use rest::serve_rest;
